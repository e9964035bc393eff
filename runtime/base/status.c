#include <lockstep/status.h>

static const struct {
    int exit_code;
    const char *text;
} table[LS_STATUS_COUNT] = {
#define LS_STATUS(name, exit_code, text) [LS_##name] = {exit_code, text},
#include <lockstep/status.def>
#undef LS_STATUS
};

static ls_status checked(ls_status status)
{
    return (unsigned)status < LS_STATUS_COUNT ? status : LS_ERR_INTERNAL;
}

const char *ls_status_text(ls_status status)
{
    return table[checked(status)].text;
}

int ls_status_exit_code(ls_status status)
{
    return table[checked(status)].exit_code;
}
