/* RUN: cuda timeout=60 label=contract */
/* cast: every 16-bit value and f32 patterns of every kind, the bits of base/half.h at every ISA level, and what of one
 * op's views another type may have. */
#include "support/op_case.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"

static uint16_t narrow(ls_dtype dtype, float x)
{
    return dtype == LS_F16 ? lsi_half_f16_from_f32(x) : lsi_half_bf16_from_f32(x);
}

static float widen(ls_dtype dtype, uint16_t x)
{
    return dtype == LS_F16 ? lsi_half_f16_to_f32(x) : lsi_half_bf16_to_f32(x);
}

/* Whatever bits the result has; signalling NaN goes through no arithmetic on the way. */
static void check(const void *x, ls_dtype from, const void *expected, ls_dtype to, int64_t n)
{
    lsi_cast_args a = {0};
    op_case c;

    op_case_open(&c, &lsi_op_cast, &a);
    memcpy(op_case_view(&c, &a.x, n, from), x, (size_t)n * ls_dtype_bytes(from));
    op_case_view(&c, &a.y, n, to);
    op_case_run(&c);
    op_case_expect_bytes(&c, &a.y, expected);
    op_case_close(&c);
}

enum { PATTERNS = 65536 };

static void every_16_bit_value(void **unused)
{
    uint16_t *half = malloc(PATTERNS * sizeof *half), *back = malloc(PATTERNS * sizeof *back);
    float *wide = malloc(PATTERNS * sizeof *wide);

    (void)unused;
    for (int t = 1; t < OP_CASE_N_TYPES; t++) {
        ls_dtype dtype = op_case_types[t], other = t == 1 ? LS_BF16 : LS_F16;
        for (int i = 0; i < PATTERNS; i++) {
            half[i] = (uint16_t)i;
            wide[i] = widen(dtype, half[i]);
        }
        check(half, dtype, wide, LS_F32, PATTERNS);
        for (int i = 0; i < PATTERNS; i++) {
            back[i] = narrow(dtype, wide[i]);
        }
        check(wide, LS_F32, back, dtype, PATTERNS);
        check(half, dtype, back, dtype, PATTERNS);
        for (int i = 0; i < PATTERNS; i++) {
            back[i] = narrow(other, wide[i]);
        }
        check(half, dtype, back, other, PATTERNS);
    }
    free(half);
    free(back);
    free(wide);
}

/* At every length up to some vectors, and one of many blocks. */
static void patterns_of_f32(void **unused)
{
    enum { N = 200003 };
    uint32_t *x = malloc(N * sizeof *x);
    uint16_t *half = malloc(N * sizeof *half);

    (void)unused;
    for (int i = 0; i < N; i++) {
        lsi_random4 r = lsi_random_philox(3, (uint32_t)i, 0, 0, 0);
        x[i] = i % 2 == 0 ? r.v[0] : (r.v[0] & 0x807fffffu) | (98 + r.v[1] % 50) << 23;    /* f16's exponents */
    }
    for (int t = 1; t < OP_CASE_N_TYPES; t++) {
        for (int i = 0; i < N; i++) {
            float value;
            memcpy(&value, &x[i], sizeof value);
            half[i] = narrow(op_case_types[t], value);
        }
        check(x, LS_F32, half, op_case_types[t], N);
        for (int64_t n = 0; n < 40; n++) {
            check(x + n, LS_F32, half + n, op_case_types[t], n);
        }
    }
    check(x, LS_F32, x, LS_F32, N);
    free(x);
    free(half);
}

static void refuse_what_does_not_fit(void **unused)
{
    lsi_cast_args a = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_cast, &a);
    op_case_random(&c, &a.x, 8, 1.0);
    op_case_view(&c, &a.y, 7, LS_F16);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "cast: 8 elements to 7");
    op_case_close(&c);
    op_case_open(&c, &lsi_op_cast, &a);
    op_case_random(&c, &a.x, 8, 1.0);
    op_case_view(&c, &a.y, 8, LS_I32);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "cast: a view of 8 elements is i32; choices: f32, f16, bf16");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_16_bit_value),
        cmocka_unit_test(patterns_of_f32),
        cmocka_unit_test(refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
