/* What the machine can do at this moment: two numbers that change when a virtual machine's cores are moved. */
#ifndef LS_BENCH_STEP_PROBE_H
#define LS_BENCH_STEP_PROBE_H

#include <lockstep/backend.h>

typedef struct step_probe {
    double copy;        /* bytes per second, read and written, by all compute threads with streaming stores */
    double ping;        /* seconds for a word to get from one thread to another */
} step_probe;

/* On two threads of its own, which bear that other processes run on their cores. */
LS_MUST_USE ls_status step_probe_ping(double *out);
/* On the device's compute threads; bandwidth of this process alone. */
LS_MUST_USE ls_status step_probe_copy(ls_device *device, double (*clock)(void), double *out);
/* Whether one number is more than a fifth away from the other. */
bool step_probe_differs(const step_probe *before, const step_probe *after);

#endif
