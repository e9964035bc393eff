/* RUN: timeout=100 */
/* gemm: every transpose, bias and accumulation, against double; empty, thin and odd sizes, sizes around the tiles. */
#include "support/op_case.h"

#include <stdlib.h>

typedef struct size {
    int64_t m, n, k;
} size;

static double *reference(const lsi_gemm_args *a, const float *left, const float *right, const float *bias,
                         const float *c)
{
    double *out = op_case_zeros(a->m * a->n);

    for (int64_t i = 0; i < a->m; i++) {
        double *row = out + i * a->n;
        for (int64_t j = 0; j < a->n; j++) {
            row[j] = bias != NULL ? (double)bias[j] : a->accumulate ? (double)c[i * a->n + j] : 0.0;
        }
        for (int64_t p = 0; p < a->k; p++) {
            double x = (double)left[a->trans_a ? p * a->m + i : i * a->k + p];
            for (int64_t j = 0; j < a->n; j++) {
                row[j] += x * (double)right[a->trans_b ? j * a->k + p : p * a->n + j];
            }
        }
    }
    return out;
}

static void check(size s, int trans_a, int trans_b, int with_bias, int accumulate)
{
    lsi_gemm_args a = {.m = s.m, .n = s.n, .k = s.k, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate};
    op_case c;

    op_case_open(&c, &lsi_op_gemm, &a);
    const float *left = op_case_random(&c, &a.a, s.m * s.k, 1.0), *right = op_case_random(&c, &a.b, s.k * s.n, 1.0);
    const float *bias = with_bias ? op_case_random(&c, &a.bias, s.n, 1.0) : NULL;
    float *initial = op_case_random(&c, &a.c, s.m * s.n, 1.0);
    double *expected = reference(&a, left, right, bias, initial);
    if (!accumulate) {      /* what is overwritten is not read */
        for (int64_t i = 0; i < s.m * s.n; i++) {
            initial[i] = __builtin_nanf("");
        }
    }
    op_case_run(&c);
    op_case_expect(&c, &a.c, expected, 1e-6, 2e-6);
    free(expected);
    op_case_close(&c);
}

static void check_all(size s)
{
    for (int form = 0; form < 4; form++) {
        check(s, form & 1, form >> 1, 0, 0);
        check(s, form & 1, form >> 1, 1, 0);
        check(s, form & 1, form >> 1, 0, 1);
    }
}

static void small_and_odd(void **unused)
{
    static const size sizes[] = {{1, 1, 1}, {1, 17, 5}, {17, 1, 5}, {3, 5, 7}, {16, 10, 33}, {65, 129, 31},
                                 {1, 300, 64}};

    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_all(sizes[i]);
    }
}

static void several_tiles(void **unused)
{
    static const size sizes[] = {{257, 300, 64}, {130, 520, 70}, {784, 512, 16}, {16, 512, 784}};

    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_all(sizes[i]);
    }
}

static void large(void **unused)
{
    (void)unused;
    check((size){256, 768, 512}, 0, 0, 1, 0);
    check((size){320, 640, 512}, 1, 0, 0, 1);
    check((size){16, 5003, 128}, 0, 1, 0, 0);
}

static void empty(void **unused)
{
    (void)unused;
    check_all((size){0, 5, 3});
    check_all((size){5, 0, 3});
    check_all((size){5, 7, 0});
    check_all((size){0, 0, 0});
}

/* NaN and infinity in the factors reach the product. */
static void strange_values(void **unused)
{
    lsi_gemm_args a = {.m = 2, .n = 2, .k = 2};
    double expected[4] = {__builtin_nan(""), __builtin_nan(""), __builtin_inf(), __builtin_inf()};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_gemm, &a);
    float *left = op_case_view(&c, &a.a, 4, LS_F32), *right = op_case_view(&c, &a.b, 4, LS_F32);
    op_case_view(&c, &a.c, 4, LS_F32);
    left[0] = __builtin_nanf("");
    left[2] = __builtin_inff();
    left[1] = left[3] = 1.0f;
    for (int i = 0; i < 4; i++) {
        right[i] = 1.0f;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.c, expected, 0.0, 0.0);
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_and_odd),
        cmocka_unit_test(several_tiles),
        cmocka_unit_test(large),
        cmocka_unit_test(empty),
        cmocka_unit_test(strange_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
