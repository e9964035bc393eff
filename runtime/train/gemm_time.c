#include "train/gemm_time.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { N_RUNS = 5, MAX_LAUNCHES = 8, PATTERN_ELEMENTS = 1 << 16 };
/* Long enough that a stamp, which is a kernel of its own, does not count. */
static const double run_seconds = 200e-6;

struct lsi_gemm_timer {
    ls_device *device;
    ls_stream *stream;
    void *memory[LSI_GEMM_MAX_VIEWS];
    size_t bytes[LSI_GEMM_MAX_VIEWS];
};

/* The views of a launch, in the order of the argument struct. */
typedef struct launch {
    _Alignas(16) unsigned char arguments[LS_OP_MAX_ARGUMENTS];
    const ls_op *op;
    ls_view *view;
    int n_views;
} launch;

static void make_launch(const lsi_gemm_shape *shape, launch *out)
{
    memset(out->arguments, 0, sizeof out->arguments);
    out->op = lsi_gemm_shape_op(shape, out->arguments);
    out->view = (ls_view *)(void *)out->arguments;
    out->n_views = out->op->n_in + out->op->n_out + out->op->n_acc;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void find_sizes(lsi_gemm_timer *t, const lsi_gemm_item *item, int n)
{
    launch l;

    for (int i = 0; i < n; i++) {
        make_launch(&item[i].shape, &l);
        for (int v = 0; v < l.n_views; v++) {
            size_t bytes = (size_t)l.view[v].count * ls_dtype_bytes(l.view[v].dtype);

            t->bytes[v] = bytes > t->bytes[v] ? bytes : t->bytes[v];
        }
    }
}

/* Numbers as they come in training: what a GPU's clock does depends on how many bits change. */
static ls_status fill(lsi_gemm_timer *t, ls_dtype dtype)
{
    const ls_backend *b = t->device->backend;
    size_t pattern_bytes = PATTERN_ELEMENTS * ls_dtype_bytes(dtype);
    void *pattern = NULL;
    ls_status status;

    LS_TRY(b->alloc(t->device, LS_MEM_PINNED, pattern_bytes, &pattern));
    ls_view view = ls_view_make(pattern, PATTERN_ELEMENTS, dtype);
    for (int64_t i = 0; i < PATTERN_ELEMENTS; i++) {
        float value = lsi_random_unit(lsi_random_philox(1, (uint32_t)i, 0, 0, 0).v[0]) - 0.5f;

        ls_view_store(&view, i, 1, &value);
    }
    for (int v = 0; v < LSI_GEMM_MAX_VIEWS; v++) {
        for (size_t at = 0; at < t->bytes[v]; at += pattern_bytes) {
            size_t left = t->bytes[v] - at;

            LS_TRY_GOTO(
                status, done,
                b->copy(t->stream, (char *)t->memory[v] + at, pattern, left < pattern_bytes ? left : pattern_bytes));
        }
    }
    status = b->stream_sync(t->stream);
done:
    b->release(t->device, LS_MEM_PINNED, pattern_bytes, pattern);
    return status;
}

static ls_status open_timer(lsi_gemm_timer *t, const lsi_gemm_item *item, int n)
{
    const ls_backend *b = t->device->backend;

    LS_TRY(b->stream_create(t->device, "products", 0, &t->stream));
    find_sizes(t, item, n);
    for (int v = 0; v < LSI_GEMM_MAX_VIEWS; v++) {
        if (t->bytes[v] > 0) {
            LS_TRY(b->alloc(t->device, LS_MEM_DEVICE, t->bytes[v], &t->memory[v]));
        }
    }
    return n > 0 ? fill(t, (ls_dtype)item[0].shape.factors) : LS_OK;
}

ls_status lsi_gemm_timer_open(ls_device *device, const lsi_gemm_item *item, int n, lsi_gemm_timer **out)
{
    lsi_gemm_timer *t;

    LS_TRY(lsi_memory_alloc(sizeof *t, "timer of matrix products", (void **)&t));
    t->device = device;
    ls_status status = open_timer(t, item, n);
    if (status != LS_OK) {
        lsi_gemm_timer_close(&t);
        return status;
    }
    *out = t;
    return LS_OK;
}

void lsi_gemm_timer_close(lsi_gemm_timer **timer)
{
    lsi_gemm_timer *t = *timer;

    if (t == NULL) {
        return;
    }
    for (int v = 0; v < LSI_GEMM_MAX_VIEWS; v++) {
        if (t->memory[v] != NULL) {
            t->device->backend->release(t->device, LS_MEM_DEVICE, t->bytes[v], t->memory[v]);
        }
    }
    if (t->stream != NULL) {
        t->device->backend->stream_destroy(t->stream);
    }
    lsi_memory_free(t);
    *timer = NULL;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

/* Seconds between two stamps around the launches. */
static ls_status time_run(lsi_gemm_timer *t, const launch *l, int n_launches, double *out)
{
    const ls_backend *b = t->device->backend;
    const ls_stamp *ring = b->stamps(t->device);
    uint64_t before = b->stamp_count(t->device);

    LS_TRY(b->stamp(t->stream, 0));
    for (int i = 0; i < n_launches; i++) {
        LS_TRY(ls_op_launch(t->stream, l->op, l->arguments));
    }
    LS_TRY(b->stamp(t->stream, 0));
    LS_TRY(b->stream_sync(t->stream));
    const ls_stamp *first = &ring[(before + 1) % LS_STAMP_RING], *second = &ring[(before + 2) % LS_STAMP_RING];
    LS_REQUIRE(first->sequence == before + 1 && second->sequence == before + 2, LS_ERR_INTERNAL,
               "time stamps %llu and %llu are not there", (unsigned long long)before + 1,
               (unsigned long long)before + 2);
    *out = (double)(second->nanoseconds - first->nanoseconds) * 1e-9;
    return LS_OK;
}

static void sort(double *values, int n)
{
    for (int i = 1; i < n; i++) {
        double value = values[i];
        int at = i;

        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

ls_status lsi_gemm_timer_measure(lsi_gemm_timer *timer, const lsi_gemm_shape *shape, double *out)
{
    double seconds[N_RUNS];
    int n_launches = 1;
    launch l;

    make_launch(shape, &l);
    for (int v = 0; v < l.n_views; v++) {
        l.view[v].data = l.view[v].count > 0 ? timer->memory[v] : NULL;
    }
    LS_TRY(time_run(timer, &l, 1, &seconds[0])); /* warms up */
    LS_TRY(time_run(timer, &l, 1, &seconds[0]));
    while (n_launches < MAX_LAUNCHES && seconds[0] * n_launches < run_seconds) {
        n_launches *= 2;
    }
    for (int i = 0; i < N_RUNS; i++) {
        LS_TRY(time_run(timer, &l, n_launches, &seconds[i]));
    }
    sort(seconds, N_RUNS);
    *out = seconds[N_RUNS / 2] / n_launches;
    return LS_OK;
}
