/* RUN: cuda timeout=60 label=contract */
/* block_norms: sums of squares in double; where an element is not finite, a NaN that names the first. */
#include "support/op_case.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/commit.h"

static float *open_case(op_case *c, lsi_block_norms_args *a, int64_t n, double scale)
{
    *a = (lsi_block_norms_args){0};
    op_case_open(c, &lsi_op_block_norms, a);
    op_case_view(c, &a->sums, (n + LSI_BLOCK - 1) / LSI_BLOCK, LS_F64);
    return op_case_random(c, &a->g, n, scale);
}

static void check(int64_t n, double scale)
{
    lsi_block_norms_args a;
    op_case c;
    const float *g = open_case(&c, &a, n, scale);
    double *expected = op_case_zeros((n + LSI_BLOCK - 1) / LSI_BLOCK);

    for (int64_t i = 0; i < n; i++) {
        expected[i / LSI_BLOCK] += (double)g[i] * (double)g[i];
    }
    op_case_run(&c);
    op_case_expect(&c, &a.sums, expected, 1e-13, 1e-13);
    free(expected);
    op_case_close(&c);
}

static void test_against_double(void **state)
{
    const int64_t sizes[] = {0, 1, 15, 16, 33, 16383, 16384, 16385, 3 * 16384 + 777};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check(sizes[i], 1.0);
        check(sizes[i], 1e-30);
    }
}

/* The largest and smallest floats: their squares do not fit into a float. */
static void test_squares_beyond_float(void **state)
{
    const int64_t n = 2 * LSI_BLOCK;
    lsi_block_norms_args a;
    op_case c;
    float *g = open_case(&c, &a, n, 0.0);
    double expected[2] = {LSI_BLOCK * (double)FLT_MAX * (double)FLT_MAX, LSI_BLOCK * (0x1p-149 * 0x1p-149)};

    (void)state;
    for (int64_t i = 0; i < n; i++) {
        g[i] = i < LSI_BLOCK ? -FLT_MAX : 0x1p-149f;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.sums, expected, 1e-13, 1e-13);
    for (int level = 0; level < op_case_levels(); level++) {
        assert_true(((const double *)op_case_result(&c, &a.sums, level))[1] == expected[1]);
    }
    op_case_close(&c);
}

/* One bad element anywhere spoils the sum of its block and no other, and is named. */
static void test_non_finite(void **state)
{
    const int64_t n = 2 * LSI_BLOCK + 21, places[] = {0, 17, LSI_BLOCK - 1, LSI_BLOCK, 2 * LSI_BLOCK + 20};
    const float values[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            lsi_block_norms_args a;
            op_case c;
            open_case(&c, &a, n, 1.0)[places[p]] = values[v];
            op_case_run(&c);
            for (int level = 0; level < op_case_levels(); level++) {
                const double *sums = op_case_result(&c, &a.sums, level);
                for (int64_t b = 0; b < 3; b++) {
                    bool bad = b == places[p] / LSI_BLOCK;
                    assert_int_equal(isfinite(sums[b]) == 0, bad);
                    assert_int_equal(lsi_bad_element(sums[b]), bad ? places[p] % LSI_BLOCK : -1);
                }
            }
            op_case_close(&c);
        }
    }
}

static void test_packed_index(void **state)
{
    const double others[] = {0.0, -0.0, 1.0, (double)INFINITY, -(double)INFINITY, (double)NAN, -(double)NAN, 0x1p-1074,
                             0x1p1023};

    (void)state;
    for (int64_t i = 0; i < LSI_BLOCK; i++) {
        assert_true(isnan(lsi_bad_sum(i)));
        assert_int_equal(lsi_bad_element(lsi_bad_sum(i)), i);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(lsi_bad_element(others[i]), -1);
    }
}

/* Of several the first, whatever they are. */
static void test_first_of_several(void **state)
{
    const int64_t n = LSI_BLOCK;
    lsi_block_norms_args a;
    op_case c;
    float *g = open_case(&c, &a, n, 1.0);

    (void)state;
    for (int64_t i = 999; i < n; i += 1 + i % 5) {
        g[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    }
    op_case_run(&c);
    for (int level = 0; level < op_case_levels(); level++) {
        assert_int_equal(lsi_bad_element(*(const double *)op_case_result(&c, &a.sums, level)), 999);
    }
    op_case_close(&c);
}

/* A sum belongs to its block alone: what a rank owns does not matter. */
static void test_blocks_are_independent(void **state)
{
    lsi_block_norms_args a, b;
    op_case whole, part;
    const float *g = open_case(&whole, &a, 3 * LSI_BLOCK, 1.0);
    float *h = open_case(&part, &b, LSI_BLOCK, 1.0);

    (void)state;
    for (int64_t i = 0; i < LSI_BLOCK; i++) {
        h[i] = g[LSI_BLOCK + i];
    }
    op_case_run(&whole);
    op_case_run(&part);
    for (int level = 0; level < op_case_levels(); level++) {
        const double *sums = op_case_result(&whole, &a.sums, level);
        assert_memory_equal(&sums[1], op_case_result(&part, &b.sums, level), sizeof(double));
    }
    op_case_close(&whole);
    op_case_close(&part);
}

static void test_refuses_wrong_count(void **state)
{
    lsi_block_norms_args a = {0};
    op_case c;

    (void)state;
    op_case_open(&c, &lsi_op_block_norms, &a);
    op_case_view(&c, &a.sums, 1, LS_F64);
    op_case_random(&c, &a.g, LSI_BLOCK + 1, 1.0);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "1 sums for 2 blocks");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_squares_beyond_float),
        cmocka_unit_test(test_non_finite),
        cmocka_unit_test(test_packed_index),
        cmocka_unit_test(test_first_of_several),
        cmocka_unit_test(test_blocks_are_independent),
        cmocka_unit_test(test_refuses_wrong_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
