/* RUN: timeout=300 label=contract */
/* attention_fwd and _bwd on simulated GPUs, on each way that a GPU can take: against a T x T matrix in double and
 * against the cpu's op, in three orders of threads, at two alignments; and dropout masks, which are the cpu's. */
#include "cusim/kernels/attention_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cusim_exec.h"
#include "kernels/cuda/attention.h"

enum { N_ORDERS = 3, SEED = 7 };

typedef struct way {
    const char *variant;
    int capability;
    ls_dtype dtype;
} way;

static const way ways[] = {
    {"sm080", 80, LS_F32}, {"sm070", 70, LS_F16}, {"sm075", 75, LS_F16}, {"sm080", 80, LS_F16}, {"sm080", 80, LS_BF16},
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

/* Around the tiles of 16 to 64 rows, all sizes that kernels are made for, heads that fill no chunk of 16 bytes. */
static const attention_shape sizes[] = {
#ifdef __SANITIZE_THREAD__
    {1, 7, 2, 8}, {1, 65, 1, 20},
#else
    {2, 1, 3, 8},   {3, 2, 1, 1},   {2, 7, 2, 3},   {1, 63, 2, 16},  {2, 64, 1, 64},  {1, 65, 2, 20},
    {1, 130, 1, 64}, {1, 130, 1, 20}, {1, 90, 2, 80}, {1, 33, 1, 128}, {1, 70, 1, 256}, {0, 5, 2, 4},
#endif
};

/* In every order and at another alignment: the same bits. Leaves what the last run made in `data`. */
static void run_orders(const attention_device *device, attention_data *data)
{
    void *made = data->backward ? data->dqkv : data->y;
    size_t bytes = (size_t)attention_elements(&data->size) * ls_dtype_bytes(data->dtype) * (data->backward ? 3 : 1);
    void *first = op_case_allocate(bytes);

    for (int order = 0; order < N_ORDERS; order++) {
        cusim_set_order(order, SEED);
        CHECK_OK(attention_run(device, data, order == 1 ? ls_dtype_bytes(data->dtype) : 0));
        if (order == 0) {
            memcpy(first, made, bytes);
        }
        assert_memory_equal(first, made, bytes);
    }
    free(first);
}

/* What the cpu makes of the same; its lse beside its y. */
static void compare_with_cpu(const attention_device *cpu, const attention_data *data, const attention_reference *r)
{
    int64_t n = attention_elements(&data->size) * (data->backward ? 3 : 1);
    attention_data on_cpu = *data;
    attention_error tolerance = attention_tolerance(data->dtype);

    on_cpu.y = attention_round(r->y, attention_elements(&data->size), data->dtype);
    on_cpu.lse = attention_round(r->lse, attention_tokens(&data->size) * data->size.heads, LS_F32);
    on_cpu.dqkv = op_case_allocate((size_t)(3 * attention_elements(&data->size)) * ls_dtype_bytes(data->dtype));
    CHECK_OK(attention_run(cpu, &on_cpu, 0));
    double *expected = op_case_zeros(n);
    for (int64_t i = 0; i < n; i++) {
        const void *made = data->backward ? on_cpu.dqkv : on_cpu.y;
        expected[i] = data->dtype == LS_F32 ? (double)((const float *)made)[i]
                                            : (double)op_case_from_half(data->dtype, ((const uint16_t *)made)[i]);
    }
    attention_error e = attention_compare(data->backward ? data->dqkv : data->y, data->dtype, expected, n);
    assert_true(e.norm <= tolerance.norm && e.max <= tolerance.max);
    free(expected);
    free(on_cpu.y);
    free(on_cpu.lse);
    free(on_cpu.dqkv);
}

static void check(const way *w, const attention_device *device, const attention_device *cpu, attention_shape size,
                  float dropout, bool backward)
{
    attention_reference reference;
    attention_data data = attention_data_make(size, dropout, w->dtype, backward, &reference);

    run_orders(device, &data);
    assert_true(attention_is_right(&data, &reference, lsi_cuda_attention_path(w->capability, w->dtype)));
    compare_with_cpu(cpu, &data, &reference);
    attention_data_free(&data);
    attention_reference_free(&reference);
}

static void check_all(bool backward)
{
    attention_device cpu = attention_device_open("cpu", NULL);

    for (int w = 0; w < N_WAYS; w++) {
        attention_device device = attention_device_open("cuda", ways[w].variant);

        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check(&ways[w], &device, &cpu, sizes[i], 0.0f, backward);
            check(&ways[w], &device, &cpu, sizes[i], 0.3f, backward);
        }
        attention_device_close(&device);
    }
    attention_device_close(&cpu);
}

static void test_forward(void **state)
{
    (void)state;
    check_all(false);
}

static void test_backward(void **state)
{
    (void)state;
    check_all(true);
}

/* ---- masks --------------------------------------------------------------------------------------------------- */

enum { QUERIES = 0, KEYS = 1, VALUES = 2 };

/* Token i of the head gets the i-th unit vector as its query, key or value; or as its output gradient. */
static void set_units(const attention_reference *r, double *values, int parts, int part)
{
    const attention_shape *s = &r->size;

    for (int64_t token = 0; token < attention_tokens(s); token++) {
        for (int64_t head = 0; head < s->heads; head++) {
            values[((token * parts + part) * s->heads + head) * s->head_size + token % s->context] = 1.0;
        }
    }
}

static void set_ones(double *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = 1.0;
    }
}

/* Element [i][j] of every head of `part` in `made` is zero exactly where the mask says so; transposed: [j][i]. */
static void expect_mask(const attention_reference *r, const void *made, ls_dtype dtype, int parts, int part,
                        bool transposed)
{
    const attention_shape *s = &r->size;

    for (int64_t token = 0; token < attention_tokens(s); token++) {
        for (int64_t head = 0; head < s->heads; head++) {
            int64_t at = ((token * parts + part) * s->heads + head) * s->head_size, row = token % s->context;
            for (int64_t column = 0; column < s->context; column++) {
                int64_t i = transposed ? column : row, j = transposed ? row : column;
                bool kept = j <= i && attention_mask(r, token / s->context, head, i, j) > 0.0;
                bool is_zero = dtype == LS_F32 ? ((const float *)made)[at + column] == 0.0f
                                               : (((const uint16_t *)made)[at + column] & 0x7FFF) == 0;
                assert_int_equal(is_zero, !kept);
            }
        }
    }
}

static attention_data mask_data(attention_reference *r, ls_dtype dtype, bool backward)
{
    const attention_shape size = {2, 37, 2, 40};
    int64_t n = attention_elements(&size), n_lse = attention_tokens(&size) * size.heads;
    attention_data d = {.size = size, .dropout = 0.4f, .dtype = dtype, .backward = backward};

    *r = attention_reference_make(size, (double)d.dropout);
    d.y = attention_round(r->y, n, dtype);
    d.dqkv = op_case_allocate((size_t)(3 * n) * ls_dtype_bytes(dtype));
    for (int64_t i = 0; i < n_lse; i++) {
        r->lse[i] = log((double)(i % size.context + 1));
    }
    d.lse = attention_round(r->lse, n_lse, LS_F32);
    return d;
}

static void finish_data(attention_data *d, const attention_reference *r)
{
    d->qkv = attention_round(r->qkv, 3 * attention_elements(&d->size), d->dtype);
    d->dy = attention_round(r->dy, attention_elements(&d->size), d->dtype);
}

/* All scores are 0, so all probabilities are those of a mean; values that are unit vectors show each of them in y,
 * output gradients that are in dv. With y = 0 and dy . v = 1 the gradient of a score is its masked probability: unit
 * keys show it in dq, unit queries in dk. */
static void check_masks(const way *w, int shown)
{
    attention_device device = attention_device_open("cuda", w->variant);
    attention_reference r;
    attention_data d = mask_data(&r, w->dtype, shown >= 0);
    int64_t n = attention_elements(&d.size);

    if (shown < 0) {
        set_units(&r, r.qkv, 3, VALUES);
    } else if (shown == VALUES) {
        set_units(&r, r.dy, 1, 0);
    } else {
        set_units(&r, r.qkv, 3, shown == QUERIES ? KEYS : QUERIES);
        set_ones(r.dy, n);
        for (int64_t token = 0; token < attention_tokens(&d.size); token++) {
            set_ones(r.qkv + (token * 3 + VALUES) * attention_width(&d.size), attention_width(&d.size));
        }
    }
    finish_data(&d, &r);
    CHECK_OK(attention_run(&device, &d, 0));
    expect_mask(&r, shown < 0 ? d.y : d.dqkv, w->dtype, shown < 0 ? 1 : 3, shown < 0 ? 0 : shown, shown > 0);
    attention_data_free(&d);
    attention_reference_free(&r);
    attention_device_close(&device);
}

static void test_masks(void **state)
{
    (void)state;
    for (int w = 0; w < N_WAYS; w++) {
        check_masks(&ways[w], -1);
        check_masks(&ways[w], QUERIES);
        check_masks(&ways[w], KEYS);
        check_masks(&ways[w], VALUES);
    }
}

/* ---- laws ---------------------------------------------------------------------------------------------------- */

static void set_token(attention_data *d, int64_t token, double value)
{
    int64_t row = 3 * attention_width(&d->size);
    void *one = attention_round(&value, 1, d->dtype);
    size_t bytes = ls_dtype_bytes(d->dtype);

    for (int64_t i = token * row; i < (token + 1) * row; i++) {
        memcpy((char *)d->qkv + (size_t)i * bytes, one, bytes);
    }
    free(one);
}

/* Another number in one token changes not a bit before it; NaN is seen by all after it. */
static void test_no_token_sees_a_later_one(void **state)
{
    const attention_shape size = {1, 90, 1, 8};
    const int64_t changed = 70;

    (void)state;
    for (int w = 0; w < N_WAYS; w++) {
        attention_device device = attention_device_open("cuda", ways[w].variant);
        attention_reference r[3];
        attention_data d[3];
        for (int i = 0; i < 3; i++) {
            d[i] = attention_data_make(size, 0.1f, ways[w].dtype, false, &r[i]);
            if (i > 0) {
                set_token(&d[i], changed, i == 1 ? 3.0 : (double)NAN);
            }
            CHECK_OK(attention_run(&device, &d[i], 0));
        }
        size_t before = (size_t)(changed * attention_width(&size)) * ls_dtype_bytes(ways[w].dtype);
        assert_memory_equal(d[0].y, d[1].y, before);
        for (int64_t i = changed * attention_width(&size); i < attention_elements(&size); i++) {
            assert_true(isnan(attention_compare((char *)d[2].y + (size_t)i * ls_dtype_bytes(ways[w].dtype),
                                                ways[w].dtype, &r[2].y[i], 1).max));
        }
        for (int i = 0; i < 3; i++) {
            attention_data_free(&d[i]);
            attention_reference_free(&r[i]);
        }
        attention_device_close(&device);
    }
}

/* A naive exponential overflows; a running maximum does not. */
static void test_large_scores(void **state)
{
    const attention_shape size = {1, 150, 1, 4};

    (void)state;
    for (int w = 0; w < N_WAYS; w++) {
        attention_device device = attention_device_open("cuda", ways[w].variant);
        attention_reference r;
        attention_data d = attention_data_make(size, 0.0f, ways[w].dtype, false, &r);
        double *zeros = op_case_zeros(attention_elements(&size));

        for (int64_t i = 0; i < 3 * attention_elements(&size); i++) {
            r.qkv[i] *= 32.0;
        }
        free(d.qkv);
        d.qkv = attention_round(r.qkv, 3 * attention_elements(&size), ways[w].dtype);
        CHECK_OK(attention_run(&device, &d, 0));
        assert_true(attention_compare(d.y, ways[w].dtype, zeros, attention_elements(&size)).max <= 48.001);
        free(zeros);
        attention_data_free(&d);
        attention_reference_free(&r);
        attention_device_close(&device);
    }
}

static void check_refused(const char *variant, attention_shape size, float dropout, ls_dtype dtype, ls_status expected,
                          const char *part)
{
    attention_device device = attention_device_open("cuda", variant);
    attention_reference r;
    attention_data d = attention_data_make(size, 0.0f, dtype, false, &r);

    d.dropout = dropout;
    CHECK_FAILS(attention_run(&device, &d, 0), expected, part);
    attention_data_free(&d);
    attention_reference_free(&r);
    attention_device_close(&device);
}

static void test_refusals(void **state)
{
    const attention_shape size = {1, 3, 1, 4};

    (void)state;
    check_refused("sm075", size, 0.0f, LS_BF16, LS_ERR_DEVICE, "bf16 needs a GPU of compute capability 8.0 or newer");
    check_refused("sm080", (attention_shape){1, 2, 1, 257}, 0.0f, LS_F32, LS_ERR_INTERNAL, "head size 257");
    check_refused("sm080", size, 1.0f, LS_F16, LS_ERR_INTERNAL, "dropout probability 1");
    assert_null(lsi_cuda_attention_path(75, LS_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_no_token_sees_a_later_one),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
