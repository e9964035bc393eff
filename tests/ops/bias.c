/* RUN: cuda timeout=60 label=contract */
/* bias_bwd: column sums, against double. */
#include "support/op_case.h"

#include <stdlib.h>

static void check(int64_t rows, int64_t cols, int accumulate, ls_dtype dtype)
{
    lsi_bias_bwd_args a = {.rows = rows, .cols = cols, .accumulate = accumulate};
    op_case c;

    op_case_open(&c, &lsi_op_bias_bwd, &a);
    const float *dy = op_case_random_as(&c, &a.dy, rows * cols, 1.0, dtype);
    double *db = op_case_doubles(op_case_random(&c, &a.db, cols, 1.0), cols);
    for (int64_t j = 0; j < cols; j++) {
        db[j] = accumulate ? db[j] : 0.0;
        for (int64_t i = 0; i < rows; i++) {
            db[j] += (double)dy[i * cols + j];
        }
    }
    op_case_run(&c);
    op_case_expect(&c, &a.db, db, 1e-6, 1e-6);
    op_case_expect_as_f32(&c);
    free(db);
    op_case_close(&c);
}

static void sums_columns(void **unused)
{
    static const int64_t sizes[][2] = {{0, 5}, {5, 0}, {1, 1}, {3, 17}, {63, 127}, {65, 129}, {16, 10}, {1000, 300},
                                        {1, 600000}};    /* too wide for sums of parts on the stack */

    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int t = 0; t < OP_CASE_N_TYPES; t++) {
            check(sizes[i][0], sizes[i][1], 0, op_case_types[t]);
            check(sizes[i][0], sizes[i][1], 1, op_case_types[t]);
        }
    }
}

/* 2^24 + 1 + 1 + ... in f32 stays 2^24 when added one by one: partial sums per block of rows must survive. */
static void long_columns_are_summed_in_blocks(void **unused)
{
    enum { ROWS = 6400 };
    lsi_bias_bwd_args a = {.rows = ROWS, .cols = 1};
    double sum = 16777216.0;
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_bias_bwd, &a);
    float *dy = op_case_view(&c, &a.dy, ROWS, LS_F32);
    op_case_view(&c, &a.db, 1, LS_F32);
    dy[0] = 16777216.0f;
    for (int i = 64; i < ROWS; i++) {
        dy[i] = 1.0f;
        sum += 1.0;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.db, &sum, 1e-7, 1e-7);
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_columns),
        cmocka_unit_test(long_columns_are_summed_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
