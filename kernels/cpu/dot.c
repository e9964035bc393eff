/* Inner products of rows. Products are summed in the lanes of a tile, the sums of the tiles in double and in order. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/math.h"

static float tile_sum(const float *x, const float *y, int64_t n)
{
    float sum[LSI_LANES] = {0};
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        for (int l = 0; l < LSI_LANES; l++) {
            sum[l] = lsi_fma(x[i + l], y[i + l], sum[l]);
        }
    }
    for (; i < n; i++) {
        sum[i % LSI_LANES] = lsi_fma(x[i], y[i], sum[i % LSI_LANES]);
    }
    return lsi_lanes_fold(sum);
}

static void fwd_row(const lsi_dot_fwd_args *a, int64_t row)
{
    double sum = 0.0;

    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        float a_tile[LSI_CONVERT_TILE], b_tile[LSI_CONVERT_TILE];
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->cols - begin), at = row * a->cols + begin;

        sum += (double)tile_sum(lsi_convert_load(&a->a, at, n, a_tile), lsi_convert_load(&a->b, at, n, b_tile), n);
    }
    lsi_convert_store(&a->y, row, 1, &(float){(float)sum});
}

static void fwd_block(void *argument, int64_t block)
{
    const lsi_dot_fwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->cols);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        fwd_row(a, row);
    }
}

ls_status LSI_CPU_KERNEL(dot_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_dot_fwd_args a = *(const lsi_dot_fwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("dot_fwd", &a.a, &a.b, &a.y));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), fwd_block, &a);
    return LS_OK;
}

static void bwd_row(const lsi_dot_bwd_args *a, int64_t row)
{
    float dy_tile[1];
    const float dy = *lsi_convert_load(&a->dy, row, 1, dy_tile);

    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        float other_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->cols - begin), at = row * a->cols + begin;
        const float *other = lsi_convert_load(&a->other, at, n, other_tile);
        const float *before = a->accumulate ? lsi_convert_load(&a->dx, at, n, dx_tile) : NULL;
        float *dx = lsi_convert_target(&a->dx, at, dx_tile);

        LSI_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            dx[i] = before != NULL ? before[i] + dy * other[i] : dy * other[i];
        }
        lsi_convert_store(&a->dx, at, n, dx);
    }
}

static void bwd_block(void *argument, int64_t block)
{
    const lsi_dot_bwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->cols);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        bwd_row(a, row);
    }
}

ls_status LSI_CPU_KERNEL(dot_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_dot_bwd_args a = *(const lsi_dot_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("dot_bwd", &a.other, &a.dy, &a.dx));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), bwd_block, &a);
    return LS_OK;
}
