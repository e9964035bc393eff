/* RUN: cuda timeout=60 label=contract */
/* mse_fwd and mse_bwd: against double, in place, ignored targets; in every type of activations. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>

static const int64_t sizes[] = {0, 1, 17, 1024, 16385, 40003};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* Every fourth target is ignored. */
static const float *fill_targets(op_case *c, ls_view *view, int64_t n)
{
    float *targets = op_case_random(c, view, n, 3.0);

    for (int64_t i = 3; i < n; i += 4) {
        targets[i] = NAN;
    }
    return targets;
}

static void forward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        int64_t n = sizes[k % N_SIZES];
        lsi_mse_fwd_args a = {0};
        op_case c;

        op_case_open(&c, &lsi_op_mse_fwd, &a);
        double *losses = op_case_doubles(op_case_random_as(&c, &a.x, n, 3.0, op_case_types[k / N_SIZES]), n);
        const float *targets = fill_targets(&c, &a.targets, n);
        op_case_view(&c, &a.losses, n, LS_F32);
        for (int64_t i = 0; i < n; i++) {
            double d = losses[i] - (double)targets[i];

            losses[i] = i % 4 == 3 ? 0.0 : d * d;
        }
        op_case_run(&c);
        op_case_expect(&c, &a.losses, losses, 2e-7, 2e-7);
        op_case_expect_as_f32(&c);
        free(losses);
        op_case_close(&c);
    }
}

/* The scalar whose gradient the backward is: scale times the sum of the losses of the counted rows. */
typedef struct weighted {
    const double *x;
    const float *targets;
    int64_t n;
    double scale;
} weighted;

static double loss_of(void *argument)
{
    const weighted *w = argument;
    double sum = 0.0;

    for (int64_t i = 0; i < w->n; i++) {
        double d = w->x[i] - (double)w->targets[i];

        sum += i % 4 == 3 ? 0.0 : d * d;
    }
    return sum * w->scale;
}

static void backward_case(int64_t n, ls_dtype dtype, bool in_place, bool differences)
{
    lsi_mse_bwd_args a = {.seed = 0.125f};
    double scale = 0.125 * 1024.0;
    op_case c;

    op_case_open(&c, &lsi_op_mse_bwd, &a);
    c.state.loss_scale = 1024.0f;
    double *x = op_case_doubles(op_case_random_as(&c, &a.x, n, 3.0, dtype), n), *dx = op_case_zeros(n);
    const float *targets = fill_targets(&c, &a.targets, n);
    if (in_place) {
        op_case_share(&c, &a.dx, &a.x);
    } else {
        op_case_view(&c, &a.dx, n, dtype);
    }
    for (int64_t i = 0; i < n; i++) {
        dx[i] = i % 4 == 3 ? 0.0 : 2.0 * (x[i] - (double)targets[i]) * scale;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.dx, dx, 2e-7, 2e-7);
    op_case_expect_as_f32(&c);
    if (differences) {
        op_case_expect_gradient(&c, &a.dx, x, n, loss_of, &(weighted){x, targets, n, scale}, 2e-6);
    }
    free(x);
    free(dx);
    op_case_close(&c);
}

static void backward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], false, false);
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], true, false);
    }
}

static void backward_agrees_with_differences(void **unused)
{
    (void)unused;
    backward_case(93, LS_F32, false, true);
}

/* A value that is no number is a loss and a gradient that are none, unless its target is ignored. */
static void strange_values(void **unused)
{
    static const float x[] = {NAN, NAN, INFINITY, 1.0f, 1e30f}, targets[] = {1.0f, NAN, 1.0f, -INFINITY, 0.0f};
    static const double losses[] = {NAN, 0.0, INFINITY, INFINITY, INFINITY};
    lsi_mse_fwd_args a = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_mse_fwd, &a);
    float *in = op_case_view(&c, &a.x, 5, LS_F32), *target = op_case_view(&c, &a.targets, 5, LS_F32);
    op_case_view(&c, &a.losses, 5, LS_F32);
    for (int i = 0; i < 5; i++) {
        in[i] = x[i];
        target[i] = targets[i];
    }
    op_case_run(&c);
    op_case_expect(&c, &a.losses, losses, 0.0, 0.0);
    op_case_close(&c);
}

static void refuse_other_targets(void **unused)
{
    lsi_mse_fwd_args a = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_mse_fwd, &a);
    op_case_view(&c, &a.x, 8, LS_F32);
    op_case_view(&c, &a.targets, 8, LS_I32);
    op_case_view(&c, &a.losses, 8, LS_F32);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "mse_fwd: 8 targets of i32 for 8 values");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(backward),
        cmocka_unit_test(backward_agrees_with_differences),
        cmocka_unit_test(strange_values),
        cmocka_unit_test(refuse_other_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
