#include "launch/policy.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include <lockstep/status.h>

/* Every status of the runtime once; what is not in status.def ends a process without the runtime's doing. */
static bool restarts(ls_status status)
{
    return status == LS_ERR_DEVICE || status == LS_ERR_COMM || status == LS_ERR_TIMEOUT;
}

static const struct {
    int code;
    ls_status status;
    const char *text;
} codes[] = {
#define LS_STATUS(name, exit_code, text) {exit_code, LS_##name, text},
#include <lockstep/status.def>
#undef LS_STATUS
};
enum { N_CODES = sizeof codes / sizeof codes[0], SIGNAL_BASE = 128, NOT_FOUND = 127, NOT_EXECUTABLE = 126 };

bool lsi_launch_policy_restarts(int code)
{
    for (int i = 0; i < N_CODES; i++) {
        if (codes[i].code == code) {
            return restarts(codes[i].status);
        }
    }
    return code != NOT_FOUND && code != NOT_EXECUTABLE;
}

/* Appends "5 device error, 6 ..." of those that are (not) worth a start again; a line holds `per_line` of them. */
static void append_codes(lsi_text *out, bool worth, int per_line)
{
    int n = 0;

    for (int i = 0; i < N_CODES; i++) {
        bool again = i > 0 && codes[i].code == codes[i - 1].code;
        bool failure = codes[i].code != 0 && codes[i].status != LS_STOPPED;

        if (!again && failure && restarts(codes[i].status) == worth) {
            lsi_text_append(out, "%s%s%d %s", n > 0 ? "," : "", n % per_line == 0 ? "\n  " : " ", codes[i].code,
                            codes[i].text);
            n++;
        }
    }
}

void lsi_launch_policy_help(lsi_text *out)
{
    lsi_text_append(out, "Ends with the code of the rank that failed first. With --max-restarts it starts again after");
    append_codes(out, true, 8);
    lsi_text_append(out,
                    ", 128+n killed by signal n,\n"
                    "  and codes that are not the runtime's; not after 0, after 75 (stopped on request), and after");
    append_codes(out, false, 4);
    lsi_text_append(out, ":\nsteps have the same bits every time, so these would come back.\n");
}

bool lsi_launch_policy_is_signal(int code)
{
    return code > SIGNAL_BASE && code <= SIGNAL_BASE + SIGRTMAX;
}

void lsi_launch_policy_describe(int code, lsi_text *out)
{
    if (lsi_launch_policy_is_signal(code)) {
        const char *name = strsignal(code - SIGNAL_BASE);

        lsi_text_append(out, "killed by signal %d (%s), exit code %d", code - SIGNAL_BASE, name != NULL ? name : "?",
                        code);
        return;
    }
    lsi_text_append(out, "exit code %d", code);
    for (int i = 0; i < N_CODES; i++) {
        if (codes[i].code == code && code != 0) {
            lsi_text_append(out, ", %s", codes[i].text);
            return;
        }
    }
}
