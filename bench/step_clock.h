/* How long each op of a step takes: a table of our own stands in front of the cpu backend's and launches ops that time
 * what they wrap. One clock at a time, because a kernel gets nothing but its arguments. */
#ifndef LS_BENCH_STEP_CLOCK_H
#define LS_BENCH_STEP_CLOCK_H

#include "kernels/ops.h"

enum { STEP_CLOCK_ROWS = 192, STEP_CLOCK_STEPS = 64 };

/* Launches of one op with views of the same sizes and types (and, of a product, in the same form). */
typedef struct step_clock_row {
    const ls_op *op;
    _Alignas(16) unsigned char arguments[LS_OP_MAX_ARGUMENTS];  /* of one of them */
    int n;                                  /* launches in the newest step */
    double sum;                             /* seconds of those */
    double step[STEP_CLOCK_STEPS];          /* seconds of all launches, by step */
    int n_steps;
} step_clock_row;

/* Puts itself in front of the device's table until close. cpu_time: what the process used, shared out over n_threads,
 * instead of what the wall clock says: a guide for a machine that has other work. */
LS_MUST_USE ls_status step_clock_open(ls_device *device, bool cpu_time, int n_threads);
void step_clock_close(void);
double step_clock_seconds(void);            /* by the clock chosen */
/* Rows are made and times added only between these two. */
void step_clock_begin(void);
void step_clock_end(bool count);            /* false: the step does not count, its rows stay */
const step_clock_row *step_clock_rows(int *n);
/* Seconds of the newest op that has run, in a step or not. Its stream must have been waited for. */
double step_clock_last(void);
/* Of at most STEP_CLOCK_STEPS values, which stay as they are. */
double step_clock_median(const double *values, int n);

static inline int step_clock_n_views(const ls_op *op)
{
    return op->n_in + op->n_out + op->n_acc;
}

#endif
