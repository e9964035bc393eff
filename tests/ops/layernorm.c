/* RUN: cuda timeout=60 label=contract */
/* layernorm_fwd and _bwd: against double in every type of activations, and the backward against
 * differences of the forward. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPS 1e-5

/* The arrays of one layer norm in double. */
typedef struct reference {
    int64_t rows, cols;
    double *x, *gamma, *beta, *dy;
    double *y, *mean, *rstd, *dx, *dgamma, *dbeta;
} reference;

static void reference_make(reference *r, int64_t rows, int64_t cols)
{
    *r = (reference){.rows = rows, .cols = cols};
    r->y = op_case_zeros(rows * cols);
    r->dx = op_case_zeros(rows * cols);
    r->mean = op_case_zeros(rows);
    r->rstd = op_case_zeros(rows);
    r->dgamma = op_case_zeros(cols);
    r->dbeta = op_case_zeros(cols);
}

static void reference_free(reference *r)
{
    double *all[] = {r->x, r->gamma, r->beta, r->dy, r->y, r->mean, r->rstd, r->dx, r->dgamma, r->dbeta};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void reference_forward(reference *r)
{
    double n = (double)r->cols;

    for (int64_t i = 0; i < r->rows; i++) {
        const double *x = r->x + i * r->cols;
        double sum = 0.0, square = 0.0;
        for (int64_t j = 0; j < r->cols; j++) {
            sum += x[j];
        }
        r->mean[i] = sum / n;
        for (int64_t j = 0; j < r->cols; j++) {
            square += (x[j] - r->mean[i]) * (x[j] - r->mean[i]);
        }
        r->rstd[i] = 1.0 / sqrt(square / n + EPS);
        for (int64_t j = 0; j < r->cols; j++) {
            r->y[i * r->cols + j] = (x[j] - r->mean[i]) * r->rstd[i] * r->gamma[j] + r->beta[j];
        }
    }
}

static void reference_backward(reference *r)
{
    for (int64_t i = 0; i < r->rows; i++) {
        double g_mean = 0.0, gx_mean = 0.0;
        for (int64_t j = 0; j < r->cols; j++) {
            double xhat = (r->x[i * r->cols + j] - r->mean[i]) * r->rstd[i], dy = r->dy[i * r->cols + j];
            r->dgamma[j] += dy * xhat;
            r->dbeta[j] += dy;
            g_mean += dy * r->gamma[j] / (double)r->cols;
            gx_mean += dy * r->gamma[j] * xhat / (double)r->cols;
        }
        for (int64_t j = 0; j < r->cols; j++) {
            double xhat = (r->x[i * r->cols + j] - r->mean[i]) * r->rstd[i], g = r->dy[i * r->cols + j] * r->gamma[j];
            r->dx[i * r->cols + j] += r->rstd[i] * (g - g_mean - xhat * gx_mean);
        }
    }
}

/* sum of dy y, for differences. */
static double weighted_sum(void *argument)
{
    reference *r = argument;
    double sum = 0.0;

    reference_forward(r);
    for (int64_t i = 0; i < r->rows * r->cols; i++) {
        sum += r->dy[i] * r->y[i];
    }
    return sum;
}

static const int64_t sizes[][2] = {{0, 8}, {1, 1}, {1, 2}, {3, 17}, {5, 128}, {70, 129}, {33, 768}, {2, 20000}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void forward(void **unused)
{
    (void)unused;
    for (int s = 0; s < OP_CASE_N_TYPES * N_SIZES; s++) {
        int64_t rows = sizes[s % N_SIZES][0], cols = sizes[s % N_SIZES][1];
        ls_dtype dtype = op_case_types[s / N_SIZES];
        lsi_layernorm_fwd_args a = {.rows = rows, .cols = cols, .eps = (float)EPS};
        reference r;
        op_case c;

        reference_make(&r, rows, cols);
        op_case_open(&c, &lsi_op_layernorm_fwd, &a);
        r.x = op_case_doubles(op_case_random_as(&c, &a.x, rows * cols, 3.0, dtype), rows * cols);
        r.gamma = op_case_doubles(op_case_random_as(&c, &a.gamma, cols, 2.0, dtype), cols);
        r.beta = op_case_doubles(op_case_random_as(&c, &a.beta, cols, 1.0, dtype), cols);
        op_case_view(&c, &a.y, rows * cols, dtype);
        op_case_view(&c, &a.mean, rows, LS_F32);
        op_case_view(&c, &a.rstd, rows, LS_F32);
        reference_forward(&r);
        op_case_run(&c);
        op_case_expect(&c, &a.y, r.y, 1e-6, 1e-6);
        op_case_expect(&c, &a.mean, r.mean, 1e-5, 1e-5);        /* small beside the elements that are summed */
        op_case_expect(&c, &a.rstd, r.rstd, 1e-6, 1e-6);
        op_case_expect_as_f32(&c);
        reference_free(&r);
        op_case_close(&c);
    }
}

/* The norm of a sum has the bits of add and layernorm_fwd one after the other. */
static void sum_case(int64_t rows, int64_t cols, ls_dtype dtype)
{
    lsi_add_args a = {0};
    lsi_layernorm_fwd_args n = {.rows = rows, .cols = cols, .eps = (float)EPS};
    lsi_add_layernorm_args b = {.rows = rows, .cols = cols, .eps = (float)EPS};
    int64_t count = rows * cols;
    op_case add, norm, both;

    op_case_open(&add, &lsi_op_add, &a);
    op_case_random_as(&add, &a.a, count, 3.0, dtype);
    op_case_random_as(&add, &a.b, count, 2.0, dtype);
    op_case_view(&add, &a.y, count, dtype);
    op_case_run(&add);

    op_case_open(&norm, &lsi_op_layernorm_fwd, &n);
    op_case_copy(&norm, &n.x, count, dtype, op_case_result(&add, &a.y, op_case_levels() - 1));
    op_case_random_as(&norm, &n.gamma, cols, 2.0, dtype);
    op_case_random_as(&norm, &n.beta, cols, 1.0, dtype);
    op_case_view(&norm, &n.y, count, dtype);
    op_case_view(&norm, &n.mean, rows, LS_F32);
    op_case_view(&norm, &n.rstd, rows, LS_F32);
    op_case_run(&norm);

    op_case_open(&both, &lsi_op_add_layernorm, &b);
    op_case_copy(&both, &b.a, count, dtype, add.views[0].initial);
    op_case_copy(&both, &b.b, count, dtype, add.views[1].initial);
    op_case_copy(&both, &b.gamma, cols, dtype, norm.views[1].initial);
    op_case_copy(&both, &b.beta, cols, dtype, norm.views[2].initial);
    op_case_view(&both, &b.s, count, dtype);
    op_case_view(&both, &b.y, count, dtype);
    op_case_view(&both, &b.mean, rows, LS_F32);
    op_case_view(&both, &b.rstd, rows, LS_F32);
    op_case_run(&both);
    op_case_expect_same(&both, &b.s, &add, &a.y);
    op_case_expect_same(&both, &b.y, &norm, &n.y);
    op_case_expect_same(&both, &b.mean, &norm, &n.mean);
    op_case_expect_same(&both, &b.rstd, &norm, &n.rstd);
    op_case_close(&both);
    op_case_close(&norm);
    op_case_close(&add);
}

static void of_a_sum(void **unused)
{
    (void)unused;
    for (int s = 0; s < OP_CASE_N_TYPES * N_SIZES; s++) {
        sum_case(sizes[s % N_SIZES][0], sizes[s % N_SIZES][1], op_case_types[s / N_SIZES]);
    }
}

/* A mean far above the deviation: the variance is taken around the mean, not from the sum of squares. */
static void large_mean(void **unused)
{
    enum { COLS = 768 };
    lsi_layernorm_fwd_args a = {.rows = 1, .cols = COLS, .eps = (float)EPS};
    double variance = 0.0, rstd;
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_layernorm_fwd, &a);
    float *x = op_case_view(&c, &a.x, COLS, LS_F32);
    op_case_random(&c, &a.gamma, COLS, 1.0);
    op_case_random(&c, &a.beta, COLS, 1.0);
    op_case_view(&c, &a.y, COLS, LS_F32);
    op_case_view(&c, &a.mean, 1, LS_F32);
    op_case_view(&c, &a.rstd, 1, LS_F32);
    for (int i = 0; i < COLS; i++) {
        double off = i % 2 == 0 ? 0.5 : -0.5;
        x[i] = (float)(4096.0 + off);
        variance += off * off / COLS;
    }
    rstd = 1.0 / sqrt(variance + EPS);
    op_case_run(&c);
    op_case_expect(&c, &a.rstd, &rstd, 1e-6, 1e-6);
    op_case_close(&c);
}

static void backward_case(int64_t rows, int64_t cols, ls_dtype dtype, int accumulate, int in_place, int differences)
{
    lsi_layernorm_bwd_args a = {.rows = rows, .cols = cols, .accumulate_dx = accumulate,
                                .accumulate_dgamma = accumulate, .accumulate_dbeta = accumulate};
    reference r;
    op_case c;

    reference_make(&r, rows, cols);
    op_case_open(&c, &lsi_op_layernorm_bwd, &a);
    r.x = op_case_doubles(op_case_random_as(&c, &a.x, rows * cols, 3.0, dtype), rows * cols);
    r.gamma = op_case_doubles(op_case_random_as(&c, &a.gamma, cols, 2.0, dtype), cols);
    r.beta = op_case_zeros(cols);
    r.dy = op_case_doubles(op_case_random_as(&c, &a.dy, rows * cols, 1.0, dtype), rows * cols);
    float *mean = op_case_view(&c, &a.mean, rows, LS_F32), *rstd = op_case_view(&c, &a.rstd, rows, LS_F32);
    reference_forward(&r);
    for (int64_t i = 0; i < rows; i++) {
        mean[i] = (float)r.mean[i];
        rstd[i] = (float)r.rstd[i];
    }
    if (in_place) {
        op_case_share(&c, &a.dx, &a.dy);
    } else {
        const float *dx = op_case_random_as(&c, &a.dx, rows * cols, 1.0, dtype);
        for (int64_t i = 0; i < rows * cols && accumulate; i++) {
            r.dx[i] = (double)dx[i];
        }
    }
    const float *dgamma = op_case_random(&c, &a.dgamma, cols, 1.0), *dbeta = op_case_random(&c, &a.dbeta, cols, 1.0);
    for (int64_t j = 0; j < cols && accumulate; j++) {
        r.dgamma[j] = (double)dgamma[j];
        r.dbeta[j] = (double)dbeta[j];
    }
    reference_backward(&r);
    op_case_run(&c);
    op_case_expect(&c, &a.dx, r.dx, 3e-6, 3e-6);
    op_case_expect(&c, &a.dgamma, r.dgamma, 1e-6, 2e-6);
    op_case_expect(&c, &a.dbeta, r.dbeta, 1e-6, 2e-6);
    op_case_expect_as_f32(&c);
    if (differences) {
        op_case_expect_gradient(&c, &a.dx, r.x, rows * cols, weighted_sum, &r, 1e-5);
        op_case_expect_gradient(&c, &a.dgamma, r.gamma, cols, weighted_sum, &r, 1e-5);
        op_case_expect_gradient(&c, &a.dbeta, r.beta, cols, weighted_sum, &r, 1e-5);
    }
    reference_free(&r);
    op_case_close(&c);
}

static void backward(void **unused)
{
    (void)unused;
    for (int s = 0; s < OP_CASE_N_TYPES * N_SIZES; s++) {
        int64_t rows = sizes[s % N_SIZES][0], cols = sizes[s % N_SIZES][1];
        ls_dtype dtype = op_case_types[s / N_SIZES];

        if (cols > 2) {         /* up to two columns dx is 0 but for eps and rounding */
            backward_case(rows, cols, dtype, 0, 0, 0);
            backward_case(rows, cols, dtype, 1, 0, 0);
            backward_case(rows, cols, dtype, 0, 1, 0);
        }
    }
}

static void backward_agrees_with_differences(void **unused)
{
    (void)unused;
    backward_case(5, 37, LS_F32, 0, 0, 1);
}

/* A first layer's input wants no gradient: the parameters get the bits they get with dx. */
static void dx_is_optional(void **unused)
{
    enum { ROWS = 140, COLS = 150 };
    float parameters[2][2 * COLS];

    (void)unused;
    for (int with_dx = 0; with_dx < 2; with_dx++) {
        lsi_layernorm_bwd_args a = {.rows = ROWS, .cols = COLS};
        op_case c;

        op_case_open(&c, &lsi_op_layernorm_bwd, &a);
        op_case_random(&c, &a.x, ROWS * COLS, 1.0);
        op_case_random(&c, &a.gamma, COLS, 1.0);
        op_case_random(&c, &a.mean, ROWS, 1.0);
        op_case_random(&c, &a.rstd, ROWS, 1.0);
        op_case_random(&c, &a.dy, ROWS * COLS, 1.0);
        if (with_dx) {
            op_case_view(&c, &a.dx, ROWS * COLS, LS_F32);
        }
        op_case_view(&c, &a.dgamma, COLS, LS_F32);
        op_case_view(&c, &a.dbeta, COLS, LS_F32);
        op_case_run(&c);
        memcpy(parameters[with_dx], op_case_result(&c, &a.dgamma, 0), COLS * sizeof(float));
        memcpy(parameters[with_dx] + COLS, op_case_result(&c, &a.dbeta, 0), COLS * sizeof(float));
        op_case_close(&c);
    }
    assert_memory_equal(parameters[0], parameters[1], sizeof parameters[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(of_a_sum),
        cmocka_unit_test(large_mean),
        cmocka_unit_test(backward),
        cmocka_unit_test(backward_agrees_with_differences),
        cmocka_unit_test(dx_is_optional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
