/* RUN: cuda timeout=60 label=contract */
/* slice_fwd, slice_bwd, concat: every element, in every type of activations; what is not taken is not looked at. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>

typedef struct size {
    int64_t rows, pitch, first, count;
} size;

static const size sizes[] = {{0, 4, 1, 2},   {1, 1, 0, 1},     {5, 7, 0, 3},        {5, 7, 4, 3},
                             {9, 7, 2, 4},   {300, 64, 0, 64}, {3, 4000, 37, 2500}, {2, 40000, 20000, 20000},
                             {9000, 3, 1, 1}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static bool taken(size s, int64_t i)
{
    return i % s.pitch >= s.first && i % s.pitch < s.first + s.count;
}

static void forward_case(size s, ls_dtype dtype)
{
    lsi_slice_fwd_args a = {.rows = s.rows, .pitch = s.pitch, .first = s.first, .count = s.count};
    op_case c;

    op_case_open(&c, &lsi_op_slice_fwd, &a);
    const float *x = op_case_random_as(&c, &a.x, s.rows * s.pitch, 1.0, dtype);
    op_case_view(&c, &a.y, s.rows * s.count, dtype);
    double *y = op_case_zeros(s.rows * s.count);
    for (int64_t i = 0, at = 0; i < s.rows * s.pitch; i++) {
        if (taken(s, i)) {
            y[at++] = (double)x[i];
        }
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, y, 0.0, 0.0);
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

static void backward_case(size s, ls_dtype dtype, int accumulate)
{
    lsi_slice_bwd_args a = {
        .rows = s.rows, .pitch = s.pitch, .first = s.first, .count = s.count, .accumulate = accumulate};
    int64_t n = s.rows * s.pitch;
    op_case c;

    op_case_open(&c, &lsi_op_slice_bwd, &a);
    const float *dy = op_case_random_as(&c, &a.dy, s.rows * s.count, 1.0, dtype);
    const float *before = op_case_random_as(&c, &a.dx, n, 1.0, dtype);
    double *dx = op_case_zeros(n);
    for (int64_t i = 0, at = 0; i < n; i++) {
        float old = accumulate ? before[i] : 0.0f;

        dx[i] = (double)(taken(s, i) ? old + dy[at++] : old);
    }
    op_case_run(&c);
    op_case_expect(&c, &a.dx, dx, 0.0, 0.0);
    op_case_expect_as_f32(&c);
    free(dx);
    op_case_close(&c);
}

static void backward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 0);
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 1);
    }
}

/* Overwriting does not depend on what was there. */
static void backward_reads_nothing_old(void **unused)
{
    static const double want[] = {0.0, 0.0, 5.0, 0.0, 0.0, 6.0};
    lsi_slice_bwd_args a = {.rows = 2, .pitch = 3, .first = 2, .count = 1};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_slice_bwd, &a);
    float *dy = op_case_view(&c, &a.dy, 2, LS_F32), *dx = op_case_view(&c, &a.dx, 6, LS_F32);
    dy[0] = 5.0f;
    dy[1] = 6.0f;
    for (int i = 0; i < 6; i++) {
        dx[i] = NAN;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.dx, want, 0.0, 0.0);
    op_case_close(&c);
}

static void concat_case(int64_t rows, int64_t a_cols, int64_t b_cols, ls_dtype dtype)
{
    lsi_concat_args a = {.rows = rows, .a_cols = a_cols, .b_cols = b_cols};
    int64_t cols = a_cols + b_cols;
    op_case c;

    op_case_open(&c, &lsi_op_concat, &a);
    const float *left = op_case_random_as(&c, &a.a, rows * a_cols, 1.0, dtype);
    const float *right = op_case_random_as(&c, &a.b, rows * b_cols, 1.0, dtype);
    op_case_view(&c, &a.y, rows * cols, dtype);
    double *y = op_case_zeros(rows * cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        y[i] = (double)(i % cols < a_cols ? *left++ : *right++);
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, y, 0.0, 0.0);
    op_case_expect_as_f32(&c);
    free(y);
    op_case_close(&c);
}

static void side_by_side(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        size s = sizes[k % N_SIZES];

        concat_case(s.rows, s.pitch, s.count, op_case_types[k / N_SIZES]);
        concat_case(s.rows, s.count, s.pitch, op_case_types[k / N_SIZES]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(backward),
        cmocka_unit_test(backward_reads_nothing_old),
        cmocka_unit_test(side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
