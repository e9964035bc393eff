/* RUN: cuda timeout=100 label=contract */
/* gemm: every transpose, bias and accumulation, against double; empty, thin and odd sizes, sizes around the tiles;
 * 16-bit types with results of their type and of f32, bf16 both ways. */
#include "support/op_case.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/gemm_bf16.h"
#include "kernels/gemm_path.h"
#include "support/backend_case.h"

/* In place of the library's own choice (kernels/gemm_path.c), which would leave one of the two paths untested here. */
static bool native;

bool lsi_gemm_bf16_is_native(void)
{
    return native;
}

/* Types of the factors and the bias, and of c. */
typedef struct types {
    ls_dtype factors, c;
} types;

static const types f32 = {LS_F32, LS_F32};
static const types halves[] = {{LS_F16, LS_F16}, {LS_F16, LS_F32}, {LS_BF16, LS_BF16}, {LS_BF16, LS_F32}};
enum { N_HALVES = sizeof halves / sizeof halves[0] };

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

/* cuBLASLt has other algorithms for matrices that do not lie on 256 bytes, and so other bits: none of the runtime's do. */
static int shift;

static void check(size s, types t, int trans_a, int trans_b, int with_bias, int accumulate)
{
    lsi_gemm_args a = {.m = s.m, .n = s.n, .k = s.k, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate};
    op_case c;

    op_case_open(&c, &lsi_op_gemm, &a);
    c.fixed_alignment = !test_backend()->host_memory;
    c.shift = shift;
    const float *left = op_case_random_as(&c, &a.a, s.m * s.k, 1.0, t.factors);
    const float *right = op_case_random_as(&c, &a.b, s.k * s.n, 1.0, t.factors);
    const float *bias = with_bias ? op_case_random_as(&c, &a.bias, s.n, 1.0, t.factors) : NULL;
    double *expected = reference(&a, left, right, bias, op_case_random_as(&c, &a.c, s.m * s.n, 1.0, t.c));
    if (!accumulate) {      /* what is overwritten is not read: all ones are NaN in every type */
        memset(c.views[c.n_views - 1].initial, 0xFF, (size_t)(s.m * s.n) * ls_dtype_bytes(t.c));
    }
    op_case_run(&c);
    op_case_expect(&c, &a.c, expected, 1e-6, 2e-6);
    free(expected);
    op_case_close(&c);
}

static void check_all(size s, types t)
{
    for (int form = 0; form < 4; form++) {
        check(s, t, form & 1, form >> 1, 0, 0);
        check(s, t, form & 1, form >> 1, 1, 0);
        check(s, t, form & 1, form >> 1, 0, 1);
    }
}

/* Both paths of bf16, where this machine has both. */
static void check_all_halves(size s)
{
    for (int i = 0; i < N_HALVES; i++) {
        check_all(s, halves[i]);
        if (halves[i].factors == LS_BF16 && lsi_gemm_bf16_is_supported()) {
            native = true;
            check_all(s, halves[i]);
            native = false;
        }
    }
}

static void small_and_odd(void **unused)
{
    static const size sizes[] = {{1, 1, 1}, {1, 17, 5}, {17, 1, 5}, {3, 5, 7}, {16, 10, 33}, {65, 129, 31},
                                 {1, 300, 64}};

    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_all(sizes[i], f32);
        check_all_halves(sizes[i]);
    }
}

static void unaligned(void **unused)
{
    (void)unused;
    shift = 1;
    check_all((size){33, 40, 70}, f32);
    check_all_halves((size){33, 40, 70});
    shift = 0;
}

static void several_tiles(void **unused)
{
    static const size sizes[] = {{257, 300, 64}, {130, 520, 70}, {784, 512, 16}, {16, 512, 784}};

    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_all(sizes[i], f32);
    }
}

/* More than a panel of k, and more than a tile. */
static void several_panels(void **unused)
{
    (void)unused;
    check_all_halves((size){33, 40, 700});
    check_all_halves((size){257, 390, 260});
}

static void large(void **unused)
{
    (void)unused;
    check((size){256, 768, 512}, f32, 0, 0, 1, 0);
    check((size){320, 640, 512}, f32, 1, 0, 0, 1);
    check((size){16, 5003, 128}, f32, 0, 1, 0, 0);
}

static void empty(void **unused)
{
    static const size sizes[] = {{0, 5, 3}, {5, 0, 3}, {5, 7, 0}, {0, 0, 0}};

    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_all(sizes[i], f32);
        check_all_halves(sizes[i]);
    }
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

/* 256 products of 256: f16's largest value is passed on the way by the sum and by the result, and neither wraps. */
static void overflow_of_f16_is_infinity(void **unused)
{
    enum { K = 256 };
    lsi_gemm_args a = {.m = 1, .n = 2, .k = K};
    double expected[2] = {__builtin_inf(), 0.0};
    float left[K], right[2 * K];
    op_case c;

    (void)unused;
    for (int k = 0; k < K; k++) {
        left[k] = 16.0f;
        right[2 * k] = 16.0f;
        right[2 * k + 1] = k < K / 2 ? 64.0f : -64.0f;      /* 131072 half way, 0 at the end */
    }
    op_case_open(&c, &lsi_op_gemm, &a);
    op_case_fill(&c, &a.a, left, K, LS_F16);
    op_case_fill(&c, &a.b, right, 2 * K, LS_F16);
    op_case_view(&c, &a.c, 2, LS_F16);
    op_case_run(&c);
    op_case_expect(&c, &a.c, expected, 0.0, 0.0);
    op_case_close(&c);
}

/* Summed in f32 over all of k, c included, and rounded once: adding 1 to 2048 one by one in f16 would stay at 2048. */
static void sums_are_rounded_once(void **unused)
{
    enum { K = 1024 };
    lsi_gemm_args a = {.m = 1, .n = 1, .k = K, .accumulate = 1};
    double expected = 2048.0 + K;
    float ones[K], start = 2048.0f;
    op_case c;

    (void)unused;
    for (int k = 0; k < K; k++) {
        ones[k] = 1.0f;
    }
    op_case_open(&c, &lsi_op_gemm, &a);
    op_case_fill(&c, &a.a, ones, K, LS_F16);
    op_case_fill(&c, &a.b, ones, K, LS_F16);
    op_case_fill(&c, &a.c, &start, 1, LS_F16);
    op_case_run(&c);
    op_case_expect(&c, &a.c, &expected, 0.0, 0.0);
    op_case_close(&c);
}

static void refuse_mixed_types(void **unused)
{
    static const struct {
        ls_dtype a, b, bias, c;
        const char *message;
    } wrong[] = {
        {LS_F16, LS_BF16, LS_F16, LS_F16, "gemm: views of 4 elements of f16 and 4 of bf16"},
        {LS_F16, LS_F16, LS_F32, LS_F32, "gemm: views of 4 elements of f16 and 2 of f32"},
        {LS_BF16, LS_BF16, LS_BF16, LS_F16, "gemm: views of 4 elements of bf16 and 4 of f16"},
        {LS_F32, LS_F32, LS_F32, LS_F16, "gemm: views of 4 elements of f32 and 4 of f16"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lsi_gemm_args a = {.m = 2, .n = 2, .k = 2};
        op_case c;

        op_case_open(&c, &lsi_op_gemm, &a);
        op_case_random_as(&c, &a.a, 4, 1.0, wrong[i].a);
        op_case_random_as(&c, &a.b, 4, 1.0, wrong[i].b);
        op_case_random_as(&c, &a.bias, 2, 1.0, wrong[i].bias);
        op_case_view(&c, &a.c, 4, wrong[i].c);
        CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, wrong[i].message);
        op_case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_and_odd),
        cmocka_unit_test(unaligned),
        cmocka_unit_test(several_tiles),
        cmocka_unit_test(several_panels),
        cmocka_unit_test(large),
        cmocka_unit_test(empty),
        cmocka_unit_test(strange_values),
        cmocka_unit_test(overflow_of_f16_is_infinity),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(refuse_mixed_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
