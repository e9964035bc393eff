/* Layer norm over the last extent, forward, also of a sum that is made on the way. A thread keeps its part of a row, so
 * that x is read once; rows longer than LSI_ROW_LONG are read again, in the same order. */
#include "kernels/cuda/row.h"
#include "kernels/math.h"

/* A group of x for the first time. */
template <typename T>
static __device__ __forceinline__ void take(const lsi_layernorm_fwd_args &a, int64_t at, int64_t left, float *v)
{
    lsi_read<T, LSI_GROUP>((const T *)a.x.data + at, left, v);
}

/* The same of a sum: written, and taken as it is stored. */
template <typename T>
static __device__ __forceinline__ void take(const lsi_add_layernorm_args &a, int64_t at, int64_t left, float *v)
{
    float right[LSI_GROUP];

    lsi_read<T, LSI_GROUP>((const T *)a.a.data + at, left, v);
    lsi_read<T, LSI_GROUP>((const T *)a.b.data + at, left, right);
#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        v[i] += right[i];
    }
    lsi_write<T, LSI_GROUP>((T *)a.s.data + at, left, v);
#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        T stored;

        lsi_narrow(v[i], &stored);
        v[i] = lsi_widen(stored);
    }
}

template <typename T> static __device__ __forceinline__ const T *input(const lsi_layernorm_fwd_args &a)
{
    return (const T *)a.x.data;
}
template <typename T> static __device__ __forceinline__ const T *input(const lsi_add_layernorm_args &a)
{
    return (const T *)a.s.data;
}

/* KEPT: groups of the row that a thread keeps, LSI_ROW_KEPT or 0. */
template <typename T, int KEPT, typename A> static __device__ __forceinline__ void layernorm(const A &a, float *slots)
{
    lsi_row r = lsi_row_mine(a.cols);
    const T *x = input<T>(a) + r.index * a.cols, *gamma = (const T *)a.gamma.data;
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

        take<T>(a, r.index * a.cols + at, a.cols - at, v);
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

#define LAYERNORM(name, arguments, suffix, type, kept)                                                            \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_##name##_##suffix(arguments a)                  \
    {                                                                                                             \
        __shared__ float slots[2 * LSI_ROW_WARPS];                                                                \
        layernorm<type, kept>(a, slots);                                                                          \
    }
#define LAYERNORMS(name)                                                                    \
    LAYERNORM(name, lsi_##name##_args, f32, float, LSI_ROW_KEPT)                            \
    LAYERNORM(name, lsi_##name##_args, f16, __half, LSI_ROW_KEPT)                           \
    LAYERNORM(name, lsi_##name##_args, bf16, __nv_bfloat16, LSI_ROW_KEPT)                   \
    LAYERNORM(name##_long, lsi_##name##_args, f32, float, 0)                                \
    LAYERNORM(name##_long, lsi_##name##_args, f16, __half, 0)                               \
    LAYERNORM(name##_long, lsi_##name##_args, bf16, __nv_bfloat16, 0)
LAYERNORMS(layernorm_fwd)
LAYERNORMS(add_layernorm)

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

extern "C" ls_status lsi_cuda_add_layernorm(ls_stream *stream, const void *arguments)
{
    lsi_add_layernorm_args a = *(const lsi_add_layernorm_args *)arguments;
    unsigned grid = lsi_row_grid(a.rows, a.cols);

    LSI_CHECK_TYPES("add_layernorm", &a.a, &a.b, &a.gamma, &a.beta, &a.s, &a.y);
    if (a.rows == 0) {
        return LS_OK;
    }
    if (a.cols > LSI_ROW_LONG) {
        return LSI_LAUNCH_TYPES("add_layernorm", add_layernorm_long, a.s.dtype, grid, LSI_THREADS,
                                lsi_cuda_stream(stream), a);
    }
    return LSI_LAUNCH_TYPES("add_layernorm", add_layernorm, a.s.dtype, grid, LSI_THREADS, lsi_cuda_stream(stream), a);
}
