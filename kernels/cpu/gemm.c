/* Matrix product: output tiles of fixed size, each one call of oneDNN's SGEMM on one thread. As fast as the library's
 * own threading, and the bits do not depend on the number of threads.
 *
 * 16-bit factors: bf16 goes to the library as it is where that is faster (kernels/gemm_path.h). Else panels of the
 * factors, DEPTH of k at a time, are widened to f32, and the tile's sum goes on from panel to panel. A 16-bit c is
 * summed up in an f32 tile and rounded once. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"
#include "kernels/gemm_bf16.h"
#include "kernels/gemm_path.h"

#include <string.h>

#include <oneapi/dnnl/dnnl.h>

typedef struct gemm_job {
    lsi_gemm_args a;
    int64_t tile_m, tile_n, tiles_n;
    bool native;                        /* 16-bit factors as they are */
    _Atomic int failed;                 /* status of a tile that failed, 0: none */
} gemm_job;

/* Part of the product, and where its sum goes: rows of c are c_step apart. */
typedef struct gemm_part {
    int64_t row, column, m, n;
    float *c;
    int64_t c_step;
} gemm_part;

/* Every tile packs its own operands again, so tiles are large: those of AREA elements run at 94 to 100 % of a whole
 * call's speed, 256 x 384 at 86 to 96 % (Zen 5, GPT-2's shapes). Below MIN_TILES threads would be idle, so tiles get
 * smaller, but not to less than MIN_FLOPS: some 20 us. */
enum { MAX_ROWS = 1024, MAX_COLUMNS = 768, AREA = 1024 * 384, MIN_TILES = 8, MIN_FLOPS = 4000000, UNIT = 16 };
/* Panels of both factors lie on the stack of the thread beside the tile, in functions of their own so that products
 * that need none have small frames. */
enum { DEPTH = 256 };
#define OWN_FRAME __attribute__((noinline))

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Extent of the tiles when n is cut into so many parts of whole units; what is left over goes to the last one. */
static int64_t part_size(int64_t n, int64_t parts)
{
    return lsi_blocks(lsi_blocks(n, parts), UNIT) * UNIT;
}

/* Columns of a tile with so many rows, in a product cut into so many rows of tiles. */
static int64_t columns_for(const lsi_gemm_args *a, int64_t tile_m, int64_t parts_m, int64_t min_tiles)
{
    int64_t parts_n = largest(lsi_blocks(a->n, MAX_COLUMNS), lsi_blocks(min_tiles, parts_m));

    parts_n = largest(parts_n, lsi_blocks(tile_m * lsi_blocks(a->n, UNIT) * UNIT, AREA));
    int64_t tile_n = part_size(a->n, lsi_min(parts_n, lsi_blocks(a->n, UNIT)));
    return tile_m * tile_n > AREA ? tile_n - UNIT : tile_n;     /* rounding up to units went too far */
}

/* A function of the shape alone: it decides the bits. Of all numbers of rows of tiles the one with the least packing:
 * a's rows once for every column of tiles, b's columns once for every row of tiles, which costs the library twice as
 * much. */
static void choose_tile(gemm_job *job)
{
    const lsi_gemm_args *a = &job->a;
    double flops = 2.0 * (double)a->m * (double)a->n * (double)a->k;
    int64_t min_tiles = flops < (double)MIN_TILES * MIN_FLOPS ? (int64_t)(flops / MIN_FLOPS) + 1 : MIN_TILES;
    int64_t least = INT64_MAX;

    for (int64_t parts_m = lsi_blocks(a->m, MAX_ROWS); parts_m <= lsi_blocks(a->m, UNIT); parts_m++) {
        int64_t tile_m = part_size(a->m, parts_m), tile_n = columns_for(a, tile_m, parts_m, min_tiles);
        int64_t rows = lsi_blocks(a->m, tile_m), columns = lsi_blocks(a->n, tile_n);
        int64_t packing = columns * a->m + 2 * rows * a->n;

        if (2 * parts_m * a->n >= least) {
            break;              /* more rows of tiles can only cost more */
        }
        if (packing < least && (rows * columns >= min_tiles || parts_m == lsi_blocks(a->m, UNIT))) {
            least = packing;
            job->tile_m = tile_m;
            job->tile_n = tile_n;
        }
    }
}

static char transpose_letter(int transpose)
{
    return transpose ? 'T' : 'N';
}

/* First element of the part's rows of a and columns of b, from k on. */
static int64_t a_begin(const lsi_gemm_args *a, const gemm_part *p, int64_t k)
{
    return a->trans_a ? k * a->m + p->row : p->row * a->k + k;
}
static int64_t b_begin(const lsi_gemm_args *a, const gemm_part *p, int64_t k)
{
    return a->trans_b ? p->column * a->k + k : k * a->n + p->column;
}

static int multiply_f32(const lsi_gemm_args *a, const gemm_part *p)
{
    return (int)dnnl_sgemm(transpose_letter(a->trans_a), transpose_letter(a->trans_b), p->m, p->n, a->k, 1.0f,
                           (const float *)a->a.data + a_begin(a, p, 0), a->trans_a ? a->m : a->k,
                           (const float *)a->b.data + b_begin(a, p, 0), a->trans_b ? a->k : a->n,
                           a->accumulate ? 1.0f : 0.0f, p->c, p->c_step);
}

static int multiply_native(const lsi_gemm_args *a, const gemm_part *p)
{
    return lsi_gemm_bf16_multiply(&(lsi_gemm_bf16_product){
        .transpose_a = transpose_letter(a->trans_a),
        .transpose_b = transpose_letter(a->trans_b),
        .m = p->m,
        .n = p->n,
        .k = a->k,
        .a = (const uint16_t *)a->a.data + a_begin(a, p, 0),
        .a_step = a->trans_a ? a->m : a->k,
        .b = (const uint16_t *)a->b.data + b_begin(a, p, 0),
        .b_step = a->trans_b ? a->k : a->n,
        .beta = a->accumulate ? 1.0f : 0.0f,
        .c = p->c,
        .c_step = p->c_step,
    });
}

/* `rows` rows of `n` elements, `step` apart in the view, close together in the panel. */
static void widen_panel(const ls_view *view, int64_t begin, int64_t step, int64_t rows, int64_t n, float *panel)
{
    for (int64_t i = 0; i < rows; i++) {
        LSI_CPU_NAME(convert_widen)(view->dtype, (const uint16_t *)view->data + begin + i * step, n, panel + i * n);
    }
}

OWN_FRAME static int multiply_widened(const lsi_gemm_args *a, const gemm_part *p)
{
    _Alignas(64) float left[MAX_ROWS * DEPTH], right[MAX_COLUMNS * DEPTH];

    for (int64_t k = 0; k < a->k; k += DEPTH) {
        int64_t depth = lsi_min(DEPTH, a->k - k);
        int64_t left_n = a->trans_a ? p->m : depth, right_n = a->trans_b ? depth : p->n;

        widen_panel(&a->a, a_begin(a, p, k), a->trans_a ? a->m : a->k, a->trans_a ? depth : p->m, left_n, left);
        widen_panel(&a->b, b_begin(a, p, k), a->trans_b ? a->k : a->n, a->trans_b ? p->n : depth, right_n, right);
        dnnl_status_t status =
            dnnl_sgemm(transpose_letter(a->trans_a), transpose_letter(a->trans_b), p->m, p->n, depth, 1.0f, left,
                       left_n, right, right_n, k > 0 || a->accumulate ? 1.0f : 0.0f, p->c, p->c_step);
        if (status != dnnl_success) {
            return (int)status;
        }
    }
    return 0;
}

/* What is left of a product with k = 0. */
static void clear_part(const gemm_part *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        memset(p->c + i * p->c_step, 0, (size_t)p->n * sizeof *p->c);
    }
}

static void add_bias(const lsi_gemm_args *a, const gemm_part *p)
{
    float tile[MAX_COLUMNS];
    const float *restrict bias = lsi_convert_load(&a->bias, p->column, p->n, tile);

    for (int64_t i = 0; i < p->m; i++) {
        float *restrict c = p->c + i * p->c_step;

        for (int64_t j = 0; j < p->n; j++) {
            c[j] += bias[j];
        }
    }
}

static void multiply(gemm_job *job, const gemm_part *p)
{
    const lsi_gemm_args *a = &job->a;
    int status = 0;

    if (a->k == 0) {
        if (!a->accumulate) {
            clear_part(p);
        }
    } else if (a->a.dtype == LS_F32) {
        status = multiply_f32(a, p);
    } else if (job->native) {
        status = multiply_native(a, p);
    } else {
        status = multiply_widened(a, p);
    }
    if (status != 0) {
        job->failed = status;
    }
    if (a->bias.count > 0) {
        add_bias(a, p);
    }
}

OWN_FRAME static void multiply_and_round(gemm_job *job, gemm_part p)
{
    const lsi_gemm_args *a = &job->a;
    _Alignas(64) float sums[AREA];
    uint16_t *c = (uint16_t *)a->c.data + p.row * a->n + p.column;

    p.c = sums;
    p.c_step = p.n;
    for (int64_t i = 0; i < p.m && a->accumulate; i++) {
        LSI_CPU_NAME(convert_widen)(a->c.dtype, c + i * a->n, p.n, sums + i * p.n);
    }
    multiply(job, &p);
    for (int64_t i = 0; i < p.m; i++) {
        LSI_CPU_NAME(convert_narrow)(a->c.dtype, sums + i * p.n, p.n, c + i * a->n);
    }
}

static void gemm_tile(void *argument, int64_t block)
{
    gemm_job *job = argument;
    const lsi_gemm_args *a = &job->a;
    gemm_part p = {.row = block / job->tiles_n * job->tile_m, .column = block % job->tiles_n * job->tile_n};

    p.m = lsi_min(job->tile_m, a->m - p.row);
    p.n = lsi_min(job->tile_n, a->n - p.column);
    if (a->c.dtype != LS_F32) {
        multiply_and_round(job, p);
        return;
    }
    p.c = (float *)a->c.data + p.row * a->n + p.column;
    p.c_step = a->n;
    multiply(job, &p);
}

ls_status LSI_CPU_KERNEL(gemm)(const ls_cpu_run *run, const void *arguments)
{
    gemm_job job = {.a = *(const lsi_gemm_args *)arguments};
    const lsi_gemm_args *a = &job.a;

    LS_TRY(LSI_CONVERT_CHECK("gemm", &a->a, &a->b, &a->bias));
    if (a->c.dtype != LS_F32) {
        LS_TRY(LSI_CONVERT_CHECK("gemm", &a->a, &a->b, &a->bias, &a->c));
    }
    if (a->m == 0 || a->n == 0) {
        return LS_OK;
    }
    job.native = a->a.dtype == LS_BF16 && lsi_gemm_bf16_is_native();
    choose_tile(&job);
    job.tiles_n = lsi_blocks(a->n, job.tile_n);
    ls_parallel_for(run, lsi_blocks(a->m, job.tile_m) * job.tiles_n, gemm_tile, &job);
    LS_REQUIRE(job.failed == 0, LS_ERR_DEVICE,
               "oneDNN refused a matrix product of m = %lld, n = %lld, k = %lld: status %d", (long long)a->m,
               (long long)a->n, (long long)a->k, job.failed);
    return LS_OK;
}
