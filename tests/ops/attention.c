/* RUN: cuda timeout=120 */
/* attention_fwd and _bwd: against a T x T matrix in double, the backward also against differences of the forward; and
 * what must hold whatever the numbers are: no look into the future, dropout keyed by the sample. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

typedef struct shape {
    int64_t samples, context, heads, head_size;
} shape;

enum { FIRST_SAMPLE = 5, ATTEMPTED = 41, DROP_KEY = 77 };

/* One attention in double, as the textbook has it. */
typedef struct reference {
    shape size;
    double dropout;
    double *qkv, *dy;
    double *y, *lse, *dqkv;
    double *p, *mask;       /* [context, context] of one head */
} reference;

static int64_t tokens(const shape *s)
{
    return s->samples * s->context;
}

static int64_t width(const shape *s)
{
    return s->heads * s->head_size;
}

static reference reference_make(shape size, double dropout)
{
    return (reference){
        .size = size,
        .dropout = dropout,
        .qkv = op_case_zeros(3 * tokens(&size) * width(&size)),
        .dy = op_case_zeros(tokens(&size) * width(&size)),
        .y = op_case_zeros(tokens(&size) * width(&size)),
        .lse = op_case_zeros(tokens(&size) * size.heads),
        .dqkv = op_case_zeros(3 * tokens(&size) * width(&size)),
        .p = op_case_zeros(size.context * size.context),
        .mask = op_case_zeros(size.context * size.context),
    };
}

static void reference_free(reference *r)
{
    double *all[] = {r->qkv, r->dy, r->y, r->lse, r->dqkv, r->p, r->mask};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

/* Part 0, 1, 2 of a token: its query, key, value in `data`, which is laid out as qkv. */
static double *row_of(const reference *r, double *data, int64_t sample, int64_t token, int part, int64_t head)
{
    return data + (((sample * r->size.context + token) * 3 + part) * r->size.heads + head) * r->size.head_size;
}

static int64_t out_at(const reference *r, int64_t sample, int64_t token, int64_t head)
{
    return ((sample * r->size.context + token) * r->size.heads + head) * r->size.head_size;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* The formula of ops.def, one element at a time. */
static double mask_of(const reference *r, int64_t sample, int64_t head, int64_t i, int64_t j)
{
    uint64_t padded = (uint64_t)(r->size.context + 3) / 4 * 4;
    uint64_t e = (uint64_t)(head * r->size.context + i) * padded + (uint64_t)j, group = e / 4;
    lsi_random4 drawn = lsi_random_philox(DROP_KEY, (uint32_t)group, (uint32_t)(FIRST_SAMPLE + sample), ATTEMPTED,
                                          (uint32_t)(group >> 32) * 256 + 2);

    return (double)drawn.v[e % 4] >= r->dropout * 0x1p32 ? 1.0 / (1.0 - r->dropout) : 0.0;
}

/* Probabilities and masks of one head; lse too. */
static void reference_head(reference *r, int64_t s, int64_t h)
{
    int64_t n = r->size.context, size = r->size.head_size;

    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0, *p = r->p + i * n;

        for (int64_t j = 0; j <= i; j++) {
            p[j] = exp(dot(row_of(r, r->qkv, s, i, 0, h), row_of(r, r->qkv, s, j, 1, h), size) / sqrt((double)size));
            sum += p[j];
            r->mask[i * n + j] = mask_of(r, s, h, i, j);
        }
        for (int64_t j = 0; j <= i; j++) {
            p[j] /= sum;
        }
        r->lse[(s * r->size.heads + h) * n + i] = log(sum);
    }
}

static void reference_forward(reference *r)
{
    int64_t n = r->size.context, size = r->size.head_size;

    memset(r->y, 0, (size_t)(tokens(&r->size) * width(&r->size)) * sizeof(double));
    for (int64_t s = 0; s < r->size.samples; s++) {
        for (int64_t h = 0; h < r->size.heads; h++) {
            reference_head(r, s, h);
            for (int64_t i = 0; i < n; i++) {
                double *y = r->y + out_at(r, s, i, h);
                for (int64_t j = 0; j <= i; j++) {
                    const double *v = row_of(r, r->qkv, s, j, 2, h);
                    double weight = r->p[i * n + j] * r->mask[i * n + j];
                    for (int64_t c = 0; c < size; c++) {
                        y[c] += weight * v[c];
                    }
                }
            }
        }
    }
}

/* Through the softmax by its Jacobian. */
static void reference_backward(reference *r)
{
    int64_t n = r->size.context, size = r->size.head_size;
    double *dp = op_case_zeros(n);

    for (int64_t s = 0; s < r->size.samples; s++) {
        for (int64_t h = 0; h < r->size.heads; h++) {
            reference_head(r, s, h);
            for (int64_t i = 0; i < n; i++) {
                const double *dy = r->dy + out_at(r, s, i, h), *q = row_of(r, r->qkv, s, i, 0, h);
                double mean = 0.0;
                for (int64_t j = 0; j <= i; j++) {
                    dp[j] = r->mask[i * n + j] * dot(dy, row_of(r, r->qkv, s, j, 2, h), size);
                    mean += r->p[i * n + j] * dp[j];
                }
                for (int64_t j = 0; j <= i; j++) {
                    double p = r->p[i * n + j], ds = p * (dp[j] - mean) / sqrt((double)size);
                    const double *k = row_of(r, r->qkv, s, j, 1, h);
                    for (int64_t c = 0; c < size; c++) {
                        row_of(r, r->dqkv, s, i, 0, h)[c] += ds * k[c];
                        row_of(r, r->dqkv, s, j, 1, h)[c] += ds * q[c];
                        row_of(r, r->dqkv, s, j, 2, h)[c] += p * r->mask[i * n + j] * dy[c];
                    }
                }
            }
        }
    }
    free(dp);
}

/* ---- the ops as cases -------------------------------------------------------------------------------------- */

static void open_forward(op_case *c, lsi_attention_fwd_args *a, shape size, float dropout)
{
    *a = (lsi_attention_fwd_args){.samples = size.samples, .context = size.context, .heads = size.heads,
                                  .head_size = size.head_size, .first_sample = FIRST_SAMPLE, .key = DROP_KEY,
                                  .dropout = dropout};
    op_case_open(c, &lsi_op_attention_fwd, a);
    op_case_random(c, &a->qkv, 3 * tokens(&size) * width(&size), 1.5);
    op_case_view(c, &a->y, tokens(&size) * width(&size), LS_F32);
    op_case_view(c, &a->lse, tokens(&size) * size.heads, LS_F32);
    c->state.attempted = ATTEMPTED;
}

static const float *initial(const op_case *c, int view)
{
    return c->views[view].initial;
}

/* y and lse of the forward are given as the reference has them. */
static void open_backward(op_case *c, lsi_attention_bwd_args *a, shape size, float dropout, reference *r)
{
    int64_t n = tokens(&size) * width(&size), n_lse = tokens(&size) * size.heads;

    *a = (lsi_attention_bwd_args){.samples = size.samples, .context = size.context, .heads = size.heads,
                                  .head_size = size.head_size, .first_sample = FIRST_SAMPLE, .key = DROP_KEY,
                                  .dropout = dropout};
    op_case_open(c, &lsi_op_attention_bwd, a);
    c->state.attempted = ATTEMPTED;
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
    reference_forward(r);
    for (int64_t i = 0; i < n; i++) {
        y[i] = (float)r->y[i];
    }
    for (int64_t i = 0; i < n_lse; i++) {
        lse[i] = (float)r->lse[i];
    }
}

static void check_forward(shape size, float dropout)
{
    reference r = reference_make(size, (double)dropout);
    lsi_attention_fwd_args a;
    op_case c;

    open_forward(&c, &a, size, dropout);
    for (int64_t i = 0; i < 3 * tokens(&size) * width(&size); i++) {
        r.qkv[i] = (double)initial(&c, 0)[i];
    }
    reference_forward(&r);
    op_case_run(&c);
    op_case_expect(&c, &a.y, r.y, 1e-6, 2e-6);
    op_case_expect(&c, &a.lse, r.lse, 1e-6, 2e-6);
    op_case_close(&c);
    reference_free(&r);
}

static void check_backward(shape size, float dropout)
{
    reference r = reference_make(size, (double)dropout);
    lsi_attention_bwd_args a;
    op_case c;

    open_backward(&c, &a, size, dropout, &r);
    reference_backward(&r);
    op_case_run(&c);
    op_case_expect(&c, &a.dqkv, r.dqkv, 2e-6, 5e-6);
    op_case_close(&c);
    reference_free(&r);
}

/* Around the block of 64, head sizes that fill no vector, the largest head, empty. */
static const shape sizes[] = {
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
    check_forward((shape){1, 1024, 1, 16}, 0.1f);
}

static void test_backward(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_backward(sizes[i], 0.0f);
        check_backward(sizes[i], 0.3f);
    }
    check_backward((shape){1, 1024, 1, 16}, 0.1f);
}

static double weighted_output(void *argument)
{
    reference *r = argument;

    reference_forward(r);
    return dot(r->y, r->dy, tokens(&r->size) * width(&r->size));
}

static void check_differences(float dropout)
{
    const shape size = {2, 70, 2, 6};
    reference r = reference_make(size, (double)dropout);
    lsi_attention_bwd_args a;
    op_case c;

    open_backward(&c, &a, size, dropout, &r);
    op_case_run(&c);
    op_case_expect_gradient(&c, &a.dqkv, r.qkv, 3 * tokens(&size) * width(&size), weighted_output, &r, 1e-5);
    op_case_close(&c);
    reference_free(&r);
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
    const shape size = {1, 150, 1, 4};
    lsi_attention_fwd_args a;
    op_case c;

    (void)state;
    open_forward(&c, &a, size, 0.0f);
    for (int64_t i = 0; i < 3 * tokens(&size) * width(&size); i++) {
        ((float *)c.views[0].initial)[i] *= 30.0f;
    }
    op_case_run(&c);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *y = op_case_result(&c, &a.y, level);
        for (int64_t i = 0; i < tokens(&size) * width(&size); i++) {
            assert_true(fabsf(y[i]) <= 45.001f);
        }
    }
    op_case_close(&c);
}

/* Other numbers in one token change everything from it on, and not a bit before it; NaN is seen by all after it. */
static void check_token(float value, int nan_expected)
{
    const shape size = {1, 140, 2, 8};
    const int64_t changed = 77, row = width(&size);
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
    const shape all = {3, 67, 2, 16}, one = {1, 67, 2, 16};
    const int64_t n = one.context * width(&one), n_lse = one.context * one.heads;
    reference r = reference_make(all, 0.4), r_one = reference_make(one, 0.4);
    lsi_attention_bwd_args a, b;
    op_case whole, part;

    (void)state;
    open_backward(&whole, &a, all, 0.4f, &r);
    open_backward(&part, &b, one, 0.4f, &r_one);
    b.first_sample = FIRST_SAMPLE + 1;
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
    reference_free(&r);
    reference_free(&r_one);
}

/* Equal scores and values of 1: a row of y is the share of kept keys / (1 - dropout), 1 on average. */
static void test_dropout_keeps_the_mean(void **state)
{
    const shape size = {1, 300, 4, 2};
    const double dropout = 0.3;
    lsi_attention_fwd_args a;
    op_case c;

    (void)state;
    open_forward(&c, &a, size, (float)dropout);
    float *qkv = c.views[0].initial;
    for (int64_t i = 0; i < 3 * tokens(&size) * width(&size); i++) {
        qkv[i] = i / width(&size) % 3 == 2 ? 1.0f : 0.0f;
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

static void check_refused(shape size, float dropout, const char *part)
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
    check_refused((shape){1, 2, 1, 257}, 0.0f, "head size 257");
    check_refused((shape){1, 2, 1, 4}, 1.0f, "dropout probability 1");
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
