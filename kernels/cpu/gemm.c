/* Matrix product: output tiles of fixed size, each one call of oneDNN's SGEMM on one thread. As fast as the library's
 * own threading, and the bits do not depend on the number of threads. */
#include "kernels/cpu/kernel.h"

#include <string.h>

#include <oneapi/dnnl/dnnl.h>

typedef struct gemm_job {
    lsi_gemm_args a;
    int64_t tile_m, tile_n, tiles_n;
    _Atomic int failed;                 /* status of a tile that failed, 0: none */
} gemm_job;

/* A tile of 256 x 384 runs at 87 to 96 % of a whole call's speed, smaller ones lose what packing its operands costs.
 * Below MIN_TILES, where threads would be idle, tiles are halved, but not to less than MIN_FLOPS: some 20 us. */
enum { MAX_ROWS = 256, MAX_COLUMNS = 384, MIN_TILES = 8, MIN_FLOPS = 4000000 };

static int64_t round_up_16(int64_t n)
{
    return lsi_blocks(n, 16) * 16;
}

/* A function of the shape alone: it decides the bits. */
static void choose_tile(gemm_job *job)
{
    const lsi_gemm_args *a = &job->a;
    double flops = 2.0 * (double)a->m * (double)a->n * (double)a->k;
    int64_t parts_m = lsi_blocks(a->m, MAX_ROWS), parts_n = lsi_blocks(a->n, MAX_COLUMNS);

    while (parts_m * parts_n < MIN_TILES && flops > (double)(MIN_FLOPS * parts_m * parts_n)) {
        if (a->m * parts_n > a->n * parts_m) {
            parts_m *= 2;
        } else {
            parts_n *= 2;
        }
    }
    job->tile_m = round_up_16(lsi_blocks(a->m, parts_m));
    job->tile_n = round_up_16(lsi_blocks(a->n, parts_n));
}

/* What is left of a product with k = 0. */
static void clear_tile(const lsi_gemm_args *a, float *c, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m && !a->accumulate; i++) {
        memset(c + i * a->n, 0, (size_t)n * sizeof *c);
    }
}

static void add_bias(const lsi_gemm_args *a, float *restrict c, const float *restrict bias, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            c[i * a->n + j] += bias[j];
        }
    }
}

static void gemm_tile(void *argument, int64_t block)
{
    gemm_job *job = argument;
    const lsi_gemm_args *a = &job->a;
    int64_t row = block / job->tiles_n * job->tile_m, column = block % job->tiles_n * job->tile_n;
    int64_t m = lsi_min(job->tile_m, a->m - row), n = lsi_min(job->tile_n, a->n - column);
    float *c = (float *)a->c.data + row * a->n + column;

    if (a->k == 0) {
        clear_tile(a, c, m, n);
    } else {
        const float *left = (const float *)a->a.data + (a->trans_a ? row : row * a->k);
        const float *right = (const float *)a->b.data + (a->trans_b ? column * a->k : column);
        dnnl_status_t status =
            dnnl_sgemm(a->trans_a ? 'T' : 'N', a->trans_b ? 'T' : 'N', m, n, a->k, 1.0f, left, a->trans_a ? a->m : a->k,
                       right, a->trans_b ? a->k : a->n, a->accumulate ? 1.0f : 0.0f, c, a->n);
        if (status != dnnl_success) {
            job->failed = (int)status;
        }
    }
    if (a->bias.count > 0) {
        add_bias(a, c, (const float *)a->bias.data + column, m, n);
    }
}

ls_status LSI_CPU_KERNEL(gemm)(const ls_cpu_run *run, const void *arguments)
{
    gemm_job job = {.a = *(const lsi_gemm_args *)arguments};
    const lsi_gemm_args *a = &job.a;

    if (a->m == 0 || a->n == 0) {
        return LS_OK;
    }
    choose_tile(&job);
    job.tiles_n = lsi_blocks(a->n, job.tile_n);
    ls_parallel_for(run, lsi_blocks(a->m, job.tile_m) * job.tiles_n, gemm_tile, &job);
    LS_REQUIRE(job.failed == 0, LS_ERR_DEVICE,
               "oneDNN refused a matrix product of m = %lld, n = %lld, k = %lld: status %d", (long long)a->m,
               (long long)a->n, (long long)a->k, job.failed);
    return LS_OK;
}
