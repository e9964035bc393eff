#include "backend/cpu/isa.h"

#include <stdbool.h>
#include <string.h>

const char *lsi_isa_name(lsi_isa isa)
{
#if defined(LSI_BUILD_ISA_X86)
#define LSI_ISA_NAME(level, unused) [LSI_ISA_##level] = "x86-64-" #level,
#else
#define LSI_ISA_NAME(level, unused) [LSI_ISA_##level] = #level,
#endif
    static const char *const names[LSI_ISA_COUNT] = {LSI_ISA_LEVELS(LSI_ISA_NAME, )};
#undef LSI_ISA_NAME

    return names[isa];
}

#if defined(LSI_BUILD_ISA_X86)

/* The psABI's levels, by those of their features that every compiler knows to ask for; no processor has these without
 * the rest. */
static bool runs(lsi_isa isa)
{
    bool v2 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
              __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");

    switch (isa) {
    case LSI_ISA_v4:
        return v4;
    case LSI_ISA_v3:
        return v3;
    default:
        return v2;
    }
}

#else

static bool runs(lsi_isa isa)
{
    (void)isa;
    return true;
}

#endif

lsi_isa lsi_isa_best(void)
{
    int best = LSI_ISA_COUNT - 1;

    while (best > 0 && !runs((lsi_isa)best)) {
        best--;
    }
    return (lsi_isa)best;
}

int lsi_isa_find(const char *name)
{
    for (int isa = 0; isa < LSI_ISA_COUNT; isa++) {
        if (strcmp(name, lsi_isa_name((lsi_isa)isa)) == 0) {
            return isa;
        }
    }
    return -1;
}
