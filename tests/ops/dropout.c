/* RUN: cuda timeout=60 label=contract */
/* dropout: the mask is what ops.def promises, whatever the cut into calls, so that forward and backward share it. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { FIRST_SAMPLE = 3, ATTEMPTED = 9, KEY = 1234 };

static void open_case(op_case *c, lsi_dropout_args *a, int64_t samples, int64_t per_sample, float probability)
{
    *a = (lsi_dropout_args){.per_sample = per_sample, .first_sample = FIRST_SAMPLE, .key = KEY,
                            .probability = probability};
    op_case_open(c, &lsi_op_dropout, a);
    op_case_random(c, &a->x, samples * per_sample, 2.0);
    op_case_view(c, &a->y, samples * per_sample, LS_F32);
    c->state.attempted = ATTEMPTED;
}

static void check_formula(int64_t samples, int64_t per_sample, float probability)
{
    lsi_dropout_args a;
    op_case c;

    open_case(&c, &a, samples, per_sample, probability);
    float *expected = malloc((size_t)(samples * per_sample + 1) * sizeof(float));
    assert_non_null(expected);
    for (int64_t i = 0; i < samples * per_sample; i++) {
        uint32_t e = (uint32_t)(i % per_sample), sample = (uint32_t)(FIRST_SAMPLE + i / per_sample);
        lsi_random4 drawn = lsi_random_philox(KEY, e / 4, sample, ATTEMPTED, 0);
        float x = ((const float *)c.views[0].initial)[i];
        expected[i] = (double)drawn.v[e % 4] >= (double)probability * 0x1p32
                          ? x * (float)(1.0 / (1.0 - (double)probability))
                          : 0.0f;
    }
    op_case_run(&c);
    op_case_expect_bytes(&c, &a.y, expected);
    free(expected);
    op_case_close(&c);
}

static void test_formula(void **state)
{
    (void)state;
    check_formula(0, 8, 0.5f);
    check_formula(1, 1, 0.5f);
    check_formula(7, 3, 0.25f);
    check_formula(70, 130, 0.1f);
    check_formula(2, 16384, 0.9f);
    check_formula(3, 40001, 0.1f);
    check_formula(1, 70000, 0.999f);
}

static void test_probability_0_is_identity(void **state)
{
    lsi_dropout_args a;
    op_case c;

    (void)state;
    open_case(&c, &a, 3, 20001, 0.0f);
    op_case_run(&c);
    op_case_expect_bytes(&c, &a.y, c.views[0].initial);
    op_case_close(&c);
}

static void test_in_place(void **state)
{
    lsi_dropout_args a, b;
    op_case apart, in_place;

    (void)state;
    for (int dropped = 0; dropped < 2; dropped++) {
        open_case(&apart, &a, 5, 1003, dropped ? 0.3f : 0.0f);
        op_case_run(&apart);
        b = a;
        op_case_open(&in_place, &lsi_op_dropout, &b);
        op_case_random(&in_place, &b.x, 5 * 1003, 2.0);
        op_case_share(&in_place, &b.y, &b.x);
        in_place.state.attempted = ATTEMPTED;
        op_case_run(&in_place);
        for (int level = 0; level < op_case_levels(); level++) {
            assert_memory_equal(op_case_result(&apart, &a.y, level), op_case_result(&in_place, &b.y, level),
                                5 * 1003 * sizeof(float));
        }
        op_case_close(&apart);
        op_case_close(&in_place);
    }
}

/* Arithmetic is that of f32 with one rounding, also in place and where nothing is dropped. */
static void check_16_bit(ls_dtype dtype, int64_t samples, int64_t per_sample, float probability, bool in_place)
{
    lsi_dropout_args a = {.per_sample = per_sample, .first_sample = FIRST_SAMPLE, .key = KEY,
                          .probability = probability};
    op_case c;

    op_case_open(&c, &lsi_op_dropout, &a);
    op_case_random_as(&c, &a.x, samples * per_sample, 2.0, dtype);
    if (in_place) {
        op_case_share(&c, &a.y, &a.x);
    } else {
        op_case_view(&c, &a.y, samples * per_sample, dtype);
    }
    c.state.attempted = ATTEMPTED;
    op_case_run(&c);
    op_case_expect_as_f32(&c);
    op_case_close(&c);
}

static void test_16_bit(void **state)
{
    (void)state;
    for (int type = 0; type < OP_CASE_N_TYPES; type++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            check_16_bit(op_case_types[type], 0, 8, 0.5f, in_place);
            check_16_bit(op_case_types[type], 7, 3, 0.25f, in_place);
            check_16_bit(op_case_types[type], 70, 130, 0.1f, in_place);
            check_16_bit(op_case_types[type], 2, 40001, 0.3f, in_place);
            check_16_bit(op_case_types[type], 3, 20001, 0.0f, in_place);
        }
    }
}

/* Sample 2 of the first call is sample 0 of a call that begins there. */
static void test_samples_do_not_depend_on_the_cut(void **state)
{
    const int64_t per_sample = 517;
    lsi_dropout_args a, b;
    op_case whole, part;

    (void)state;
    open_case(&whole, &a, 6, per_sample, 0.4f);
    open_case(&part, &b, 2, per_sample, 0.4f);
    b.first_sample = FIRST_SAMPLE + 2;
    memcpy(part.views[0].initial, (const float *)whole.views[0].initial + 2 * per_sample,
           (size_t)(2 * per_sample) * sizeof(float));
    op_case_run(&whole);
    op_case_run(&part);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *y = op_case_result(&whole, &a.y, level);
        assert_memory_equal(y + 2 * per_sample, op_case_result(&part, &b.y, level),
                            (size_t)(2 * per_sample) * sizeof(float));
    }
    op_case_close(&whole);
    op_case_close(&part);
}

/* Kept elements of a run over ones, as a set. */
static void kept_of(op_case *c, lsi_dropout_args *a, int64_t n, float probability, int64_t attempted, uint64_t key)
{
    open_case(c, a, 1, n, probability);
    a->key = key;
    c->state.attempted = attempted;
    for (int64_t i = 0; i < n; i++) {
        ((float *)c->views[0].initial)[i] = 1.0f;
    }
    op_case_run(c);
}

/* The share of kept elements, and of those kept in two independent draws. */
static void test_statistics(void **state)
{
    const int64_t n = 100000;
    const double p = 0.3, sigma = sqrt(p * (1.0 - p) / (double)n);
    const double both = (1.0 - p) * (1.0 - p), sigma_both = sqrt(both * (1.0 - both) / (double)n);
    lsi_dropout_args a[3];
    op_case c[3];

    (void)state;
    kept_of(&c[0], &a[0], n, (float)p, ATTEMPTED, KEY);
    kept_of(&c[1], &a[1], n, (float)p, ATTEMPTED + 1, KEY);
    kept_of(&c[2], &a[2], n, (float)p, ATTEMPTED, KEY + 1);
    const float *first = op_case_result(&c[0], &a[0].y, 0);
    for (int other = 1; other < 3; other++) {
        const float *second = op_case_result(&c[other], &a[other].y, 0);
        double kept = 0.0, kept_twice = 0.0, neighbours = 0.0;
        for (int64_t i = 0; i < n; i++) {
            kept += second[i] > 0.0f;
            kept_twice += first[i] > 0.0f && second[i] > 0.0f;
            neighbours += second[i] > 0.0f && second[(i + 1) % n] > 0.0f;
        }
        assert_true(fabs(kept / (double)n - (1.0 - p)) < 5.0 * sigma);
        assert_true(fabs(kept_twice / (double)n - both) < 5.0 * sigma_both);
        assert_true(fabs(neighbours / (double)n - both) < 7.0 * sigma_both);
    }
    for (int i = 0; i < 3; i++) {
        op_case_close(&c[i]);
    }
}

static void test_refusals(void **state)
{
    const float wrong[] = {1.0f, -0.1f, NAN};
    lsi_dropout_args a;
    op_case c;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        open_case(&c, &a, 1, 8, wrong[i]);
        CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "is not in [0, 1)");
        op_case_close(&c);
    }
    open_case(&c, &a, 1, 8, 0.5f);
    a.per_sample = 3;
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "8 elements are not whole samples of 3");
    op_case_close(&c);
    a = (lsi_dropout_args){.per_sample = 8, .probability = 0.5f};
    op_case_open(&c, &lsi_op_dropout, &a);
    op_case_random_as(&c, &a.x, 8, 1.0, LS_F16);
    op_case_view(&c, &a.y, 8, LS_BF16);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "must be alike");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_probability_0_is_identity),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_16_bit),
        cmocka_unit_test(test_samples_do_not_depend_on_the_cut),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
