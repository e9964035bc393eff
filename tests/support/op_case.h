/* Runs one op and checks what holds for every op: nothing outside the views that it may write is written (guard bands
 * around every view, inputs unchanged), and the bits are the same again, at another alignment, and with 1, 2 and 3
 * threads; all that at every ISA level this CPU runs. What the numbers are is compared with a reference in double.
 *
 *     lsi_gelu_fwd_args a = {0};
 *     op_case c;
 *     op_case_open(&c, &lsi_op_gelu_fwd, &a);
 *     const float *x = op_case_random(&c, &a.x, n, 3.0);
 *     op_case_view(&c, &a.y, n, LS_F32);
 *     op_case_run(&c);
 *     op_case_expect(&c, &a.y, reference, 1e-6, 1e-6);
 *     op_case_close(&c); */
#ifndef LS_TESTS_SUPPORT_OP_CASE_H
#define LS_TESTS_SUPPORT_OP_CASE_H

#include "support/op_run.h"
#include "support/test.h"

#include "kernels/ops.h"

enum { OP_CASE_MAX_VIEWS = 12 };

/* What one view of the op is given, and what came out of it. */
typedef struct op_case_slot {
    int64_t count;
    ls_dtype dtype;
    int shares;                             /* index of the view whose memory this one uses; -1: its own */
    void *initial;                          /* contents before a run */
    float *values;                          /* 16-bit types: the same in f32 */
    void *result[OP_RUN_LEVELS_MAX];            /* and after it, per ISA level */
} op_case_slot;

typedef struct op_case {
    const ls_op *op;
    void *arguments;                        /* attributes are read at each run, views are set by it */
    int n_views;
    op_case_slot views[OP_CASE_MAX_VIEWS];
    ls_step_state state;                    /* given to ops that ask for it: fill before the run */
    ls_step_state state_after[OP_RUN_LEVELS_MAX];
    bool fixed_alignment;                   /* all runs lie `shift` elements off the backend's alignment: the op's bits */
    int shift;                              /* may depend on it */
} op_case;

/* `arguments` is the op's argument struct; the case borrows it. Views are named by their address in it. */
void op_case_open(op_case *c, const ls_op *op, void *arguments);
void op_case_close(op_case *c);

/* Gives a view its size and returns its initial contents to be filled: inputs and accumulated views are zero, outputs
 * are all ones (NaN). Views that are not named are "not given". */
void *op_case_view(op_case *c, ls_view *view, int64_t count, ls_dtype dtype);
/* The same for f32, filled with uniform values in [-scale, scale). */
float *op_case_random(op_case *c, ls_view *view, int64_t count, double scale);
/* The same in any type that activations have. The values that are returned are rounded to it: a reference in double
 * starts from what the op gets. */
const float *op_case_random_as(op_case *c, ls_view *view, int64_t count, double scale, ls_dtype dtype);
/* Gives a view its size and type and these contents, which become what the type makes of them: for f32, f16, bf16. */
void op_case_fill(op_case *c, ls_view *view, float *values, int64_t count, ls_dtype dtype);
/* Gives a view its size and type and these bytes: another case's result or initial contents. */
void op_case_copy(op_case *c, ls_view *view, int64_t count, ls_dtype dtype, const void *from);
/* `view` uses the memory of `with`, which has been given: the op works in place. */
void op_case_share(op_case *c, ls_view *view, ls_view *with);

/* All runs and checks. */
void op_case_run(op_case *c);
/* One run at the best level, without checks: for ops that are to fail. */
ls_status op_case_try(op_case *c);

/* Levels that were run: 0 .. op_case_levels() - 1. */
int op_case_levels(void);
/* Contents of the view after the runs at one level. */
const void *op_case_result(const op_case *c, const ls_view *view, int level);

/* Half a unit in the last place of 1, the largest relative error of one rounding: 2^-11 for f16, 2^-8 for bf16. 0 for
 * f32 and wider types, whose roundings are in the tolerances below. */
double op_case_rounding(ls_dtype dtype);

/* At every level: the 2-norm of the difference is at most `norm` of the expected one's, and no element differs by more
 * than `max` of the largest expected one. Where NaN or an infinity is expected it must be there. In a 16-bit view each
 * element may differ by one rounding to its type besides, but no more; beyond the type's range infinity is expected. */
void op_case_expect(const op_case *c, const ls_view *view, const double *expected, double norm, double max);
/* Every byte, at every level. */
void op_case_expect_bytes(const op_case *c, const ls_view *view, const void *expected);

/* At the best level: the bytes that another case has in one of its views. */
void op_case_expect_same(const op_case *c, const ls_view *view, const op_case *other, const ls_view *of_other);

/* Types are known at load and store only: the op on f32 copies of all 16-bit views, its results rounded, leaves the
 * bits that the case has left. Runs the op once more at every level; after op_case_run. */
void op_case_expect_as_f32(const op_case *c);

/* The types of activations: f32, f16, bf16. */
enum { OP_CASE_N_TYPES = 3 };
extern const ls_dtype op_case_types[OP_CASE_N_TYPES];

/* A scalar function of arrays that `argument` knows: the double reference of a forward op, its outputs weighted and
 * summed. */
typedef double (*op_case_scalar)(void *argument);
/* Central differences of `f` over `n` elements of `x` (which f reads), compared as op_case_expect does with what the
 * backward op left in `view` at the same places. Takes about 100 of the elements where there are more. */
void op_case_expect_gradient(const op_case *c, const ls_view *view, double *x, int64_t n, op_case_scalar f,
                             void *argument, double tolerance);

/* For references: a copy in double; free() it. */
double *op_case_doubles(const float *values, int64_t n);
/* A new zeroed array; free() it. */
double *op_case_zeros(int64_t n);

#endif
