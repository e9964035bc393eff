/* RUN: timeout=60 */
/* Drawing tokens: what may be drawn, how often, and that it depends on nothing else. */
#include "support/test.h"

#include <math.h>

#include "loop/sampling.h"

enum { MAX_TOKENS = 64 };

static int64_t draw(const lsi_sampling *sampling, const double *logits, int64_t n, int64_t position)
{
    lsi_candidate room[MAX_TOKENS];
    int64_t token = -1;

    assert_true(n <= MAX_TOKENS);
    CHECK_OK(lsi_sampling_draw(sampling, logits, n, position, room, &token));
    assert_in_range(token, 0, n - 1);
    return token;
}

static void temperature_zero_takes_the_largest(void **state)
{
    static const double logits[] = {-3, 7, 2, 7, -1e300, 6.999};

    (void)state;
    for (int64_t position = 0; position < 50; position++) {
        lsi_sampling sampling = {.temperature = 0, .top_k = position % 7, .seed = (uint64_t)position * 17};

        assert_int_equal(draw(&sampling, logits, 6, position), 1);
        assert_int_equal(draw(&sampling, logits + 2, 4, position), 1);
        assert_int_equal(draw(&sampling, logits, 1, position), 0);
    }
}

static void top_1_is_the_largest(void **state)
{
    static const double logits[] = {0.5, 0.25, 1, 1, 1};

    (void)state;
    for (int64_t position = 0; position < 200; position++) {
        assert_int_equal(draw(&(lsi_sampling){.temperature = 5, .top_k = 1}, logits, 5, position), 2);
    }
}

/* Of equal logits the lower ids stay in, the higher ones leave. */
static void top_k_with_ties(void **state)
{
    static const double logits[] = {1, 2, 1, 0, 1, 1};
    int seen[6] = {0};

    (void)state;
    for (int64_t position = 0; position < 4000; position++) {
        seen[draw(&(lsi_sampling){.temperature = 1, .top_k = 3, .seed = 5}, logits, 6, position)]++;
    }
    assert_true(seen[0] > 0 && seen[1] > seen[0] && seen[2] > 0);
    assert_int_equal(seen[3] + seen[4] + seen[5], 0);
}

/* Pearson's statistic over the tokens that may be drawn, against its mean and deviation. */
static void check_frequencies(const lsi_sampling *sampling, const double *logits, int64_t n, int64_t n_drawn)
{
    enum { DRAWS = 40000 };
    double probability[MAX_TOKENS] = {0}, sum = 0, chi2 = 0;
    int64_t count[MAX_TOKENS] = {0}, degrees = -1;

    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;     /* tokens that come first in the order of top_k */

        for (int64_t j = 0; j < n; j++) {
            before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        }
        if (sampling->top_k == 0 || before < sampling->top_k) {
            probability[i] = exp(logits[i] / sampling->temperature);
            sum += probability[i];
            degrees++;
        }
    }
    assert_int_equal(degrees + 1, n_drawn);
    for (int64_t position = 0; position < DRAWS; position++) {
        count[draw(sampling, logits, n, position)]++;
    }
    for (int64_t i = 0; i < n; i++) {
        double expected = DRAWS * probability[i] / sum, off = (double)count[i] - expected;

        if (probability[i] == 0) {
            assert_int_equal(count[i], 0);
        } else {
            assert_true(expected > 5);
            chi2 += off * off / expected;
        }
    }
    /* Fixed seeds: either all pass or one of them always fails. Four deviations are passed by 1 of 10,000 right ones;
     * draws that are too even would be wrong, too. */
    double deviation = sqrt(2.0 * (double)degrees);
    if (fabs(chi2 - (double)degrees) > 4 * deviation + 2) {
        fail_msg("chi-square %.1f at %lld degrees of freedom", chi2, (long long)degrees);
    }
}

static void frequencies_are_the_probabilities(void **state)
{
    static const double logits[] = {0.1, -1.5, 2.0, 2.0, 0.7, -0.3, 1.1, 0, 1.9, -2.2};

    (void)state;
    check_frequencies(&(lsi_sampling){.temperature = 1, .seed = 1}, logits, 10, 10);
    check_frequencies(&(lsi_sampling){.temperature = 0.8, .top_k = 4, .seed = 1}, logits, 10, 4);
    check_frequencies(&(lsi_sampling){.temperature = 3, .top_k = 100, .seed = 99}, logits, 10, 10);
    check_frequencies(&(lsi_sampling){.temperature = 0.5, .top_k = 2, .seed = 7}, logits, 10, 2);
}

/* What is added to all logits does not matter, nor how small the temperature is. */
static void extremes_are_borne(void **state)
{
    static const double logits[] = {-1e308, 700, 1e308}, far[] = {-5000, -5001};
    int64_t first = 0;

    (void)state;
    for (int64_t position = 0; position < 1000; position++) {
        assert_int_equal(draw(&(lsi_sampling){.temperature = 1e-300}, logits, 3, position), 2);
        assert_int_equal(draw(&(lsi_sampling){.temperature = 1000}, logits, 3, position), 2);
        first += draw(&(lsi_sampling){.temperature = 1}, far, 2, position) == 0;
    }
    assert_in_range(first, 650, 800);       /* 731 expected */
}

static void not_finite_is_refused(void **state)
{
    static const double bad[] = {(double)NAN, (double)INFINITY, (double)-INFINITY};

    (void)state;
    for (int i = 0; i < 3; i++) {
        double logits[3] = {1, bad[i], 2};
        lsi_candidate room[3];
        int64_t token;

        CHECK_FAILS(lsi_sampling_draw(&(lsi_sampling){.temperature = i}, logits, 3, 12, room, &token), LS_ERR_NUMERIC,
                    "token 1 at position 12");
    }
}

/* Nothing but seed and position matters, both halves of the latter. */
static void units_are_a_function_of_seed_and_position(void **state)
{
    double sum = 0;

    (void)state;
    for (int64_t position = 0; position < 1000; position++) {
        double unit = lsi_sampling_unit(1, position);

        assert_true(unit >= 0 && unit < 1);
        assert_true(unit == lsi_sampling_unit(1, position));
        assert_true(unit != lsi_sampling_unit(2, position) && unit != lsi_sampling_unit(1, position + 1));
        assert_true(unit != lsi_sampling_unit(1, position + ((int64_t)1 << 32)));
        sum += unit;
    }
    assert_true(fabs(sum / 1000 - 0.5) < 0.04);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_zero_takes_the_largest),
        cmocka_unit_test(top_1_is_the_largest),
        cmocka_unit_test(top_k_with_ties),
        cmocka_unit_test(frequencies_are_the_probabilities),
        cmocka_unit_test(extremes_are_borne),
        cmocka_unit_test(not_finite_is_refused),
        cmocka_unit_test(units_are_a_function_of_seed_and_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
