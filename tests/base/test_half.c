/* RUN: timeout=60 */
/* f16 and bf16: every value to f32 and back, and rounding of f32 against arithmetic in double that knows no bits. */
#include "support/test.h"

#include <math.h>

#include "base/half.h"
#include "base/random.h"

/* What describes a type: precision in bits with the hidden one, least exponent of a normal value, and the two ways. */
typedef struct format {
    const char *name;
    int precision, least_exponent, greatest_exponent;
    float (*to_f32)(uint16_t half);
    uint16_t (*from_f32)(float value);
} format;

static const format formats[] = {
    {"f16", 11, -14, 15, lsi_half_f16_to_f32, lsi_half_f16_from_f32},
    {"bf16", 8, -126, 127, lsi_half_bf16_to_f32, lsi_half_bf16_from_f32},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value of a finite 16-bit pattern or infinity, from sign, exponent and fraction. */
static double model_value(const format *f, uint16_t half)
{
    int fraction_bits = f->precision - 1, fraction = half & ((1 << fraction_bits) - 1);
    int exponent = (half & 0x7fff) >> fraction_bits, last = f->greatest_exponent - f->least_exponent + 2;
    double sign = half & 0x8000 ? -1.0 : 1.0;

    if (exponent == last) {
        return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    if (exponent == 0) {
        return sign * ldexp((double)fraction, f->least_exponent - fraction_bits);
    }
    return sign * ldexp((double)(fraction + (1 << fraction_bits)), exponent - 1 + f->least_exponent - fraction_bits);
}

/* The nearest value of the type, ties to even: exact in double, whose own rounding of whole numbers is to even. */
static double model_round(const format *f, double x)
{
    int exponent;

    if (x == 0.0 || !isfinite(x)) {
        return x;
    }
    (void)frexp(x, &exponent);
    exponent = exponent - 1 < f->least_exponent ? f->least_exponent : exponent - 1;
    double rounded = ldexp(rint(ldexp(x, f->precision - 1 - exponent)), exponent - (f->precision - 1));
    return fabs(rounded) >= ldexp(1.0, f->greatest_exponent + 1) ? copysign((double)INFINITY, x) : rounded;
}

static void every_value_is_exact_and_comes_back(void **unused)
{
    (void)unused;
    for (int t = 0; t < N_FORMATS; t++) {
        const format *f = &formats[t];
        for (uint32_t half = 0; half <= 0xffff; half++) {
            float value = f->to_f32((uint16_t)half);
            double want = model_value(f, (uint16_t)half);
            uint16_t back = f->from_f32(value), quiet = (uint16_t)(1u << (f->precision - 2));

            if (isnan(want)) {
                assert_true(isnan(value));
                assert_int_equal(back, half | quiet);
                assert_int_equal(bits_of(value) >> 31, half >> 15);
            } else if ((double)value != want || (signbit(value) != 0) != (half >> 15 != 0) || back != half) {
                fail_msg("%s 0x%04x: %g, expected %g, back 0x%04x", f->name, (unsigned)half, (double)value, want,
                         (unsigned)back);
            }
        }
    }
}

static void check_rounding(const format *f, float x)
{
    uint16_t half = f->from_f32(x);
    double want = model_round(f, (double)x), got = model_value(f, half);

    if (isnan(x)) {
        assert_true(isnan(got));
        assert_int_equal(half >> 15, bits_of(x) >> 31);
    } else if (got != want || (half >> 15 != 0) != (signbit(x) != 0)) {
        fail_msg("%s: %a became %a, expected %a", f->name, (double)x, got, want);
    }
}

static void random_patterns_are_rounded_to_nearest_even(void **unused)
{
    enum { N = 2000000 };

    (void)unused;
    for (uint32_t i = 0; i < N / 4; i++) {
        lsi_random4 r = lsi_random_philox(1, i, 0, 0, 0);
        for (int j = 0; j < 4; j++) {
            /* f16's exponents are a fifth of all: half of the patterns get one of them, or a neighbour */
            uint32_t near = (r.v[j] & 0x807fffffu) | (98 + (r.v[j] >> 23) % 50) << 23;
            check_rounding(&formats[0], from_bits(j % 2 == 0 ? r.v[j] : near));
            check_rounding(&formats[1], from_bits(r.v[j]));
        }
    }
}

/* Between every value and the next: the midpoint and its two neighbours in f32. */
static void midpoints_are_ties(void **unused)
{
    (void)unused;
    for (int t = 0; t < N_FORMATS; t++) {
        const format *f = &formats[t];
        int fraction_bits = f->precision - 1;
        uint16_t largest = (uint16_t)(((f->greatest_exponent - f->least_exponent + 2) << fraction_bits) - 1);

        for (uint16_t half = 0; half <= largest; half++) {
            double value = model_value(f, half), next = ldexp(1.0, f->greatest_exponent + 1);
            next = half < largest ? model_value(f, (uint16_t)(half + 1)) : next;
            float middle = (float)((value + next) / 2.0);       /* exact: one bit more than the type has */
            for (int sign = 0; sign < 2; sign++) {
                float x = sign ? -middle : middle;
                check_rounding(f, x);
                check_rounding(f, nextafterf(x, INFINITY));
                check_rounding(f, nextafterf(x, -INFINITY));
            }
        }
    }
}

static void the_ends_of_the_ranges(void **unused)
{
    (void)unused;
    assert_int_equal(lsi_half_f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(lsi_half_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(lsi_half_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(lsi_half_f16_from_f32(-3e38f), 0xfc00);
    assert_int_equal(lsi_half_f16_from_f32(0x1p-24f), 0x0001);
    assert_int_equal(lsi_half_f16_from_f32(0x1p-25f), 0x0000);
    assert_int_equal(lsi_half_f16_from_f32(-0x1.000002p-25f), 0x8001);
    assert_int_equal(lsi_half_f16_from_f32(-1e-45f), 0x8000);
    assert_int_equal(lsi_half_bf16_from_f32(3.4028234e38f), 0x7f80);
    assert_int_equal(lsi_half_bf16_from_f32(-INFINITY), 0xff80);
    assert_int_equal(lsi_half_bf16_from_f32(1e-45f), 0x0000);
    assert_int_equal(lsi_half_bf16_from_f32(from_bits(0x7fffffff)), 0x7fff);
    assert_int_equal(lsi_half_bf16_from_f32(from_bits(0x7f800001)), 0x7fc0);
    assert_int_equal(lsi_half_f16_from_f32(from_bits(0xff800001)), 0xfe00);
}

/* At every length, so that whole vectors and what remains both meet them; nothing behind the end is written. */
static void arrays_are_their_elements(void **unused)
{
    enum { N = 100 };

    (void)unused;
    for (int n = 0; n < N; n++) {
        float x[N], wide[N];
        uint16_t half[N];

        for (int t = 0; t < N_FORMATS; t++) {
            const format *f = &formats[t];
            for (int i = 0; i < N; i++) {
                x[i] = from_bits(lsi_random_philox(2, (uint32_t)i, (uint32_t)n, 0, 0).v[0]);
                half[i] = 0xabcd;
                wide[i] = -1.0f;
            }
            (t == 0 ? lsi_half_f16_narrow : lsi_half_bf16_narrow)(x, n, half);
            (t == 0 ? lsi_half_f16_widen : lsi_half_bf16_widen)(half, n, wide);
            for (int i = 0; i < N; i++) {
                assert_int_equal(half[i], i < n ? f->from_f32(x[i]) : 0xabcd);
                assert_int_equal(bits_of(wide[i]), i < n ? bits_of(f->to_f32(half[i])) : bits_of(-1.0f));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_exact_and_comes_back),
        cmocka_unit_test(random_patterns_are_rounded_to_nearest_even),
        cmocka_unit_test(midpoints_are_ties),
        cmocka_unit_test(the_ends_of_the_ranges),
        cmocka_unit_test(arrays_are_their_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
