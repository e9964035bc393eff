/* RUN: cuda timeout=120 label=contract */
/* attention_fwd and _bwd: against a T x T matrix in double, the backward also against differences of the forward; and
 * what must hold whatever the numbers are: no look into the future, dropout keyed by the sample. */
#include "support/attention_reference.h"
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the ops as cases -------------------------------------------------------------------------------------- */

static void open_forward(op_case *c, lsi_attention_fwd_args *a, attention_shape size, float dropout)
{
    *a = (lsi_attention_fwd_args){.samples = size.samples, .context = size.context, .heads = size.heads,
                                  .head_size = size.head_size, .first_sample = ATTENTION_FIRST_SAMPLE,
                                  .key = ATTENTION_KEY, .dropout = dropout};
    op_case_open(c, &lsi_op_attention_fwd, a);
    op_case_random(c, &a->qkv, 3 * attention_elements(&size), 1.5);
    op_case_view(c, &a->y, attention_elements(&size), LS_F32);
    op_case_view(c, &a->lse, attention_tokens(&size) * size.heads, LS_F32);
    c->state.attempted = ATTENTION_STEP;
}

static const float *initial(const op_case *c, int view)
{
    return c->views[view].initial;
}

/* y and lse of the forward are given as the reference has them. */
static void open_backward(op_case *c, lsi_attention_bwd_args *a, attention_shape size, float dropout,
                          attention_reference *r)
{
    int64_t n = attention_elements(&size), n_lse = attention_tokens(&size) * size.heads;

    *a = (lsi_attention_bwd_args){.samples = size.samples, .context = size.context, .heads = size.heads,
                                  .head_size = size.head_size, .first_sample = ATTENTION_FIRST_SAMPLE,
                                  .key = ATTENTION_KEY, .dropout = dropout};
    op_case_open(c, &lsi_op_attention_bwd, a);
    c->state.attempted = ATTENTION_STEP;
    const float *qkv = op_case_random(c, &a->qkv, 3 * n, 1.5);
    float *y = op_case_view(c, &a->y, n, LS_F32), *lse = op_case_view(c, &a->lse, n_lse, LS_F32);
    const float *dy = op_case_random(c, &a->dy, n, 1.0);
    op_case_view(c, &a->dqkv, 3 * n, LS_F32);

    for (int64_t i = 0; i < 3 * n; i++) {
        r->qkv[i] = (double)qkv[i];
    }
    for (int64_t i = 0; i < n; i++) {
        r->dy[i] = (double)dy[i];
    }
    attention_reference_forward(r);
    for (int64_t i = 0; i < n; i++) {
        y[i] = (float)r->y[i];
    }
    for (int64_t i = 0; i < n_lse; i++) {
        lse[i] = (float)r->lse[i];
    }
}

static void check_forward(attention_shape size, float dropout)
{
    attention_reference r = attention_reference_make(size, (double)dropout);
    lsi_attention_fwd_args a;
    op_case c;

    open_forward(&c, &a, size, dropout);
    for (int64_t i = 0; i < 3 * attention_elements(&size); i++) {
        r.qkv[i] = (double)initial(&c, 0)[i];
    }
    attention_reference_forward(&r);
    op_case_run(&c);
    op_case_expect(&c, &a.y, r.y, 1e-6, 2e-6);
    op_case_expect(&c, &a.lse, r.lse, 1e-6, 2e-6);
    op_case_close(&c);
    attention_reference_free(&r);
}

static void check_backward(attention_shape size, float dropout)
{
    attention_reference r = attention_reference_make(size, (double)dropout);
    lsi_attention_bwd_args a;
    op_case c;

    open_backward(&c, &a, size, dropout, &r);
    attention_reference_backward(&r);
    op_case_run(&c);
    op_case_expect(&c, &a.dqkv, r.dqkv, 2e-6, 5e-6);
    op_case_close(&c);
    attention_reference_free(&r);
}

/* Around the block of 64, head sizes that fill no vector, the largest head, empty. */
static const attention_shape sizes[] = {
    {0, 5, 2, 4},  {2, 1, 3, 8},   {3, 2, 1, 1},   {2, 7, 2, 3},    {1, 63, 2, 16},
    {2, 64, 1, 32}, {1, 65, 2, 20}, {1, 130, 1, 64}, {1, 70, 1, 256}, {1, 200, 2, 80},
};

static void test_forward(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_forward(sizes[i], 0.0f);
        check_forward(sizes[i], 0.3f);
    }
    check_forward((attention_shape){1, 1024, 1, 16}, 0.1f);
}

static void test_backward(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_backward(sizes[i], 0.0f);
        check_backward(sizes[i], 0.3f);
    }
    check_backward((attention_shape){1, 1024, 1, 16}, 0.1f);
}

static double weighted_output(void *argument)
{
    attention_reference *r = argument;
    double sum = 0.0;

    attention_reference_forward(r);
    for (int64_t i = 0; i < attention_elements(&r->size); i++) {
        sum += r->y[i] * r->dy[i];
    }
    return sum;
}

static void check_differences(float dropout)
{
    const attention_shape size = {2, 70, 2, 6};
    attention_reference r = attention_reference_make(size, (double)dropout);
    lsi_attention_bwd_args a;
    op_case c;

    open_backward(&c, &a, size, dropout, &r);
    op_case_run(&c);
    op_case_expect_gradient(&c, &a.dqkv, r.qkv, 3 * attention_elements(&size), weighted_output, &r,
                            1e-5);
    op_case_close(&c);
    attention_reference_free(&r);
}

static void test_backward_is_the_slope_of_the_forward(void **state)
{
    (void)state;
    check_differences(0.0f);
    check_differences(0.25f);
}

/* ---- laws -------------------------------------------------------------------------------------------------- */

/* Large scores: a naive exp overflows, the running maximum does not. */
static void test_large_scores(void **state)
{
    const attention_shape size = {1, 150, 1, 4};
    lsi_attention_fwd_args a;
    op_case c;

    (void)state;
    open_forward(&c, &a, size, 0.0f);
    for (int64_t i = 0; i < 3 * attention_elements(&size); i++) {
        ((float *)c.views[0].initial)[i] *= 30.0f;
    }
    op_case_run(&c);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *y = op_case_result(&c, &a.y, level);
        for (int64_t i = 0; i < attention_elements(&size); i++) {
            assert_true(fabsf(y[i]) <= 45.001f);
        }
    }
    op_case_close(&c);
}

/* Other numbers in one token change everything from it on, and not a bit before it; NaN is seen by all after it. */
static void check_token(float value, int nan_expected)
{
    const attention_shape size = {1, 140, 2, 8};
    const int64_t changed = 77, row = attention_width(&size);
    lsi_attention_fwd_args a, b;
    op_case before, after;

    open_forward(&before, &a, size, 0.1f);
    open_forward(&after, &b, size, 0.1f);
    for (int64_t i = 0; i < 3 * row; i++) {
        ((float *)after.views[0].initial)[changed * 3 * row + i] = value;
    }
    op_case_run(&before);
    op_case_run(&after);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *y = op_case_result(&before, &a.y, level), *z = op_case_result(&after, &b.y, level);
        if (!nan_expected) {
            assert_memory_equal(y, z, (size_t)(changed * row) * sizeof(float));
        }
        for (int64_t i = changed * row; i < size.context * row; i++) {
            assert_true(nan_expected ? isnan(z[i]) : y[i] != z[i]);
        }
    }
    op_case_close(&before);
    op_case_close(&after);
}

static void test_no_token_sees_a_later_one(void **state)
{
    (void)state;
    check_token(3.0f, 0);
    check_token(NAN, 1);
}

/* Sample 1 of three is computed as if alone: the same mask, the same bits. */
static void test_samples_do_not_depend_on_the_cut(void **state)
{
    const attention_shape all = {3, 67, 2, 16}, one = {1, 67, 2, 16};
    const int64_t n = one.context * attention_width(&one), n_lse = one.context * one.heads;
    attention_reference r = attention_reference_make(all, 0.4), r_one = attention_reference_make(one, 0.4);
    lsi_attention_bwd_args a, b;
    op_case whole, part;

    (void)state;
    open_backward(&whole, &a, all, 0.4f, &r);
    open_backward(&part, &b, one, 0.4f, &r_one);
    b.first_sample = ATTENTION_FIRST_SAMPLE + 1;
    for (int view = 0; view < 4; view++) {
        int64_t per_sample = view == 0 ? 3 * n : view == 2 ? n_lse : n;
        memcpy(part.views[view].initial, initial(&whole, view) + per_sample, (size_t)per_sample * sizeof(float));
    }
    op_case_run(&whole);
    op_case_run(&part);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *dqkv = op_case_result(&whole, &a.dqkv, level);
        assert_memory_equal(dqkv + 3 * n, op_case_result(&part, &b.dqkv, level), (size_t)(3 * n) * sizeof(float));
    }
    op_case_close(&whole);
    op_case_close(&part);
    attention_reference_free(&r);
    attention_reference_free(&r_one);
}

/* Equal scores and values of 1: a row of y is the share of kept keys / (1 - dropout), 1 on average. */
static void test_dropout_keeps_the_mean(void **state)
{
    const attention_shape size = {1, 300, 4, 2};
    const double dropout = 0.3;
    lsi_attention_fwd_args a;
    op_case c;

    (void)state;
    open_forward(&c, &a, size, (float)dropout);
    float *qkv = c.views[0].initial;
    for (int64_t i = 0; i < 3 * attention_elements(&size); i++) {
        qkv[i] = i / attention_width(&size) % 3 == 2 ? 1.0f : 0.0f;
    }
    op_case_run(&c);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *y = op_case_result(&c, &a.y, level);
        double kept = 0.0, pairs = 0.0;
        for (int64_t i = 0; i < size.context; i++) {
            for (int64_t h = 0; h < size.heads; h++) {
                kept += (double)y[(i * size.heads + h) * size.head_size] * (double)(i + 1) * (1.0 - dropout);
                pairs += (double)(i + 1);
            }
        }
        assert_true(fabs(kept / pairs - (1.0 - dropout)) < 5.0 * sqrt(dropout * (1.0 - dropout) / pairs));
    }
    op_case_close(&c);
}

static void check_refused(attention_shape size, float dropout, const char *part)
{
    lsi_attention_fwd_args a;
    op_case c;

    open_forward(&c, &a, size, dropout);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, part);
    op_case_close(&c);
}

static void test_refusals(void **state)
{
    (void)state;
    check_refused((attention_shape){1, 2, 1, 257}, 0.0f, "head size 257");
    check_refused((attention_shape){1, 2, 1, 4}, 1.0f, "dropout probability 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_backward_is_the_slope_of_the_forward),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_no_token_sees_a_later_one),
        cmocka_unit_test(test_samples_do_not_depend_on_the_cut),
        cmocka_unit_test(test_dropout_keeps_the_mean),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
