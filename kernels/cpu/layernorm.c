/* Layer norm over the last extent. Forward and dx work on rows, tile by tile, and hold sums in lanes that do not know
 * where a tile ends; dgamma and dbeta are sums of parts, LSI_COLUMN_ROWS rows each, in order. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/math.h"

/* ---- forward ------------------------------------------------------------------------------------------------- */

/* Adds (x - mean)^2 to the lanes. */
static void add_squared_deviations(float sum[LSI_LANES], const float *x, int64_t n, float mean)
{
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        LSI_LANES_KEPT
        for (int l = 0; l < LSI_LANES; l++) {
            float d = x[i + l] - mean;
            sum[l] = lsi_fma(d, d, sum[l]);
        }
    }
    for (; i < n; i++) {
        float d = x[i] - mean;
        sum[i % LSI_LANES] = lsi_fma(d, d, sum[i % LSI_LANES]);
    }
}

static void fwd_tile(const lsi_layernorm_fwd_args *a, int64_t row, int64_t begin, float mean, float rstd)
{
    float x_tile[LSI_CONVERT_TILE], gamma_tile[LSI_CONVERT_TILE], beta_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    int64_t n = lsi_min(LSI_CONVERT_TILE, a->cols - begin), at = row * a->cols + begin;
    const float *restrict x = lsi_convert_load(&a->x, at, n, x_tile);
    const float *restrict gamma = lsi_convert_load(&a->gamma, begin, n, gamma_tile);
    const float *restrict beta = lsi_convert_load(&a->beta, begin, n, beta_tile);
    float *restrict y = lsi_convert_target(&a->y, at, y_tile);

    for (int64_t i = 0; i < n; i++) {
        y[i] = lsi_fma((x[i] - mean) * rstd, gamma[i], beta[i]);
    }
    lsi_convert_store(&a->y, at, n, y);
}

static void fwd_row(const lsi_layernorm_fwd_args *a, int64_t row)
{
    float sum[LSI_LANES] = {0}, squares[LSI_LANES] = {0}, tile[LSI_CONVERT_TILE];

    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->cols - begin);
        lsi_lanes_add(sum, lsi_convert_load(&a->x, row * a->cols + begin, n, tile), n);
    }
    float mean = lsi_lanes_fold(sum) / (float)a->cols;
    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->cols - begin);
        add_squared_deviations(squares, lsi_convert_load(&a->x, row * a->cols + begin, n, tile), n, mean);
    }
    float rstd = 1.0f / sqrtf(lsi_lanes_fold(squares) / (float)a->cols + a->eps);
    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        fwd_tile(a, row, begin, mean, rstd);
    }
    ((float *)a->mean.data)[row] = mean;
    ((float *)a->rstd.data)[row] = rstd;
}

static void layernorm_fwd_block(void *argument, int64_t block)
{
    const lsi_layernorm_fwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->cols);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        fwd_row(a, row);
    }
}

ls_status LSI_CPU_KERNEL(layernorm_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_layernorm_fwd_args a = *(const lsi_layernorm_fwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("layernorm_fwd", &a.x, &a.gamma, &a.beta, &a.y));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), layernorm_fwd_block, &a);
    return LS_OK;
}

/* ---- forward of a sum ---------------------------------------------------------------------------------------- */

static void sum_row(const lsi_add_layernorm_args *a, int64_t row)
{
    float left_tile[LSI_CONVERT_TILE], right_tile[LSI_CONVERT_TILE], sum_tile[LSI_CONVERT_TILE];

    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->cols - begin), at = row * a->cols + begin;
        const float *left = lsi_convert_load(&a->a, at, n, left_tile);
        const float *right = lsi_convert_load(&a->b, at, n, right_tile);
        float *sum = lsi_convert_target(&a->s, at, sum_tile);

        LSI_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            sum[i] = left[i] + right[i];
        }
        lsi_convert_store(&a->s, at, n, sum);
    }
}

static void add_layernorm_block(void *argument, int64_t block)
{
    const lsi_add_layernorm_args *a = argument;
    const lsi_layernorm_fwd_args norm = {.x = a->s,
                                         .gamma = a->gamma,
                                         .beta = a->beta,
                                         .y = a->y,
                                         .mean = a->mean,
                                         .rstd = a->rstd,
                                         .rows = a->rows,
                                         .cols = a->cols,
                                         .eps = a->eps};
    int64_t per_block = lsi_rows_per_block(a->cols);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        sum_row(a, row);
        fwd_row(&norm, row);
    }
}

ls_status LSI_CPU_KERNEL(add_layernorm)(const ls_cpu_run *run, const void *arguments)
{
    lsi_add_layernorm_args a = *(const lsi_add_layernorm_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("add_layernorm", &a.a, &a.b, &a.gamma, &a.beta, &a.s, &a.y));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), add_layernorm_block, &a);
    return LS_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

static void parameters_block(void *argument, int64_t block)
{
    const lsi_layernorm_bwd_args *a = argument;
    const float *mean = a->mean.data, *rstd = a->rstd.data;
    int64_t begin = block * LSI_COLUMNS, n = lsi_min(LSI_COLUMNS, a->cols - begin);
    float dgamma[LSI_COLUMNS] = {0}, dbeta[LSI_COLUMNS] = {0}, x_tile[LSI_COLUMNS], dy_tile[LSI_COLUMNS];

    for (int64_t first = 0; first < a->rows; first += LSI_COLUMN_ROWS) {
        int64_t last = lsi_min(first + LSI_COLUMN_ROWS, a->rows);
        float part_gamma[LSI_COLUMNS] = {0}, part_beta[LSI_COLUMNS] = {0};

        for (int64_t row = first; row < last; row++) {
            const float *x = lsi_convert_load(&a->x, row * a->cols + begin, n, x_tile);
            const float *dy = lsi_convert_load(&a->dy, row * a->cols + begin, n, dy_tile);
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

/* Lanes of the two sums over a row that dx needs: of g = dy gamma, and of g (x - mean). */
typedef struct row_sums {
    float g[LSI_LANES], gx[LSI_LANES];
} row_sums;

static void add_to_row_sums(row_sums *s, const float *x, const float *gamma, const float *dy, int64_t n, float mean)
{
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        for (int l = 0; l < LSI_LANES; l++) {
            float d = dy[i + l] * gamma[i + l];
            s->g[l] += d;
            s->gx[l] = lsi_fma(d, x[i + l] - mean, s->gx[l]);
        }
    }
    for (; i < n; i++) {
        float d = dy[i] * gamma[i];
        s->g[i % LSI_LANES] += d;
        s->gx[i % LSI_LANES] = lsi_fma(d, x[i] - mean, s->gx[i % LSI_LANES]);
    }
}

/* What dx reads of one tile of a row. */
typedef struct dx_inputs {
    const float *x, *gamma, *dy;
    int64_t n;
    float x_tile[LSI_CONVERT_TILE], gamma_tile[LSI_CONVERT_TILE], dy_tile[LSI_CONVERT_TILE];
} dx_inputs;

static void load_dx_inputs(const lsi_layernorm_bwd_args *a, int64_t row, int64_t begin, dx_inputs *out)
{
    out->n = lsi_min(LSI_CONVERT_TILE, a->cols - begin);
    out->x = lsi_convert_load(&a->x, row * a->cols + begin, out->n, out->x_tile);
    out->gamma = lsi_convert_load(&a->gamma, begin, out->n, out->gamma_tile);
    out->dy = lsi_convert_load(&a->dy, row * a->cols + begin, out->n, out->dy_tile);
}

/* Sums of dgamma and dbeta over some rows, all columns. */
typedef struct part_sums {
    float *gamma, *beta;
} part_sums;

static void add_to_part(part_sums part, const dx_inputs *in, int64_t begin, float mean, float rstd)
{
    const float *restrict x = in->x, *restrict dy = in->dy;
    float *restrict gamma = part.gamma + begin, *restrict beta = part.beta + begin;

    for (int64_t i = 0; i < in->n; i++) {
        gamma[i] = lsi_fma(dy[i], (x[i] - mean) * rstd, gamma[i]);
        beta[i] += dy[i];
    }
}

/* dx = rstd (g - mean of g - xhat * mean of (g xhat)), xhat = (x - mean) rstd. `part`, if given, takes the row's share
 * of the other sums while it is in the cache. */
static void dx_row(const lsi_layernorm_bwd_args *a, int64_t row, const part_sums *part)
{
    float mean = ((const float *)a->mean.data)[row], rstd = ((const float *)a->rstd.data)[row];
    float dx_tile[LSI_CONVERT_TILE];
    row_sums sums = {{0}, {0}};
    dx_inputs in;

    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        load_dx_inputs(a, row, begin, &in);
        add_to_row_sums(&sums, in.x, in.gamma, in.dy, in.n, mean);
    }
    float mean_g = lsi_lanes_fold(sums.g) / (float)a->cols;
    float slope = lsi_lanes_fold(sums.gx) * rstd * rstd / (float)a->cols;
    for (int64_t begin = 0; begin < a->cols; begin += LSI_CONVERT_TILE) {
        int64_t at = row * a->cols + begin;

        if (a->cols > LSI_CONVERT_TILE) {       /* else the sums have left it loaded */
            load_dx_inputs(a, row, begin, &in);
        }
        if (part != NULL) {
            add_to_part(*part, &in, begin, mean, rstd);
        }
        const float *x = in.x, *gamma = in.gamma, *dy = in.dy;
        const float *before = a->accumulate_dx ? lsi_convert_load(&a->dx, at, in.n, dx_tile) : NULL;
        float *dx = lsi_convert_target(&a->dx, at, dx_tile);
        LSI_INDEPENDENT
        for (int64_t i = 0; i < in.n; i++) {
            float value = rstd * (dy[i] * gamma[i] - lsi_fma(x[i] - mean, slope, mean_g));
            dx[i] = before != NULL ? before[i] + value : value;
        }
        lsi_convert_store(&a->dx, at, in.n, dx);
    }
}

static void dx_block(void *argument, int64_t block)
{
    const lsi_layernorm_bwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->cols);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        dx_row(a, row, NULL);
    }
}

/* Where the sums of all parts fit on the stack, one pass over the rows makes everything. */
typedef struct one_pass {
    const lsi_layernorm_bwd_args *a;
    float *sums;                /* by part: dgamma, dbeta */
} one_pass;

static int64_t n_parts(const lsi_layernorm_bwd_args *a)
{
    return lsi_blocks(a->rows, LSI_COLUMN_ROWS);
}

static part_sums part_of(const one_pass *p, int64_t part)
{
    float *sums = p->sums + part * 2 * p->a->cols;

    return (part_sums){sums, sums + p->a->cols};
}

static void rows_block(void *argument, int64_t block)
{
    const one_pass *p = argument;
    part_sums part = part_of(p, block);

    memset(part.gamma, 0, 2 * (size_t)p->a->cols * sizeof(float));
    for (int64_t row = block * LSI_COLUMN_ROWS; row < lsi_min((block + 1) * LSI_COLUMN_ROWS, p->a->rows); row++) {
        dx_row(p->a, row, &part);
    }
}

static void combine_block(void *argument, int64_t block)
{
    const one_pass *p = argument;
    const lsi_layernorm_bwd_args *a = p->a;
    int64_t begin = block * LSI_COLUMNS, n = lsi_min(LSI_COLUMNS, a->cols - begin);
    float dgamma[LSI_COLUMNS] = {0}, dbeta[LSI_COLUMNS] = {0};

    for (int64_t i = 0; i < n_parts(a); i++) {
        part_sums part = part_of(p, i);

        lsi_columns_add(dgamma, part.gamma + begin, n);
        lsi_columns_add(dbeta, part.beta + begin, n);
    }
    lsi_columns_store((float *)a->dgamma.data + begin, dgamma, n, a->accumulate_dgamma);
    lsi_columns_store((float *)a->dbeta.data + begin, dbeta, n, a->accumulate_dbeta);
}

/* Apart, so that only this path has the frame. */
static __attribute__((noinline)) void run_one_pass(const ls_cpu_run *run, const lsi_layernorm_bwd_args *a)
{
    _Alignas(64) float sums[LSI_COLUMN_PARTS];
    one_pass p = {a, sums};

    ls_parallel_for(run, n_parts(a), rows_block, &p);
    ls_parallel_for(run, lsi_blocks(a->cols, LSI_COLUMNS), combine_block, &p);
}

ls_status LSI_CPU_KERNEL(layernorm_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_layernorm_bwd_args a = *(const lsi_layernorm_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("layernorm_bwd", &a.x, &a.gamma, &a.dy, &a.dx));
    if (a.dx.count > 0 && n_parts(&a) <= LSI_COLUMN_PARTS / (2 * a.cols)) {
        run_one_pass(run, &a);
        return LS_OK;
    }
    ls_parallel_for(run, lsi_blocks(a.cols, LSI_COLUMNS), parameters_block, &a);
    if (a.dx.count > 0) {
        ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.cols)), dx_block, &a);
    }
    return LS_OK;
}
