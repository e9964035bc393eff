/* Layer norm over the last extent, forward. A thread keeps its part of a row, so that x is read once; rows longer than
 * LSI_ROW_LONG are read again, in the same order. */
#include "kernels/cuda/row.h"
#include "kernels/math.h"

/* KEPT: groups of the row that a thread keeps, LSI_ROW_KEPT or 0. */
template <typename T, int KEPT>
static __device__ __forceinline__ void layernorm_fwd(const lsi_layernorm_fwd_args &a, float *slots)
{
    lsi_row r = lsi_row_mine(a.cols);
    const T *x = (const T *)a.x.data + r.index * a.cols, *gamma = (const T *)a.gamma.data;
    const T *beta = (const T *)a.beta.data;
    const int64_t groups = KEPT > 0 ? KEPT : (a.cols + r.step - 1) / r.step;
    float kept[KEPT > 0 ? KEPT : 1][LSI_GROUP], sum = 0.0f, squares = 0.0f;

    if (r.index >= a.rows) {
        return;
    }
#pragma unroll
    for (int64_t k = 0; k < groups && k * r.step < a.cols; k++) {
        float *v = kept[KEPT > 0 ? k : 0];
        int64_t at = r.first + k * r.step;

        lsi_read<T, LSI_GROUP>(x + at, a.cols - at, v);
#pragma unroll
        for (int i = 0; i < LSI_GROUP; i++) {
            sum += v[i];
        }
    }
    float mean = lsi_row_sum(&r, sum, slots) / (float)a.cols;
#pragma unroll
    for (int64_t k = 0; k < groups && k * r.step < a.cols; k++) {
        float *v = kept[KEPT > 0 ? k : 0];
        int64_t at = r.first + k * r.step;

        if (KEPT == 0) {
            lsi_read<T, LSI_GROUP>(x + at, a.cols - at, v);
        }
#pragma unroll
        for (int i = 0; i < LSI_GROUP; i++) {
            float d = at + i < a.cols ? v[i] - mean : 0.0f;
            squares = lsi_fma(d, d, squares);
        }
    }
    float rstd = 1.0f / sqrtf(lsi_row_sum(&r, squares, slots + LSI_ROW_WARPS) / (float)a.cols + a.eps);
#pragma unroll
    for (int64_t k = 0; k < groups && k * r.step < a.cols; k++) {
        float *v = kept[KEPT > 0 ? k : 0], g[LSI_GROUP], b[LSI_GROUP];
        int64_t at = r.first + k * r.step, left = a.cols - at;

        if (left <= 0) {
            break;
        }
        if (KEPT == 0) {
            lsi_read<T, LSI_GROUP>(x + at, left, v);
        }
        lsi_read<T, LSI_GROUP>(gamma + at, left, g);
        lsi_read<T, LSI_GROUP>(beta + at, left, b);
#pragma unroll
        for (int i = 0; i < LSI_GROUP; i++) {
            v[i] = lsi_fma((v[i] - mean) * rstd, g[i], b[i]);
        }
        lsi_write<T, LSI_GROUP>((T *)a.y.data + r.index * a.cols + at, left, v);
    }
    if (r.first == 0) {
        ((float *)a.mean.data)[r.index] = mean;
        ((float *)a.rstd.data)[r.index] = rstd;
    }
}

#define LAYERNORM_FWD(name, suffix, type, kept)                                                                      \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_##name##_##suffix(lsi_layernorm_fwd_args a)        \
    {                                                                                                                \
        __shared__ float slots[2 * LSI_ROW_WARPS];                                                                   \
        layernorm_fwd<type, kept>(a, slots);                                                                         \
    }
LAYERNORM_FWD(layernorm_fwd, f32, float, LSI_ROW_KEPT)
LAYERNORM_FWD(layernorm_fwd, f16, __half, LSI_ROW_KEPT)
LAYERNORM_FWD(layernorm_fwd, bf16, __nv_bfloat16, LSI_ROW_KEPT)
LAYERNORM_FWD(layernorm_fwd_long, f32, float, 0)
LAYERNORM_FWD(layernorm_fwd_long, f16, __half, 0)
LAYERNORM_FWD(layernorm_fwd_long, bf16, __nv_bfloat16, 0)

extern "C" ls_status lsi_cuda_layernorm_fwd(ls_stream *stream, const void *arguments)
{
    lsi_layernorm_fwd_args a = *(const lsi_layernorm_fwd_args *)arguments;
    unsigned grid = lsi_row_grid(a.rows, a.cols);

    LSI_CHECK_TYPES("layernorm_fwd", &a.x, &a.gamma, &a.beta, &a.y);
    if (a.rows == 0) {
        return LS_OK;
    }
    if (a.cols > LSI_ROW_LONG) {
        return LSI_LAUNCH_TYPES("layernorm_fwd", layernorm_fwd_long, a.x.dtype, grid, LSI_THREADS,
                                lsi_cuda_stream(stream), a);
    }
    return LSI_LAUNCH_TYPES("layernorm_fwd", layernorm_fwd, a.x.dtype, grid, LSI_THREADS, lsi_cuda_stream(stream), a);
}
