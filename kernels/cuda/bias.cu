/* Gradient of a bias: sums of columns. */
#include "kernels/cuda/columns.h"

template <typename T> static __device__ __forceinline__ void bias_parts(const lsi_bias_bwd_args &a, const lsi_slab &s)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(s.count, n);     /* row: the part */
    int64_t left = s.count - p.column, last = lsi_least((p.row + 1) * LSI_COLUMN_ROWS, a.rows);
    const T *dy = (const T *)a.dy.data + s.first + p.column;
    float sum[n];

    if (p.row >= s.n_parts || left <= 0) {
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        sum[i] = 0.0f;
    }
#pragma unroll 4
    for (int64_t row = p.row * LSI_COLUMN_ROWS; row < last; row++) {
        float v[n];

        lsi_read<T, n>(dy + row * a.cols, left, v);
#pragma unroll
        for (int i = 0; i < n; i++) {
            sum[i] += v[i];
        }
    }
    lsi_write<float, n>(s.parts + p.row * s.count + p.column, left, sum);
}
LSI_KERNEL_TYPES(bias_parts, (lsi_bias_bwd_args a, lsi_slab s), (a, s))

extern "C" ls_status lsi_cuda_bias_bwd(ls_stream *stream, const void *arguments)
{
    lsi_bias_bwd_args a = *(const lsi_bias_bwd_args *)arguments;
    int group = lsi_cuda_group(a.dy.dtype);
    lsi_slab s = {0, 0, lsi_cuda_blocks(a.rows, LSI_COLUMN_ROWS), (float *)lsi_cuda_workspace(stream)};
    int64_t fit;

    LSI_CHECK_TYPES("bias_bwd", &a.dy);
    LS_TRY(lsi_cuda_columns_fit("bias_bwd", a.rows, 1, &fit));
    for (; s.first < a.cols; s.first += s.count) {
        s.count = fit < a.cols - s.first ? fit : a.cols - s.first;
        if (s.n_parts > 0) {
            LS_TRY(LSI_LAUNCH_TYPES("bias_bwd", bias_parts, a.dy.dtype, lsi_matrix_grid(s.n_parts, s.count, group),
                                    lsi_matrix_block(s.count, group), lsi_cuda_stream(stream), a, s));
        }
        LS_TRY(lsi_cuda_columns_fold("bias_bwd", lsi_cuda_stream(stream), s, (float *)a.db.data, a.accumulate));
    }
    return LS_OK;
}
