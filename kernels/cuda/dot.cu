/* Inner products of rows. The products of a group are summed in f32, the sums of groups in double. */
#include "kernels/cuda/row.h"
#include "kernels/math.h"

template <typename T> static __device__ __forceinline__ void dot_fwd(const lsi_dot_fwd_args &a, double *slot)
{
    lsi_row r = lsi_row_mine(a.cols);
    const T *x = (const T *)a.a.data + r.index * a.cols, *y = (const T *)a.b.data + r.index * a.cols;
    double sum = 0.0;

    if (r.index >= a.rows) {
        return;
    }
    for (int64_t at = r.first; at < a.cols; at += r.step) {
        float v[LSI_GROUP], w[LSI_GROUP], part = 0.0f;

        lsi_read<T, LSI_GROUP>(x + at, a.cols - at, v);
        lsi_read<T, LSI_GROUP>(y + at, a.cols - at, w);
#pragma unroll
        for (int i = 0; i < LSI_GROUP; i++) {
            part = lsi_fma(v[i], w[i], part);
        }
        sum += (double)part;
    }
    sum = lsi_row_sum(&r, sum, slot);
    if (r.first == 0) {
        lsi_narrow((float)sum, (T *)a.y.data + r.index);
    }
}
#define DOT_FWD(suffix, type)                                                                                    \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_dot_fwd_##suffix(lsi_dot_fwd_args a)           \
    {                                                                                                            \
        __shared__ double slot[LSI_ROW_WARPS];                                                                   \
        dot_fwd<type>(a, slot);                                                                                  \
    }
DOT_FWD(f32, float)
DOT_FWD(f16, __half)
DOT_FWD(bf16, __nv_bfloat16)

extern "C" ls_status lsi_cuda_dot_fwd(ls_stream *stream, const void *arguments)
{
    lsi_dot_fwd_args a = *(const lsi_dot_fwd_args *)arguments;

    LSI_CHECK_TYPES("dot_fwd", &a.a, &a.b, &a.y);
    if (a.rows == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("dot_fwd", dot_fwd, a.y.dtype, lsi_row_grid(a.rows, a.cols), LSI_THREADS,
                            lsi_cuda_stream(stream), a);
}

template <typename T> static __device__ __forceinline__ void dot_bwd(const lsi_dot_bwd_args &a)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(a.cols, n);
    int64_t left = a.cols - p.column, at = p.row * a.cols + p.column;
    float v[n], before[n];

    if (p.row >= a.rows || left <= 0) {
        return;
    }
    float dy = lsi_widen(((const T *)a.dy.data)[p.row]);
    lsi_read<T, n>((const T *)a.other.data + at, left, v);
    if (a.accumulate) {
        lsi_read<T, n>((const T *)a.dx.data + at, left, before);
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        v[i] = a.accumulate ? before[i] + dy * v[i] : dy * v[i];
    }
    lsi_write<T, n>((T *)a.dx.data + at, left, v);
}
LSI_KERNEL_TYPES(dot_bwd, (lsi_dot_bwd_args a), (a))

extern "C" ls_status lsi_cuda_dot_bwd(ls_stream *stream, const void *arguments)
{
    lsi_dot_bwd_args a = *(const lsi_dot_bwd_args *)arguments;
    int group = lsi_cuda_group(a.dx.dtype);

    LSI_CHECK_TYPES("dot_bwd", &a.other, &a.dy, &a.dx);
    if (a.rows == 0 || a.cols == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("dot_bwd", dot_bwd, a.dx.dtype, lsi_matrix_grid(a.rows, a.cols, group),
                            lsi_matrix_block(a.cols, group), lsi_cuda_stream(stream), a);
}
