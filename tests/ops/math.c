/* RUN: timeout=60 */
/* The errors that kernels/math.h states, and its special values. */
#include "support/test.h"

#include "kernels/math.h"

/* Distance in units in the last place of the true value (of the smallest normal number below it). */
static double ulps(float got, double want)
{
    int exponent;

    (void)frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1.0, exponent < -125 ? -149 : exponent - 24);
}

static void exp_within_two_ulp(void **unused)
{
    double worst = 0.0;

    (void)unused;
    for (double x = -103.9; x < 88.7; x += 1.37e-5) {
        float at = (float)x;
        worst = fmax(worst, ulps(lsi_exp(at), exp((double)at)));
    }
    if (worst > 2.0) {
        fail_msg("exp is off by %.3f ulp", worst);
    }
    for (float x = 1e-30f; x < 1e-3f; x *= 1.1f) {
        assert_true(ulps(lsi_exp(x), exp((double)x)) <= 2.0);
        assert_true(ulps(lsi_exp(-x), exp(-(double)x)) <= 2.0);
    }
}

static void exp_special_values(void **unused)
{
    (void)unused;
    assert_true(lsi_exp(0.0f) == 1.0f);
    assert_true(lsi_exp(-0.0f) == 1.0f);
    assert_true(lsi_exp(-INFINITY) == 0.0f);
    assert_true(lsi_exp(-104.0f) == 0.0f);
    assert_true(lsi_exp(-FLT_MAX) == 0.0f);
    assert_true(isinf(lsi_exp(88.73f)));
    assert_true(isinf(lsi_exp(INFINITY)));
    assert_true(isfinite(lsi_exp(88.72f)));
    assert_true(isnan(lsi_exp(NAN)));
    assert_true(isnan(lsi_exp(-NAN)));
}

static void exp_below_is_exp_or_zero(void **unused)
{
    (void)unused;
    for (float x = -104.0f; x < 10.0f; x += 0.0137f) {
        assert_true(lsi_exp_below(x) == (x < -80.0f ? 0.0f : lsi_exp(x)));
    }
    assert_true(lsi_exp_below(-INFINITY) == 0.0f);
    assert_true(isnan(lsi_exp_below(NAN)));
}

static void log_within_one_ulp(void **unused)
{
    double worst = 0.0;

    (void)unused;
    for (uint32_t bits = 0x00800000u; bits < 0x7F800000u; bits += 997) {
        float x = lsi_float_from_bits(bits);
        double want = log((double)x);
        if (want != 0.0) {
            worst = fmax(worst, ulps(lsi_log(x), want));
        }
    }
    if (worst > 1.0) {
        fail_msg("log is off by %.3f ulp", worst);
    }
}

static void log_special_values(void **unused)
{
    (void)unused;
    assert_true(lsi_log(1.0f) == 0.0f);
    assert_true(isinf(lsi_log(INFINITY)));
    assert_true(isnan(lsi_log(NAN)));
}

static void tanh_within_three_ulp(void **unused)
{
    double worst = 0.0;

    (void)unused;
    for (double x = -12.0; x < 12.0; x += 1.37e-5) {
        worst = fmax(worst, ulps(lsi_tanh((float)x), tanh((double)(float)x)));
    }
    for (float x = 1e-40f; x < 1.0f; x *= 1.01f) {
        worst = fmax(worst, ulps(lsi_tanh(x), tanh((double)x)));
        worst = fmax(worst, ulps(lsi_tanh(-x), tanh(-(double)x)));
    }
    if (worst > 3.0) {
        fail_msg("tanh is off by %.3f ulp", worst);
    }
}

static void tanh_special_values(void **unused)
{
    (void)unused;
    assert_true(lsi_float_bits(lsi_tanh(0.0f)) == lsi_float_bits(0.0f));
    assert_true(lsi_float_bits(lsi_tanh(-0.0f)) == lsi_float_bits(-0.0f));
    assert_true(lsi_tanh(INFINITY) == 1.0f && lsi_tanh(FLT_MAX) == 1.0f);
    assert_true(lsi_tanh(-INFINITY) == -1.0f && lsi_tanh(-FLT_MAX) == -1.0f);
    assert_true(isnan(lsi_tanh(NAN)));
}

/* Value and slope keep their relative accuracy in both tails. */
static void sigmoid_within_five_ulp(void **unused)
{
    double worst = 0.0;

    (void)unused;
    for (double x = -87.0; x < 87.0; x += 1.37e-4) {
        float at = (float)x;
        double e = exp(-fabs((double)at)), q = 1.0 / (1.0 + e);
        lsi_sigmoid_parts p = lsi_sigmoid(at);

        worst = fmax(worst, fmax(ulps(p.value, x < 0.0 ? e * q : q), ulps(p.slope, e * q * q)));
    }
    if (worst > 5.0) {
        fail_msg("sigmoid is off by %.3f ulp", worst);
    }
}

static void sigmoid_special_values(void **unused)
{
    (void)unused;
    assert_true(lsi_sigmoid(0.0f).value == 0.5f && lsi_sigmoid(0.0f).slope == 0.25f);
    assert_true(lsi_sigmoid(INFINITY).value == 1.0f && lsi_sigmoid(INFINITY).slope == 0.0f);
    assert_true(lsi_sigmoid(-INFINITY).value == 0.0f && lsi_sigmoid(-INFINITY).slope == 0.0f);
    assert_true(isnan(lsi_sigmoid(NAN).value) && isnan(lsi_sigmoid(NAN).slope));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_within_two_ulp),      cmocka_unit_test(exp_special_values),
        cmocka_unit_test(exp_below_is_exp_or_zero),
        cmocka_unit_test(log_within_one_ulp),      cmocka_unit_test(log_special_values),
        cmocka_unit_test(tanh_within_three_ulp),   cmocka_unit_test(tanh_special_values),
        cmocka_unit_test(sigmoid_within_five_ulp), cmocka_unit_test(sigmoid_special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
