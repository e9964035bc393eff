/* What bench_ops measures: every op of kernels/ops.def at the shapes of a GPT-2 step, but for those named in
 * ops_cases.c that are not worth a number. */
#ifndef LS_BENCH_OPS_CASES_H
#define LS_BENCH_OPS_CASES_H

#include "kernels/ops.h"

/* One slot of a GPT. */
typedef struct ops_shape {
    int64_t samples, context, width, heads, vocab, padded_vocab, parameters;
    int64_t square; /* sides of the largest product: what the device's products can reach */
} ops_shape;

typedef struct ops_case {
    const ls_op *op;
    const char *what; /* tells several cases of one op apart; or "" */
    /* Sets counts and types of all views (no memory) and the attributes; the arguments are zero before. */
    void (*make)(const ops_shape *shape, ls_dtype dtype, void *arguments);
    bool f32_only;        /* makes the same of every type */
    unsigned overwritten; /* bit i: the op accumulates into view i, but not here */
    /* Bytes moved, where views do not say it: NULL counts every view once, and twice where it is accumulated. */
    double (*bytes)(const void *arguments);
} ops_case;

const ops_case *ops_cases(int *n);
/* Fails with the name of an op that is neither measured nor left out on purpose. */
LS_MUST_USE ls_status ops_cases_check(void);

static inline int ops_n_views(const ls_op *op)
{
    return op->n_in + op->n_out + op->n_acc;
}

#endif
