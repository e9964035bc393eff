#include "cusim/kernels/attention_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/random.h"

enum { GUARD_BYTES = 64, GUARD_PATTERN = 0xA5 };

/* ---- data ---------------------------------------------------------------------------------------------------- */

void *attention_round(const double *values, int64_t n, ls_dtype dtype)
{
    void *out = op_case_allocate((size_t)n * ls_dtype_bytes(dtype));

    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_F32) {
            ((float *)out)[i] = (float)values[i];
        } else {
            ((uint16_t *)out)[i] = op_case_to_half(dtype, (float)values[i]);
        }
    }
    return out;
}

static double value_of(const void *data, ls_dtype dtype, int64_t i)
{
    return dtype == LS_F32 ? (double)((const float *)data)[i]
                           : (double)op_case_from_half(dtype, ((const uint16_t *)data)[i]);
}

/* Uniform in [-scale, scale), such as the type has. */
static void *fill_random(double *values, int64_t n, double scale, uint64_t key, ls_dtype dtype)
{
    for (int64_t i = 0; i < n; i++) {
        lsi_random4 r = lsi_random_philox(key, (uint32_t)(i / 4), 0, 0, 0);

        values[i] = ((double)lsi_random_unit(r.v[i % 4]) * 2.0 - 1.0) * scale;
    }
    void *rounded = attention_round(values, n, dtype);
    for (int64_t i = 0; i < n; i++) {
        values[i] = value_of(rounded, dtype, i);
    }
    return rounded;
}

attention_data attention_data_make(attention_shape size, float dropout, ls_dtype dtype, bool backward,
                                   attention_reference *reference)
{
    int64_t n = attention_elements(&size), n_lse = attention_tokens(&size) * size.heads;
    attention_data d = {.size = size, .dropout = dropout, .dtype = dtype, .backward = backward};
    attention_reference r = attention_reference_make(size, (double)dropout);

    d.qkv = fill_random(r.qkv, 3 * n, 1.5, 1, dtype);
    d.dy = fill_random(r.dy, n, 1.0, 2, dtype);
    attention_reference_forward(&r);
    attention_reference_backward(&r);
    d.y = attention_round(r.y, n, dtype);
    d.lse = attention_round(r.lse, n_lse, LS_F32);
    d.dqkv = op_case_allocate((size_t)(3 * n) * ls_dtype_bytes(dtype));
    *reference = r;
    return d;
}

void attention_data_free(attention_data *d)
{
    free(d->qkv);
    free(d->y);
    free(d->dy);
    free(d->dqkv);
    free(d->lse);
    *d = (attention_data){0};
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

attention_device attention_device_open(const char *backend, const char *variant)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1, .isa = variant};
    attention_device d;

    CHECK_OK(lsi_backend_find(backend, &d.backend));
    CHECK_OK(d.backend->open(&options, &d.device));
    CHECK_OK(d.backend->stream_create(d.device, "test", 0, &d.stream));
    return d;
}

void attention_device_close(attention_device *d)
{
    d->backend->stream_destroy(d->stream);
    d->backend->close(d->device);
}

/* A view's memory on the device between guard bands. */
typedef struct guarded {
    unsigned char *memory, *device;
    size_t bytes, shift, total;
} guarded;

static guarded upload(const attention_device *d, const void *data, size_t bytes, size_t shift, bool output)
{
    guarded g = {.bytes = bytes, .shift = 256 + shift, .total = 256 + shift + bytes + GUARD_BYTES};
    void *memory;

    g.memory = op_case_allocate(g.total);
    memset(g.memory, GUARD_PATTERN, g.total);
    if (output) {
        memset(g.memory + g.shift, 0xFF, bytes);
    } else {
        memcpy(g.memory + g.shift, data, bytes);
    }
    CHECK_OK(d->backend->alloc(d->device, LS_MEM_DEVICE, g.total, &memory));
    g.device = memory;
    CHECK_OK(d->backend->copy(d->stream, g.device, g.memory, g.total));
    CHECK_OK(d->backend->stream_sync(d->stream));
    return g;
}

static void download(const attention_device *d, guarded *g, void *data, bool output, ls_status status)
{
    if (status == LS_OK) {
        unsigned char *before = op_case_allocate(g->total);

        memcpy(before, g->memory, g->total);
        CHECK_OK(d->backend->copy(d->stream, g->memory, g->device, g->total));
        CHECK_OK(d->backend->stream_sync(d->stream));
        if (output) {
            memcpy(data, g->memory + g->shift, g->bytes);
            memcpy(before + g->shift, data, g->bytes);
        }
        assert_memory_equal(before, g->memory, g->total);
        free(before);
    }
    d->backend->release(d->device, LS_MEM_DEVICE, g->total, g->device);
    free(g->memory);
}

static ls_view view_of(const guarded *g, ls_dtype dtype)
{
    int64_t count = (int64_t)(g->bytes / ls_dtype_bytes(dtype));

    return (ls_view){.data = g->device + g->shift, .count = count, .dtype = dtype};
}

static ls_status launch(const attention_device *d, const attention_data *a, ls_step_state *state, const guarded *qkv,
                        const guarded *y, const guarded *lse, const guarded *dy, const guarded *dqkv)
{
    const attention_shape *s = &a->size;
    ls_status status;

    if (a->backward) {
        status = lsi_attention_bwd(
            d->stream, &(lsi_attention_bwd_args){.qkv = view_of(qkv, a->dtype), .y = view_of(y, a->dtype),
                                                 .lse = view_of(lse, LS_F32), .dy = view_of(dy, a->dtype),
                                                 .dqkv = view_of(dqkv, a->dtype), .state = state,
                                                 .samples = s->samples, .context = s->context, .heads = s->heads,
                                                 .head_size = s->head_size, .first_sample = ATTENTION_FIRST_SAMPLE,
                                                 .key = ATTENTION_KEY, .dropout = a->dropout});
    } else {
        status = lsi_attention_fwd(
            d->stream, &(lsi_attention_fwd_args){.qkv = view_of(qkv, a->dtype), .y = view_of(y, a->dtype),
                                                 .lse = view_of(lse, LS_F32), .state = state, .samples = s->samples,
                                                 .context = s->context, .heads = s->heads, .head_size = s->head_size,
                                                 .first_sample = ATTENTION_FIRST_SAMPLE, .key = ATTENTION_KEY,
                                                 .dropout = a->dropout});
    }
    return status == LS_OK ? d->backend->stream_sync(d->stream) : status;
}

ls_status attention_run(const attention_device *d, attention_data *a, size_t shift)
{
    size_t n = (size_t)attention_elements(&a->size) * ls_dtype_bytes(a->dtype);
    size_t n_lse = (size_t)(attention_tokens(&a->size) * a->size.heads) * sizeof(float);
    ls_step_state state = {.attempted = ATTENTION_STEP};
    guarded qkv = upload(d, a->qkv, 3 * n, shift, false), y = upload(d, a->y, n, shift, !a->backward);
    guarded lse = upload(d, a->lse, n_lse, 0, !a->backward), dy = upload(d, a->dy, n, shift, false);
    guarded dqkv = upload(d, a->dqkv, 3 * n, shift, true), states = upload(d, &state, sizeof state, 0, false);
    ls_step_state *on_device = (ls_step_state *)(void *)(states.device + states.shift);
    ls_status status = launch(d, a, on_device, &qkv, &y, &lse, &dy, &dqkv);

    download(d, &qkv, NULL, false, status);
    download(d, &y, a->y, !a->backward, status);
    download(d, &lse, a->lse, !a->backward, status);
    download(d, &dy, NULL, false, status);
    download(d, &dqkv, a->dqkv, a->backward, status);
    download(d, &states, NULL, false, status);
    return status;
}

/* ---- comparisons --------------------------------------------------------------------------------------------- */

attention_error attention_compare(const void *got, ls_dtype dtype, const double *expected, int64_t n)
{
    double difference = 0.0, square = 0.0, largest = 0.0, worst = 0.0;

    for (int64_t i = 0; i < n; i++) {
        double error = fabs(value_of(got, dtype, i) - expected[i]);

        difference += error * error;
        square += expected[i] * expected[i];
        largest = fmax(largest, fabs(expected[i]));
        worst = error > worst || isnan(error) ? error : worst;
    }
    return square == 0.0 ? (attention_error){difference, worst}
                         : (attention_error){sqrt(difference / square), worst / largest};
}

/* In 16 bits three numbers are rounded: probabilities or their gradients, inputs that the reference had exact (y), the
 * result. */
attention_error attention_tolerance(ls_dtype dtype)
{
    double u = op_case_rounding(dtype);

    return dtype == LS_F32 ? (attention_error){2e-6, 5e-6} : (attention_error){1.5 * u, 3.0 * u};
}

static bool is_close(const void *got, ls_dtype dtype, const double *expected, int64_t n, attention_error tolerance,
                     const char *array, const attention_data *d, const char *what)
{
    attention_error e = attention_compare(got, dtype, expected, n);

    if (e.norm <= tolerance.norm && e.max <= tolerance.max) {
        return true;
    }
    print_error("%s, %s, %lld x %lld x %lld x %lld, dropout %g: %s is off by %.3g (%.3g), at most %.3g (%.3g)\n", what,
                ls_dtype_name(d->dtype), (long long)d->size.samples, (long long)d->size.context,
                (long long)d->size.heads, (long long)d->size.head_size, (double)d->dropout, array, e.norm, e.max,
                tolerance.norm, tolerance.max);
    return false;
}

bool attention_is_right(const attention_data *d, const attention_reference *r, const char *what)
{
    attention_error tolerance = attention_tolerance(d->dtype);
    int64_t n = attention_elements(&d->size), n_lse = attention_tokens(&d->size) * d->size.heads;

    if (d->backward) {
        return is_close(d->dqkv, d->dtype, r->dqkv, 3 * n, tolerance, "dqkv", d, what);
    }
    return is_close(d->y, d->dtype, r->y, n, tolerance, "y", d, what) &&
           is_close(d->lse, LS_F32, r->lse, n_lse, attention_tolerance(LS_F32), "lse", d, what);
}
