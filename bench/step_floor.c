#include "step_floor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/half.h"
#include "base/memory.h"
#include "kernels/gemm_bf16.h"
#include "kernels/gemm_path.h"

void omp_set_num_threads(int n);

/* Longer than the library's threads spin behind a call, in the way of our own. */
enum { SPIN_NS = 5000000 };

/* Of one row of the clock that is a product. */
typedef struct product {
    int row;
    double library[STEP_CLOCK_STEPS], ours[STEP_CLOCK_STEPS];
} product;

struct step_floor {
    ls_device *device;
    ls_stream *stream;
    int n_threads;
    bool cpu_time;
    void *scratch[3];           /* a, b, c */
    size_t scratch_bytes[3];
    int n_products, n_measured;
    product product[STEP_CLOCK_ROWS];
};

#define FROM(args) \
    (lsi_gemm_args){.a = (args)->a, .b = (args)->b, .m = (args)->m, .n = (args)->n, .k = (args)->k, \
                    .trans_a = (args)->trans_a, .trans_b = (args)->trans_b}
bool step_floor_as_product(const step_clock_row *row, lsi_gemm_args *out)
{
    if (row->op == &lsi_op_gemm) {
        *out = *(const lsi_gemm_args *)(const void *)row->arguments;
    } else if (row->op == &lsi_op_gemm_gelu) {
        const lsi_gemm_gelu_args *a = (const void *)row->arguments;

        *out = FROM(a);
        out->bias = a->bias;
        out->c = a->x;
    } else if (row->op == &lsi_op_gemm_gelu_bwd) {
        const lsi_gemm_gelu_bwd_args *a = (const void *)row->arguments;

        *out = FROM(a);
        out->c = a->dx;
    } else {
        return false;
    }
    return true;
}
#undef FROM

static size_t view_bytes(const ls_view *view)
{
    return (size_t)view->count * ls_dtype_bytes(view->dtype);
}

/* Small numbers of many different bits, read as bf16, as f16 and as f32: subnormal ones and infinities could have a
 * speed of their own. */
static void fill_scratch(void *memory, size_t bytes, ls_dtype dtype)
{
    int64_t n = (int64_t)(bytes / ls_dtype_bytes(dtype));
    ls_view view = ls_view_make(memory, n, dtype);
    float values[256];

    for (int i = 0; i < 256; i++) {
        values[i] = 0.02f * (float)((i * 37) % 101 - 50) + 0.001f * (float)i;
    }
    for (int64_t at = 0; at < n; at += 256) {
        ls_view_store(&view, at, n - at < 256 ? n - at : 256, values);
    }
}

ls_status step_floor_open(ls_device *device, int n_threads, bool cpu_time, step_floor **out)
{
    int n_rows;
    const step_clock_row *row = step_clock_rows(&n_rows);
    step_floor *f;

    LS_TRY(lsi_memory_alloc(sizeof *f, "floor", (void **)&f));
    *f = (step_floor){.device = device, .n_threads = n_threads, .cpu_time = cpu_time};
    *out = f;
    for (int i = 0; i < n_rows; i++) {
        lsi_gemm_args a;

        if (!step_floor_as_product(&row[i], &a)) {
            continue;
        }
        const ls_view *views[3] = {&a.a, &a.b, &a.c};

        f->product[f->n_products++].row = i;
        for (int v = 0; v < 3; v++) {
            /* The library may be called with f32 whatever the views hold. */
            size_t bytes = (size_t)views[v]->count * sizeof(float);
            f->scratch_bytes[v] = bytes > f->scratch_bytes[v] ? bytes : f->scratch_bytes[v];
        }
    }
    LS_TRY(device->backend->stream_create(device, "floor", 0, &f->stream));
    for (int v = 0; v < 3; v++) {
        LS_TRY(device->backend->alloc(device, LS_MEM_DEVICE, f->scratch_bytes[v], &f->scratch[v]));
        fill_scratch(f->scratch[v], f->scratch_bytes[v], LS_BF16);
    }
    return LS_OK;
}

void step_floor_close(step_floor **floor)
{
    step_floor *f = *floor;

    if (f == NULL) {
        return;
    }
    for (int v = 0; v < 3; v++) {
        if (f->scratch[v] != NULL) {
            f->device->backend->release(f->device, LS_MEM_DEVICE, f->scratch_bytes[v], f->scratch[v]);
        }
    }
    if (f->stream != NULL) {
        f->device->backend->stream_destroy(f->stream);
    }
    lsi_memory_free(f);
    *floor = NULL;
}

/* One call for the whole product. f16, which the library has no product for, and bf16 where it is the slower one: f32
 * of the same shape. The types of scratch memory do not matter to the time. */
static int call_library(const step_floor *f, const lsi_gemm_args *a)
{
    int64_t a_step = a->trans_a ? a->m : a->k, b_step = a->trans_b ? a->k : a->n;
    char trans_a = a->trans_a ? 'T' : 'N', trans_b = a->trans_b ? 'T' : 'N';
    float beta = a->accumulate ? 1.0f : 0.0f;

    if (a->a.dtype == LS_BF16 && lsi_gemm_bf16_is_native()) {
        return lsi_gemm_bf16_multiply(&(lsi_gemm_bf16_product){.transpose_a = trans_a,
                                                               .transpose_b = trans_b,
                                                               .m = a->m,
                                                               .n = a->n,
                                                               .k = a->k,
                                                               .a = f->scratch[0],
                                                               .a_step = a_step,
                                                               .b = f->scratch[1],
                                                               .b_step = b_step,
                                                               .beta = beta,
                                                               .c = f->scratch[2],
                                                               .c_step = a->n});
    }
    return (int)dnnl_sgemm(trans_a, trans_b, a->m, a->n, a->k, 1.0f, f->scratch[0], a_step, f->scratch[1], b_step, beta,
                           f->scratch[2], a->n);
}

static ls_status measure_one(step_floor *f, product *p)
{
    int n_rows;
    lsi_gemm_args a;
    int at = f->n_measured % STEP_CLOCK_STEPS;
    /* By cpu time on one thread: the library's threads spin while they wait. */
    int threads = f->cpu_time ? 1 : f->n_threads;

    step_floor_as_product(&step_clock_rows(&n_rows)[p->row], &a);
    omp_set_num_threads(threads);
    double start = step_clock_seconds();
    int status = call_library(f, &a);
    p->library[at] = step_clock_seconds() - start;
    LS_REQUIRE(status == 0, LS_ERR_DEVICE, "the library refused a product of %lld x %lld x %lld", (long long)a.m,
               (long long)a.n, (long long)a.k);
    nanosleep(&(struct timespec){.tv_nsec = SPIN_NS}, NULL);
    a.a.data = f->scratch[0];
    a.b.data = f->scratch[1];
    a.c.data = f->scratch[2];
    a.bias.count = 0;
    LS_TRY(ls_op_launch(f->stream, &lsi_op_gemm, &a));
    LS_TRY(f->device->backend->stream_sync(f->stream));
    p->ours[at] = step_clock_last();
    return LS_OK;
}

ls_status step_floor_measure(step_floor *f)
{
    for (int i = 0; i < f->n_products; i++) {
        LS_TRY(measure_one(f, &f->product[i]));
    }
    f->n_measured++;
    return LS_OK;
}

bool step_floor_product(const step_floor *f, int row, double *library, double *ours)
{
    int n = f->n_measured < STEP_CLOCK_STEPS ? f->n_measured : STEP_CLOCK_STEPS;

    for (int i = 0; i < f->n_products; i++) {
        if (f->product[i].row == row) {
            *library = step_clock_median(f->product[i].library, n);
            *ours = step_clock_median(f->product[i].ours, n);
            return true;
        }
    }
    return false;
}

/* ---- ops that are no products ------------------------------------------------------------------------------------ */

#define VIEW(x) (double)view_bytes(&a->x)
#define OP(op, expression)                              \
    static double op##_bytes(const void *arguments)     \
    {                                                   \
        const lsi_##op##_args *a = arguments;           \
        (void)a;                                        \
        return (double)(expression);                    \
    }
#include "step_floor.def"
#undef OP

static double bytes_of(const step_clock_row *row)
{
    const ls_view *views = (const void *)row->arguments;
    double bytes = 0.0;

#define OP(name, expression)                            \
    if (row->op == &lsi_op_##name) {                    \
        return name##_bytes(row->arguments);            \
    }
#include "step_floor.def"
#undef OP
    for (int i = 0; i < step_clock_n_views(row->op); i++) {
        bytes += (double)view_bytes(&views[i]) * (i >= row->op->n_in + row->op->n_out ? 2 : 1);
    }
    return bytes;
}

/* 0: the row is no product. */
static double product_seconds(const step_floor *f, int row)
{
    double library, ours;

    return !step_floor_product(f, row, &library, &ours) ? 0.0 : library < ours ? library : ours;
}

/* FLOPs per second of the step's products, at their floors. */
static double product_rate(const step_floor *f)
{
    double flops = 0.0, seconds = 0.0;
    int n_rows;
    const step_clock_row *rows = step_clock_rows(&n_rows);

    for (int i = 0; i < f->n_products; i++) {
        const step_clock_row *row = &rows[f->product[i].row];

        flops += row->n * row->op->flops(row->arguments);
        seconds += row->n * product_seconds(f, f->product[i].row);
    }
    return seconds > 0.0 ? flops / seconds : 0.0;
}

double step_floor_seconds(const step_floor *f, int row, double copy)
{
    int n_rows;
    const step_clock_row *r = &step_clock_rows(&n_rows)[row];
    double rate;

    if (r->op == &lsi_op_gemm) {
        return product_seconds(f, row);
    }
    if (r->op == &lsi_op_attention_fwd || r->op == &lsi_op_attention_bwd) {
        rate = 0.5 * product_rate(f);
        return rate > 0.0 ? r->op->flops(r->arguments) / rate : 0.0;
    }
    return product_seconds(f, row) + bytes_of(r) / copy;
}
