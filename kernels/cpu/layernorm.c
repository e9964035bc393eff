/* Layer norm over the last extent. Forward and dx work on whole rows, dgamma and dbeta on ranges of columns. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"

/* ---- forward ------------------------------------------------------------------------------------------------- */

/* Sum of (x - mean)^2. */
static float squared_deviation(const float *x, int64_t n, float mean)
{
    float sum[LSI_LANES] = {0};
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        for (int l = 0; l < LSI_LANES; l++) {
            float d = x[i + l] - mean;
            sum[l] = lsi_fma(d, d, sum[l]);
        }
    }
    for (; i < n; i++) {
        float d = x[i] - mean;
        sum[i % LSI_LANES] = lsi_fma(d, d, sum[i % LSI_LANES]);
    }
    return lsi_lanes_fold(sum);
}

static void layernorm_fwd_block(void *argument, int64_t block)
{
    const lsi_layernorm_fwd_args *a = argument;
    const float *restrict gamma = a->gamma.data, *restrict beta = a->beta.data;
    int64_t begin = block * lsi_rows_per_block(a->cols), end = lsi_min(begin + lsi_rows_per_block(a->cols), a->rows);

    for (int64_t row = begin; row < end; row++) {
        const float *restrict x = (const float *)a->x.data + row * a->cols;
        float *restrict y = (float *)a->y.data + row * a->cols;
        float mean = lsi_lanes_sum(x, a->cols) / (float)a->cols;
        float variance = squared_deviation(x, a->cols, mean) / (float)a->cols;
        float rstd = 1.0f / sqrtf(variance + a->eps);

        for (int64_t i = 0; i < a->cols; i++) {
            y[i] = lsi_fma((x[i] - mean) * rstd, gamma[i], beta[i]);
        }
        ((float *)a->mean.data)[row] = mean;
        ((float *)a->rstd.data)[row] = rstd;
    }
}

ls_status LSI_CPU_KERNEL(layernorm_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_layernorm_fwd_args a = *(const lsi_layernorm_fwd_args *)arguments;

    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), layernorm_fwd_block, &a);
    return LS_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

static void parameters_block(void *argument, int64_t block)
{
    const lsi_layernorm_bwd_args *a = argument;
    const float *mean = a->mean.data, *rstd = a->rstd.data;
    int64_t begin = block * LSI_COLUMNS, n = lsi_min(LSI_COLUMNS, a->cols - begin);
    float dgamma[LSI_COLUMNS] = {0}, dbeta[LSI_COLUMNS] = {0};

    for (int64_t first = 0; first < a->rows; first += LSI_COLUMN_ROWS) {
        int64_t last = lsi_min(first + LSI_COLUMN_ROWS, a->rows);
        float part_gamma[LSI_COLUMNS] = {0}, part_beta[LSI_COLUMNS] = {0};

        for (int64_t row = first; row < last; row++) {
            const float *x = (const float *)a->x.data + row * a->cols + begin;
            const float *dy = (const float *)a->dy.data + row * a->cols + begin;
            float m = mean[row], s = rstd[row];

            for (int64_t i = 0; i < n; i++) {
                part_gamma[i] = lsi_fma(dy[i], (x[i] - m) * s, part_gamma[i]);
                part_beta[i] += dy[i];
            }
        }
        lsi_columns_add(dgamma, part_gamma, n);
        lsi_columns_add(dbeta, part_beta, n);
    }
    lsi_columns_store((float *)a->dgamma.data + begin, dgamma, n, a->accumulate_dgamma);
    lsi_columns_store((float *)a->dbeta.data + begin, dbeta, n, a->accumulate_dbeta);
}

/* g = dy gamma: sums of g and of g (x - mean). */
static void row_sums(const float *x, const float *gamma, const float *dy, int64_t n, float mean, float *sum_g,
                     float *sum_gx)
{
    float g[LSI_LANES] = {0}, gx[LSI_LANES] = {0};
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        for (int l = 0; l < LSI_LANES; l++) {
            float d = dy[i + l] * gamma[i + l];
            g[l] += d;
            gx[l] = lsi_fma(d, x[i + l] - mean, gx[l]);
        }
    }
    for (; i < n; i++) {
        float d = dy[i] * gamma[i];
        g[i % LSI_LANES] += d;
        gx[i % LSI_LANES] = lsi_fma(d, x[i] - mean, gx[i % LSI_LANES]);
    }
    *sum_g = lsi_lanes_fold(g);
    *sum_gx = lsi_lanes_fold(gx);
}

/* dx = rstd (g - mean of g - xhat * mean of (g xhat)), xhat = (x - mean) rstd */
static void dx_block(void *argument, int64_t block)
{
    const lsi_layernorm_bwd_args *a = argument;
    const float *gamma = a->gamma.data;
    int64_t begin = block * lsi_rows_per_block(a->cols), end = lsi_min(begin + lsi_rows_per_block(a->cols), a->rows);

    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)a->x.data + row * a->cols;
        const float *dy = (const float *)a->dy.data + row * a->cols;
        float *dx = (float *)a->dx.data + row * a->cols;
        float mean = ((const float *)a->mean.data)[row], rstd = ((const float *)a->rstd.data)[row];
        float sum_g, sum_gx;

        row_sums(x, gamma, dy, a->cols, mean, &sum_g, &sum_gx);
        float mean_g = sum_g / (float)a->cols, slope = sum_gx * rstd * rstd / (float)a->cols;
        LSI_INDEPENDENT
        for (int64_t i = 0; i < a->cols; i++) {
            float value = rstd * (dy[i] * gamma[i] - lsi_fma(x[i] - mean, slope, mean_g));
            dx[i] = a->accumulate_dx ? dx[i] + value : value;
        }
    }
}

ls_status LSI_CPU_KERNEL(layernorm_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_layernorm_bwd_args a = *(const lsi_layernorm_bwd_args *)arguments;

    ls_parallel_for(run, lsi_blocks(a.cols, LSI_COLUMNS), parameters_block, &a);
    if (a.dx.count > 0) {
        ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), dx_block, &a);
    }
    return LS_OK;
}
