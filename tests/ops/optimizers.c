/* RUN: cuda timeout=60 label=contract */
/* adamw and sgd: fifty steps against the update rules in double, from their definition and not from the state's powers;
 * a skipped step changes nothing. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"

enum { STEPS = 50, SKIPPED = 20, SMALL = 2500 };

/* What the optimizer has at one time, in float for the op and in double for the model. */
typedef struct weights {
    int64_t n;
    float *w, *m, *v;
    double *model_w, *model_m, *model_v;
} weights;

static float *floats(int64_t n)
{
    float *p = calloc((size_t)n + 1, sizeof(float));

    assert_non_null(p);
    return p;
}

static weights weights_make(int64_t n)
{
    weights x = {n, floats(n), floats(n), floats(n), op_case_zeros(n), op_case_zeros(n), op_case_zeros(n)};

    for (int64_t i = 0; i < n; i++) {
        x.w[i] = lsi_random_unit(lsi_random_philox(1, (uint32_t)i, 0, 0, 0).v[0]) - 0.5f;
        x.model_w[i] = (double)x.w[i];
    }
    return x;
}

static void weights_free(weights *x)
{
    float *singles[] = {x->w, x->m, x->v};
    double *doubles[] = {x->model_w, x->model_m, x->model_v};

    for (int i = 0; i < 3; i++) {
        free(singles[i]);
        free(doubles[i]);
    }
}

/* The gradient sums of a step: noise around a slope that pulls to 0, some of them exactly 0. */
static void fill_gradients(const weights *x, int step, float *g)
{
    for (int64_t i = 0; i < x->n; i++) {
        lsi_random4 r = lsi_random_philox(2, (uint32_t)i, (uint32_t)step, 0, 0);
        g[i] = i % 17 == 0 ? 0.0f : 100.0f * (x->w[i] + lsi_random_unit(r.v[0]) - 0.5f);
    }
}

/* What the commit op would have written for the t-th applied step. */
static ls_step_state state_of(int t, double beta1, double beta2)
{
    ls_step_state s = {
        .attempted = t, .applied = t, .unscale = 0.01, .learning_rate = 0.01f / (float)t,
        .clip_factor = t % 3 == 0 ? 0.3f : 1.0f, .beta1_power = 1.0, .beta2_power = 1.0,
    };

    for (int i = 0; i < t; i++) {
        s.beta1_power *= beta1;
        s.beta2_power *= beta2;
    }
    return s;
}

/* Model and float arithmetic part by some roundings a step: relative to the largest element. */
static void check_close(const float *got, const double *want, int64_t n, double tolerance)
{
    double largest = 1e-30, worst = 0.0;

    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(want[i]));
        worst = fmax(worst, fabs((double)got[i] - want[i]));
    }
    if (worst > tolerance * largest) {
        fail_msg("off by %.3g of the largest element, allowed %.3g", worst / largest, tolerance);
    }
}

/* All levels give the same bits: the result of level 0 goes on. */
static void take(const op_case *c, const ls_view *view, float *out, int64_t n)
{
    memcpy(out, op_case_result(c, view, 0), (size_t)n * sizeof(float));
    op_case_expect_bytes(c, view, out);
}

/* ---- adamw --------------------------------------------------------------------------------------------------- */

static const double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;

static void run_adamw(weights *x, const float *g, const ls_step_state *state, double weight_decay)
{
    lsi_adamw_args a = {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay};
    size_t bytes = (size_t)x->n * sizeof(float);
    op_case c;

    op_case_open(&c, &lsi_op_adamw, &a);
    memcpy(op_case_view(&c, &a.g, x->n, LS_F32), g, bytes);
    memcpy(op_case_view(&c, &a.w, x->n, LS_F32), x->w, bytes);
    memcpy(op_case_view(&c, &a.m, x->n, LS_F32), x->m, bytes);
    memcpy(op_case_view(&c, &a.v, x->n, LS_F32), x->v, bytes);
    c.state = *state;
    op_case_run(&c);
    take(&c, &a.w, x->w, x->n);
    take(&c, &a.m, x->m, x->n);
    take(&c, &a.v, x->v, x->n);
    op_case_close(&c);
}

/* Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, algorithm 2. */
static void model_adamw(weights *x, const float *g, const ls_step_state *state, int t, double weight_decay)
{
    double rate = (double)state->learning_rate;

    for (int64_t i = 0; i < x->n; i++) {
        double gradient = (double)g[i] * state->unscale * (double)state->clip_factor;
        x->model_m[i] = beta1 * x->model_m[i] + (1.0 - beta1) * gradient;
        x->model_v[i] = beta2 * x->model_v[i] + (1.0 - beta2) * gradient * gradient;
        double m = x->model_m[i] / (1.0 - pow(beta1, t)), v = x->model_v[i] / (1.0 - pow(beta2, t));
        x->model_w[i] -= rate * (m / (sqrt(v) + eps) + weight_decay * x->model_w[i]);
    }
}

static void check_adamw(int64_t n, int steps, double weight_decay)
{
    weights x = weights_make(n);
    float *g = floats(n);

    for (int t = 1; t <= steps; t++) {
        ls_step_state state = state_of(t, beta1, beta2);
        fill_gradients(&x, t, g);
        run_adamw(&x, g, &state, weight_decay);
        model_adamw(&x, g, &state, t, weight_decay);
        check_close(x.w, x.model_w, n, 2e-6);
        check_close(x.m, x.model_m, n, 2e-6);
        check_close(x.v, x.model_v, n, 2e-6);
    }
    free(g);
    weights_free(&x);
}

static void test_adamw(void **state)
{
    const int64_t sizes[] = {0, 1, 1023, LSI_BLOCK, 3 * LSI_BLOCK + 5};

    (void)state;
    check_adamw(SMALL, STEPS, 0.1);
    check_adamw(SMALL, STEPS, 0.0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_adamw(sizes[i], 2, 0.1);
    }
}

/* ---- sgd ----------------------------------------------------------------------------------------------------- */

static void run_sgd(weights *x, const float *g, const ls_step_state *state, double factor, double weight_decay)
{
    lsi_sgd_args a = {.factor = factor, .weight_decay = weight_decay};
    size_t bytes = (size_t)x->n * sizeof(float);
    op_case c;

    op_case_open(&c, &lsi_op_sgd, &a);
    memcpy(op_case_view(&c, &a.g, x->n, LS_F32), g, bytes);
    memcpy(op_case_view(&c, &a.w, x->n, LS_F32), x->w, bytes);
    memcpy(op_case_view(&c, &a.momentum, x->n, LS_F32), x->m, bytes);
    c.state = *state;
    op_case_run(&c);
    take(&c, &a.w, x->w, x->n);
    take(&c, &a.momentum, x->m, x->n);
    op_case_close(&c);
}

static void model_sgd(weights *x, const float *g, const ls_step_state *state, double factor, double weight_decay)
{
    for (int64_t i = 0; i < x->n; i++) {
        double gradient = (double)g[i] * state->unscale * (double)state->clip_factor + weight_decay * x->model_w[i];
        x->model_m[i] = factor * x->model_m[i] + gradient;
        x->model_w[i] -= (double)state->learning_rate * x->model_m[i];
    }
}

/* The buffer begins as NaN: the first applied step must not read it. */
static void check_sgd(int64_t n, int steps, double factor, double weight_decay)
{
    weights x = weights_make(n);
    float *g = floats(n);

    for (int64_t i = 0; i < n; i++) {
        x.m[i] = NAN;
    }
    for (int t = 1; t <= steps; t++) {
        ls_step_state state = state_of(t, 1.0, 1.0);
        fill_gradients(&x, t, g);
        run_sgd(&x, g, &state, factor, weight_decay);
        model_sgd(&x, g, &state, factor, weight_decay);
        check_close(x.w, x.model_w, n, 2e-6);
        check_close(x.m, x.model_m, n, 2e-6);
    }
    free(g);
    weights_free(&x);
}

static void test_sgd(void **state)
{
    const int64_t sizes[] = {0, 1, 1023, LSI_BLOCK, 3 * LSI_BLOCK + 5};

    (void)state;
    check_sgd(SMALL, STEPS, 0.9, 0.1);
    check_sgd(SMALL, STEPS, 0.0, 0.0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_sgd(sizes[i], 2, 0.9, 0.01);
    }
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

/* A copy changes nothing else, and is the new weights rounded; a skipped step leaves it as it was. */
static void check_copy(const op_case *c, const ls_view *copy, const ls_view *w, ls_dtype dtype, int64_t n, bool skip)
{
    for (int level = 0; level < op_case_levels(); level++) {
        const uint16_t *got = op_case_result(c, copy, level);
        const float *weight = op_case_result(c, w, level);
        for (int64_t i = 0; i < n; i++) {
            uint16_t rounded = dtype == LS_F16 ? lsi_half_f16_from_f32(weight[i]) : lsi_half_bf16_from_f32(weight[i]);
            assert_int_equal(got[i], skip ? 0xFFFF : rounded);
        }
    }
}

static void check_copies(const weights *x, const float *g, ls_dtype dtype, bool skip)
{
    size_t bytes = (size_t)x->n * sizeof(float);
    lsi_adamw_args a = {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = 0.1};
    lsi_sgd_args s = {.factor = 0.9, .weight_decay = 0.1};
    weights plain = weights_make(x->n);
    ls_step_state state = state_of(3, beta1, beta2);
    op_case c;

    state.skip = skip;
    op_case_open(&c, &lsi_op_adamw, &a);
    memcpy(op_case_view(&c, &a.g, x->n, LS_F32), g, bytes);
    memcpy(op_case_view(&c, &a.w, x->n, LS_F32), x->w, bytes);
    op_case_view(&c, &a.m, x->n, LS_F32);
    op_case_view(&c, &a.v, x->n, LS_F32);
    op_case_view(&c, &a.copy, x->n, dtype);
    c.state = state;
    op_case_run(&c);
    run_adamw(&plain, g, &state, 0.1);
    op_case_expect_bytes(&c, &a.w, plain.w);
    op_case_expect_bytes(&c, &a.m, plain.m);
    op_case_expect_bytes(&c, &a.v, plain.v);
    check_copy(&c, &a.copy, &a.w, dtype, x->n, skip);
    op_case_close(&c);
    weights_free(&plain);

    plain = weights_make(x->n);
    op_case_open(&c, &lsi_op_sgd, &s);
    memcpy(op_case_view(&c, &s.g, x->n, LS_F32), g, bytes);
    memcpy(op_case_view(&c, &s.w, x->n, LS_F32), x->w, bytes);
    op_case_view(&c, &s.momentum, x->n, LS_F32);
    op_case_view(&c, &s.copy, x->n, dtype);
    c.state = state;
    op_case_run(&c);
    run_sgd(&plain, g, &state, 0.9, 0.1);
    op_case_expect_bytes(&c, &s.w, plain.w);
    op_case_expect_bytes(&c, &s.momentum, plain.m);
    check_copy(&c, &s.copy, &s.w, dtype, x->n, skip);
    op_case_close(&c);
    weights_free(&plain);
}

static void test_copy(void **state)
{
    const int64_t sizes[] = {1, 1023, LSI_BLOCK, 3 * LSI_BLOCK + 1029};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        weights x = weights_make(sizes[i]);
        float *g = floats(sizes[i]);

        fill_gradients(&x, 3, g);
        for (int skip = 0; skip < 2; skip++) {
            check_copies(&x, g, LS_F16, skip);
            check_copies(&x, g, LS_BF16, skip);
        }
        free(g);
        weights_free(&x);
    }
}

/* Non-finite gradients of a skipped step reach nothing. */
static void test_skip_touches_nothing(void **unused)
{
    weights x = weights_make(SMALL), before = weights_make(SMALL);
    float *g = floats(SMALL);

    (void)unused;
    for (int t = 1; t <= SKIPPED; t++) {
        ls_step_state state = state_of(t, beta1, beta2);
        fill_gradients(&x, t, g);
        run_adamw(&x, g, &state, 0.1);
    }
    memcpy(before.w, x.w, SMALL * sizeof(float));
    memcpy(before.m, x.m, SMALL * sizeof(float));
    memcpy(before.v, x.v, SMALL * sizeof(float));

    ls_step_state skipped = state_of(SKIPPED, beta1, beta2);
    skipped.skip = 1;
    skipped.unscale = (double)NAN;
    g[0] = NAN;
    run_adamw(&x, g, &skipped, 0.1);
    run_sgd(&x, g, &skipped, 0.9, 0.1);
    assert_memory_equal(before.w, x.w, SMALL * sizeof(float));
    assert_memory_equal(before.m, x.m, SMALL * sizeof(float));
    assert_memory_equal(before.v, x.v, SMALL * sizeof(float));
    free(g);
    weights_free(&x);
    weights_free(&before);
}

static void test_refuse_wrong_counts(void **state)
{
    lsi_adamw_args a = {0};
    lsi_sgd_args s = {0};
    op_case c;

    (void)state;
    op_case_open(&c, &lsi_op_adamw, &a);
    op_case_random(&c, &a.g, 8, 1.0);
    op_case_random(&c, &a.w, 8, 1.0);
    op_case_random(&c, &a.m, 8, 1.0);
    op_case_random(&c, &a.v, 7, 1.0);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "8 gradients for 8 weights, moments 8 and 7");
    op_case_close(&c);
    op_case_open(&c, &lsi_op_sgd, &s);
    op_case_random(&c, &s.g, 8, 1.0);
    op_case_random(&c, &s.w, 9, 1.0);
    op_case_random(&c, &s.momentum, 8, 1.0);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "8 gradients for 9 weights");
    op_case_close(&c);
    op_case_open(&c, &lsi_op_sgd, &s);
    op_case_random(&c, &s.g, 8, 1.0);
    op_case_random(&c, &s.w, 8, 1.0);
    op_case_random(&c, &s.momentum, 8, 1.0);
    op_case_view(&c, &s.copy, 7, LS_BF16);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "a copy of 7 elements for 8 weights");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_skip_touches_nothing),
        cmocka_unit_test(test_refuse_wrong_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
