/* RUN: cuda timeout=60 label=contract */
/* dot_fwd and dot_bwd: against double, overwriting and adding, at the edges of tiles and lanes; in every type of
 * activations. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>

typedef struct size {
    int64_t rows, cols;
} size;

static const size sizes[] = {{0, 4}, {1, 1}, {5, 7}, {33, 32}, {70, 65}, {3, 1024}, {9, 2500}, {2, 40001}, {40000, 1}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void forward_case(size s, ls_dtype dtype)
{
    lsi_dot_fwd_args a = {.rows = s.rows, .cols = s.cols};
    int64_t n = s.rows * s.cols;
    op_case c;

    op_case_open(&c, &lsi_op_dot_fwd, &a);
    const float *left = op_case_random_as(&c, &a.a, n, 1.0, dtype), *right = op_case_random_as(&c, &a.b, n, 1.0, dtype);
    op_case_view(&c, &a.y, s.rows, dtype);
    double *y = op_case_zeros(s.rows);
    for (int64_t i = 0; i < n; i++) {
        y[i / s.cols] += (double)left[i] * (double)right[i];
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, y, 1e-6, 1e-6);
    op_case_expect_as_f32(&c);
    free(y);
    op_case_close(&c);
}

static void forward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        forward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES]);
    }
}

/* 2^24 from the first tile, ones behind it: a single f32 sum would stay at 2^24. */
static void long_rows_keep_small_terms(void **unused)
{
    enum { COLS = 4096 };
    lsi_dot_fwd_args a = {.rows = 1, .cols = COLS};
    double want = 0x1p24 + COLS - 1024;
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_dot_fwd, &a);
    float *left = op_case_view(&c, &a.a, COLS, LS_F32), *right = op_case_view(&c, &a.b, COLS, LS_F32);
    op_case_view(&c, &a.y, 1, LS_F32);
    for (int i = 0; i < COLS; i++) {
        left[i] = i < 1024 ? 0x1p14f : 1.0f;
        right[i] = 1.0f;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, &want, 0.0, 0.0);
    op_case_close(&c);
}

typedef struct weighted {
    const double *x, *other, *dy;
    size s;
} weighted;

static double sum_of(void *argument)
{
    const weighted *w = argument;
    double sum = 0.0;

    for (int64_t i = 0; i < w->s.rows * w->s.cols; i++) {
        sum += w->dy[i / w->s.cols] * w->x[i] * w->other[i];
    }
    return sum;
}

static void backward_case(size s, ls_dtype dtype, int accumulate, bool differences)
{
    lsi_dot_bwd_args a = {.rows = s.rows, .cols = s.cols, .accumulate = accumulate};
    int64_t n = s.rows * s.cols;
    op_case c;

    op_case_open(&c, &lsi_op_dot_bwd, &a);
    double *other = op_case_doubles(op_case_random_as(&c, &a.other, n, 1.0, dtype), n);
    double *dy = op_case_doubles(op_case_random_as(&c, &a.dy, s.rows, 1.0, dtype), s.rows);
    double *x = op_case_zeros(n), *dx = op_case_zeros(n);
    if (accumulate) {
        const float *before = op_case_random_as(&c, &a.dx, n, 1.0, dtype);

        for (int64_t i = 0; i < n; i++) {
            dx[i] = (double)before[i];
        }
    } else {
        op_case_view(&c, &a.dx, n, dtype);
    }
    for (int64_t i = 0; i < n; i++) {
        dx[i] += dy[i / s.cols] * other[i];
    }
    op_case_run(&c);
    op_case_expect(&c, &a.dx, dx, 2e-7, 2e-7);
    op_case_expect_as_f32(&c);
    if (differences) {
        op_case_expect_gradient(&c, &a.dx, x, n, sum_of, &(weighted){x, other, dy, s}, 1e-6);
    }
    free(x);
    free(dx);
    free(dy);
    free(other);
    op_case_close(&c);
}

static void backward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 0, false);
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 1, false);
    }
}

static void backward_agrees_with_differences(void **unused)
{
    (void)unused;
    backward_case((size){7, 19}, LS_F32, 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(long_rows_keep_small_terms),
        cmocka_unit_test(backward),
        cmocka_unit_test(backward_agrees_with_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
