/* Layer norm, backward: dx by rows, dgamma and dbeta by columns. */
#include "kernels/cuda/columns.h"
#include "kernels/cuda/row.h"
#include "kernels/math.h"

/* ---- dx ------------------------------------------------------------------------------------------------------ */

/* Elements of one group: g = dy gamma, d = x - mean; 0 behind the end of the row. */
template <typename T>
static __device__ __forceinline__ void read_group(const lsi_layernorm_bwd_args &a, const lsi_row &r, int64_t at,
                                                  float mean, float *g, float *d)
{
    int64_t left = a.cols - at, place = r.index * a.cols + at;
    float gamma[LSI_GROUP];

    lsi_read<T, LSI_GROUP>((const T *)a.x.data + place, left, d);
    lsi_read<T, LSI_GROUP>((const T *)a.dy.data + place, left, g);
    lsi_read<T, LSI_GROUP>((const T *)a.gamma.data + at, left, gamma);
#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        g[i] *= gamma[i];
        d[i] = i < left ? d[i] - mean : 0.0f;
    }
}

/* dx = rstd (g - mean of g - xhat * mean of (g xhat)), xhat = (x - mean) rstd. KEPT as in the forward. */
template <typename T, int KEPT>
static __device__ __forceinline__ void layernorm_dx(const lsi_layernorm_bwd_args &a, float *slots)
{
    lsi_row r = lsi_row_mine(a.cols);
    const int64_t groups = KEPT > 0 ? KEPT : (a.cols + r.step - 1) / r.step;
    float g[KEPT > 0 ? KEPT : 1][LSI_GROUP], d[KEPT > 0 ? KEPT : 1][LSI_GROUP], sum_g = 0.0f, sum_gd = 0.0f;

    if (r.index >= a.rows) {
        return;
    }
    float mean = ((const float *)a.mean.data)[r.index], rstd = ((const float *)a.rstd.data)[r.index];
#pragma unroll
    for (int64_t k = 0; k < groups && k * r.step < a.cols; k++) {
        const int at = KEPT > 0 ? (int)k : 0;

        read_group<T>(a, r, r.first + k * r.step, mean, g[at], d[at]);
#pragma unroll
        for (int i = 0; i < LSI_GROUP; i++) {
            sum_g += g[at][i];
            sum_gd = lsi_fma(g[at][i], d[at][i], sum_gd);
        }
    }
    float mean_g = lsi_row_sum(&r, sum_g, slots) / (float)a.cols;
    float slope = lsi_row_sum(&r, sum_gd, slots + LSI_ROW_WARPS) * rstd * rstd / (float)a.cols;
#pragma unroll
    for (int64_t k = 0; k < groups && k * r.step < a.cols; k++) {
        const int at = KEPT > 0 ? (int)k : 0;
        int64_t column = r.first + k * r.step, left = a.cols - column;
        T *dx = (T *)a.dx.data + r.index * a.cols + column;
        float before[LSI_GROUP];

        if (left <= 0) {
            break;
        }
        if (KEPT == 0) {
            read_group<T>(a, r, column, mean, g[0], d[0]);
        }
        if (a.accumulate_dx) {
            lsi_read<T, LSI_GROUP>(dx, left, before);
        }
#pragma unroll
        for (int i = 0; i < LSI_GROUP; i++) {
            float value = rstd * (g[at][i] - lsi_fma(d[at][i], slope, mean_g));
            g[at][i] = a.accumulate_dx ? before[i] + value : value;
        }
        lsi_write<T, LSI_GROUP>(dx, left, g[at]);
    }
}

#define LAYERNORM_DX(name, suffix, type, kept)                                                                       \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_##name##_##suffix(lsi_layernorm_bwd_args a)        \
    {                                                                                                                \
        __shared__ float slots[2 * LSI_ROW_WARPS];                                                                   \
        layernorm_dx<type, kept>(a, slots);                                                                          \
    }
LAYERNORM_DX(layernorm_dx, f32, float, LSI_ROW_KEPT)
LAYERNORM_DX(layernorm_dx, f16, __half, LSI_ROW_KEPT)
LAYERNORM_DX(layernorm_dx, bf16, __nv_bfloat16, LSI_ROW_KEPT)
LAYERNORM_DX(layernorm_dx_long, f32, float, 0)
LAYERNORM_DX(layernorm_dx_long, f16, __half, 0)
LAYERNORM_DX(layernorm_dx_long, bf16, __nv_bfloat16, 0)

static ls_status launch_dx(const lsi_layernorm_bwd_args *arguments, cudaStream_t stream)
{
    lsi_layernorm_bwd_args a = *arguments;
    unsigned grid = lsi_row_grid(a.rows, a.cols);

    if (a.cols > LSI_ROW_LONG) {
        return LSI_LAUNCH_TYPES("layernorm_bwd", layernorm_dx_long, a.x.dtype, grid, LSI_THREADS, stream, a);
    }
    return LSI_LAUNCH_TYPES("layernorm_bwd", layernorm_dx, a.x.dtype, grid, LSI_THREADS, stream, a);
}

/* ---- dgamma, dbeta ------------------------------------------------------------------------------------------- */

/* dgamma's parts, and dbeta's behind them. */
template <typename T>
static __device__ __forceinline__ void layernorm_parts(const lsi_layernorm_bwd_args &a, const lsi_slab &s)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(s.count, n);     /* row: the part */
    int64_t left = s.count - p.column, last = lsi_least((p.row + 1) * LSI_COLUMN_ROWS, a.rows);
    const float *mean = (const float *)a.mean.data, *rstd = (const float *)a.rstd.data;
    float dgamma[n], dbeta[n];

    if (p.row >= s.n_parts || left <= 0) {
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        dgamma[i] = 0.0f;
        dbeta[i] = 0.0f;
    }
#pragma unroll 2
    for (int64_t row = p.row * LSI_COLUMN_ROWS; row < last; row++) {
        int64_t at = row * a.cols + s.first + p.column;
        float x[n], dy[n], m = mean[row], r = rstd[row];

        lsi_read<T, n>((const T *)a.x.data + at, left, x);
        lsi_read<T, n>((const T *)a.dy.data + at, left, dy);
#pragma unroll
        for (int i = 0; i < n; i++) {
            dgamma[i] = lsi_fma(dy[i], (x[i] - m) * r, dgamma[i]);
            dbeta[i] += dy[i];
        }
    }
    lsi_write<float, n>(s.parts + p.row * s.count + p.column, left, dgamma);
    lsi_write<float, n>(s.parts + (s.n_parts + p.row) * s.count + p.column, left, dbeta);
}
LSI_KERNEL_TYPES(layernorm_parts, (lsi_layernorm_bwd_args a, lsi_slab s), (a, s))

static ls_status launch_parameters(const lsi_layernorm_bwd_args *arguments, ls_stream *stream)
{
    lsi_layernorm_bwd_args a = *arguments;
    cudaStream_t on = lsi_cuda_stream(stream);
    int group = lsi_cuda_group(a.x.dtype);
    lsi_slab s = {0, 0, lsi_cuda_blocks(a.rows, LSI_COLUMN_ROWS), (float *)lsi_cuda_workspace(stream)};
    int64_t fit;

    LS_TRY(lsi_cuda_columns_fit("layernorm_bwd", a.rows, 2, &fit));
    for (; s.first < a.cols; s.first += s.count) {
        s.count = fit < a.cols - s.first ? fit : a.cols - s.first;
        if (s.n_parts > 0) {
            LS_TRY(LSI_LAUNCH_TYPES("layernorm_bwd", layernorm_parts, a.x.dtype,
                                    lsi_matrix_grid(s.n_parts, s.count, group), lsi_matrix_block(s.count, group), on,
                                    a, s));
        }
        LS_TRY(lsi_cuda_columns_fold("layernorm_bwd", on, s, (float *)a.dgamma.data, a.accumulate_dgamma));
        lsi_slab beta = s;
        beta.parts += s.n_parts * s.count;
        LS_TRY(lsi_cuda_columns_fold("layernorm_bwd", on, beta, (float *)a.dbeta.data, a.accumulate_dbeta));
    }
    return LS_OK;
}

extern "C" ls_status lsi_cuda_layernorm_bwd(ls_stream *stream, const void *arguments)
{
    const lsi_layernorm_bwd_args *a = (const lsi_layernorm_bwd_args *)arguments;

    LSI_CHECK_TYPES("layernorm_bwd", &a->x, &a->gamma, &a->dy, &a->dx);
    LS_TRY(launch_parameters(a, stream));
    return a->dx.count > 0 ? launch_dx(a, lsi_cuda_stream(stream)) : LS_OK;
}
