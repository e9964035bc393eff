/* RUN: cuda timeout=60 label=contract */
/* softmax_xent_fwd and _bwd, and both in one: against double, ignored targets, columns beyond the classes, equal and
 * strange logits; in every type of activations. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct size {
    int64_t rows, pitch, classes;
} size;

static const size sizes[] = {{0, 4, 3}, {1, 1, 1}, {3, 2, 2}, {5, 17, 17}, {70, 64, 10}, {9, 1088, 1025},
                             {300, 256, 256}, {3, 50304, 50257}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* Every fourth target is ignored. */
static void fill_targets(int32_t *targets, size s)
{
    for (int64_t row = 0; row < s.rows; row++) {
        targets[row] = row % 4 == 3 ? -1 : (int32_t)(row * 7919 % s.classes);
    }
}

/* Columns beyond the classes hold NaN, in any type all ones: reading one would show. */
static void spoil_padding(op_case *c, int view, size s)
{
    size_t bytes = ls_dtype_bytes(c->views[view].dtype);

    for (int64_t row = 0; row < s.rows; row++) {
        memset((char *)c->views[view].initial + (size_t)(row * s.pitch + s.classes) * bytes, 0xFF,
               (size_t)(s.pitch - s.classes) * bytes);
    }
}

static double log_sum_exp(const double *x, int64_t n)
{
    double max = -INFINITY, sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        max = fmax(max, x[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(x[i] - max);
    }
    return max + log(sum);
}

static void forward(void **unused)
{
    (void)unused;
    for (int i = 0; i < OP_CASE_N_TYPES * N_SIZES; i++) {
        size s = sizes[i % N_SIZES];
        lsi_softmax_xent_fwd_args a = {.rows = s.rows, .pitch = s.pitch, .classes = s.classes};
        op_case c;

        op_case_open(&c, &lsi_op_softmax_xent_fwd, &a);
        const float *logits = op_case_random_as(&c, &a.logits, s.rows * s.pitch, 5.0, op_case_types[i / N_SIZES]);
        double *x = op_case_doubles(logits, s.rows * s.pitch);
        spoil_padding(&c, 0, s);
        int32_t *targets = op_case_view(&c, &a.targets, s.rows, LS_I32);
        fill_targets(targets, s);
        op_case_view(&c, &a.losses, s.rows, LS_F32);
        op_case_view(&c, &a.lse, s.rows, LS_F32);
        op_case_view(&c, &a.hits, s.rows, LS_F32);
        double *losses = op_case_zeros(s.rows), *lse = op_case_zeros(s.rows), *hits = op_case_zeros(s.rows);
        for (int64_t row = 0; row < s.rows; row++) {
            const double *at = x + row * s.pitch;
            lse[row] = log_sum_exp(at, s.classes);
            if (targets[row] >= 0) {
                int64_t first = 0;
                for (int64_t j = 1; j < s.classes; j++) {
                    first = at[j] > at[first] ? j : first;
                }
                losses[row] = lse[row] - at[targets[row]];
                hits[row] = first == targets[row];
            }
        }
        op_case_run(&c);
        op_case_expect(&c, &a.losses, losses, 5e-7, 5e-7);
        op_case_expect(&c, &a.lse, lse, 5e-7, 5e-7);
        op_case_expect(&c, &a.hits, hits, 0.0, 0.0);
        op_case_expect_as_f32(&c);
        free(x);
        free(losses);
        free(lse);
        free(hits);
        op_case_close(&c);
    }
}

/* The scalar whose gradient the backward is: scale times the sum of the losses of the counted rows. */
typedef struct weighted {
    const double *x;
    const int32_t *targets;
    size s;
    double scale;
} weighted;

static double loss_of(void *argument)
{
    const weighted *w = argument;
    double sum = 0.0;

    for (int64_t row = 0; row < w->s.rows; row++) {
        const double *at = w->x + row * w->s.pitch;
        if (w->targets[row] >= 0) {
            sum += log_sum_exp(at, w->s.classes) - at[w->targets[row]];
        }
    }
    return sum * w->scale;
}

static void backward_case(size s, ls_dtype dtype, bool in_place, bool differences)
{
    lsi_softmax_xent_bwd_args a = {.rows = s.rows, .pitch = s.pitch, .classes = s.classes, .seed = 0.125f};
    double scale = 0.125 * 1024.0;
    op_case c;

    op_case_open(&c, &lsi_op_softmax_xent_bwd, &a);
    c.state.loss_scale = 1024.0f;
    const float *logits = op_case_random_as(&c, &a.logits, s.rows * s.pitch, 5.0, dtype);
    double *x = op_case_doubles(logits, s.rows * s.pitch), *dx = op_case_zeros(s.rows * s.pitch);
    spoil_padding(&c, 0, s);
    int32_t *targets = op_case_view(&c, &a.targets, s.rows, LS_I32);
    fill_targets(targets, s);
    float *lse = op_case_view(&c, &a.lse, s.rows, LS_F32);
    for (int64_t row = 0; row < s.rows; row++) {
        const double *at = x + row * s.pitch;
        double exact = log_sum_exp(at, s.classes);
        lse[row] = (float)exact;
        for (int64_t j = 0; j < s.classes && targets[row] >= 0; j++) {
            dx[row * s.pitch + j] = (exp(at[j] - exact) - (j == targets[row] ? 1.0 : 0.0)) * scale;
        }
    }
    if (in_place) {
        op_case_share(&c, &a.dlogits, &a.logits);
    } else {
        op_case_view(&c, &a.dlogits, s.rows * s.pitch, dtype);
    }
    op_case_run(&c);
    op_case_expect(&c, &a.dlogits, dx, 1e-6, 1e-6);
    op_case_expect_as_f32(&c);
    if (differences) {
        op_case_expect_gradient(&c, &a.dlogits, x, s.rows * s.pitch, loss_of, &(weighted){x, targets, s, scale}, 2e-6);
    }
    free(x);
    free(dx);
    op_case_close(&c);
}

static void backward(void **unused)
{
    (void)unused;
    for (int i = 0; i < OP_CASE_N_TYPES * N_SIZES; i++) {
        size s = sizes[i % N_SIZES];

        if (s.classes > 1) {    /* one class: the gradient is 0 up to rounding, which has no relative error */
            backward_case(s, op_case_types[i / N_SIZES], false, false);
            backward_case(s, op_case_types[i / N_SIZES], true, false);
        }
    }
}

/* Losses, hits and the gradient in place of the logits are those of the two ops, bit for bit. */
static void both_case(size s, ls_dtype dtype)
{
    lsi_softmax_xent_fwd_args f = {.rows = s.rows, .pitch = s.pitch, .classes = s.classes};
    lsi_softmax_xent_bwd_args b = {.rows = s.rows, .pitch = s.pitch, .classes = s.classes, .seed = 0.125f};
    lsi_softmax_xent_args a = {.rows = s.rows, .pitch = s.pitch, .classes = s.classes, .seed = 0.125f};
    int64_t n = s.rows * s.pitch;
    int level = op_case_levels() - 1;
    op_case forward, backward, both;

    op_case_open(&forward, &lsi_op_softmax_xent_fwd, &f);
    op_case_random_as(&forward, &f.logits, n, 5.0, dtype);
    spoil_padding(&forward, 0, s);
    const void *logits = forward.views[0].initial;
    fill_targets(op_case_view(&forward, &f.targets, s.rows, LS_I32), s);
    op_case_view(&forward, &f.losses, s.rows, LS_F32);
    op_case_view(&forward, &f.lse, s.rows, LS_F32);
    op_case_view(&forward, &f.hits, s.rows, LS_F32);
    op_case_run(&forward);

    op_case_open(&backward, &lsi_op_softmax_xent_bwd, &b);
    backward.state.loss_scale = 1024.0f;
    op_case_copy(&backward, &b.logits, n, dtype, logits);
    fill_targets(op_case_view(&backward, &b.targets, s.rows, LS_I32), s);
    op_case_copy(&backward, &b.lse, s.rows, LS_F32, op_case_result(&forward, &f.lse, level));
    op_case_view(&backward, &b.dlogits, n, dtype);
    op_case_run(&backward);

    op_case_open(&both, &lsi_op_softmax_xent, &a);
    both.state.loss_scale = 1024.0f;
    fill_targets(op_case_view(&both, &a.targets, s.rows, LS_I32), s);
    op_case_view(&both, &a.losses, s.rows, LS_F32);
    op_case_view(&both, &a.hits, s.rows, LS_F32);
    op_case_copy(&both, &a.logits, n, dtype, logits);
    op_case_run(&both);
    op_case_expect_as_f32(&both);
    op_case_expect_same(&both, &a.losses, &forward, &f.losses);
    op_case_expect_same(&both, &a.hits, &forward, &f.hits);
    op_case_expect_same(&both, &a.logits, &backward, &b.dlogits);
    op_case_close(&both);
    op_case_close(&backward);
    op_case_close(&forward);
}

static void both_at_once(void **unused)
{
    (void)unused;
    for (int i = 0; i < OP_CASE_N_TYPES * N_SIZES; i++) {
        both_case(sizes[i % N_SIZES], op_case_types[i / N_SIZES]);
    }
}

static void backward_agrees_with_differences(void **unused)
{
    (void)unused;
    backward_case((size){7, 19, 13}, LS_F32, false, true);
}

/* One row; the expected loss and hit. */
static void check_row(const float *logits, int64_t classes, int32_t target, double loss, double hit)
{
    lsi_softmax_xent_fwd_args a = {.rows = 1, .pitch = classes, .classes = classes};
    op_case c;

    op_case_open(&c, &lsi_op_softmax_xent_fwd, &a);
    memcpy(op_case_view(&c, &a.logits, classes, LS_F32), logits, (size_t)classes * sizeof *logits);
    *(int32_t *)op_case_view(&c, &a.targets, 1, LS_I32) = target;
    op_case_view(&c, &a.losses, 1, LS_F32);
    op_case_view(&c, &a.lse, 1, LS_F32);
    op_case_view(&c, &a.hits, 1, LS_F32);
    op_case_run(&c);
    op_case_expect(&c, &a.losses, &loss, 1e-6, 1e-6);
    op_case_expect(&c, &a.hits, &hit, 0.0, 0.0);
    op_case_close(&c);
}

static void strange_rows(void **unused)
{
    static const float equal[] = {2.0f, 5.0f, 5.0f, 5.0f}, far[] = {1e30f, 0.0f, -1e30f};
    static const float nan_first[] = {NAN, 1.0f, 0.0f};
    static const float masked[] = {-INFINITY, 0.0f, -INFINITY}, infinite[] = {INFINITY, 0.0f};

    (void)unused;
    double loss = log(3.0 + exp(-3.0));
    check_row(equal, 4, 1, loss, 1.0);      /* the first among the largest is the hit */
    check_row(equal, 4, 2, loss, 0.0);
    check_row(far, 3, 0, 0.0, 1.0);
    check_row(far, 3, 1, (double)1e30f, 0.0);
    check_row(nan_first, 3, 1, NAN, 0.0);
    check_row(masked, 3, 1, 0.0, 1.0);
    check_row(masked, 3, 0, INFINITY, 0.0);
    check_row(infinite, 2, 0, NAN, 0.0);
}

static void target_out_of_range(void **unused)
{
    lsi_softmax_xent_fwd_args a = {.rows = 2, .pitch = 4, .classes = 3};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_softmax_xent_fwd, &a);
    op_case_random(&c, &a.logits, 8, 1.0);
    ((int32_t *)op_case_view(&c, &a.targets, 2, LS_I32))[1] = 3;
    op_case_view(&c, &a.losses, 2, LS_F32);
    op_case_view(&c, &a.lse, 2, LS_F32);
    op_case_view(&c, &a.hits, 2, LS_F32);
    CHECK_FAILS(op_case_try(&c), LS_ERR_DATA, "target 3 in row 1 of the micro-batch, but there are 3 classes");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(backward),
        cmocka_unit_test(backward_agrees_with_differences),
        cmocka_unit_test(both_at_once),
        cmocka_unit_test(strange_rows),
        cmocka_unit_test(target_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
