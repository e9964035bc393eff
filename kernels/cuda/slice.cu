/* Parts of rows: columns taken out of a matrix, put back, and set side by side. Elements are moved as they are; only
 * sums need to know their type. */
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

/* One access from `from` to `to`, or `left` elements one by one. */
template <typename T> static __device__ __forceinline__ void move_group(T *to, const T *from, int64_t left)
{
    const int n = lsi_vector<T>();

    if (left >= n && lsi_is_aligned(to, 16) && lsi_is_aligned(from, 16)) {
        *(lsi_bytes16 *)(void *)to = *(const lsi_bytes16 *)(const void *)from;
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        if (i < left) {
            to[i] = from[i];
        }
    }
}

/* ---- slice --------------------------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ void slice_fwd(const lsi_slice_fwd_args &a)
{
    lsi_place p = lsi_matrix_place(a.count, lsi_vector<T>());

    if (p.row < a.rows && p.column < a.count) {
        move_group<T>((T *)a.y.data + p.row * a.count + p.column,
                      (const T *)a.x.data + p.row * a.pitch + a.first + p.column, a.count - p.column);
    }
}
LSI_KERNEL_TYPES(slice_fwd, (lsi_slice_fwd_args a), (a))

extern "C" ls_status lsi_cuda_slice_fwd(ls_stream *stream, const void *arguments)
{
    lsi_slice_fwd_args a = *(const lsi_slice_fwd_args *)arguments;
    int group = lsi_cuda_group(a.y.dtype);

    LSI_CHECK_TYPES("slice_fwd", &a.x, &a.y);
    if (a.rows == 0 || a.count == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("slice_fwd", slice_fwd, a.y.dtype, lsi_matrix_grid(a.rows, a.count, group),
                            lsi_matrix_block(a.count, group), lsi_cuda_stream(stream), a);
}

/* dx = dx + dy in the columns of the slice */
template <typename T> static __device__ __forceinline__ void slice_add(const lsi_slice_bwd_args &a)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(a.count, n);
    int64_t left = a.count - p.column;
    float v[n], w[n];

    if (p.row >= a.rows || left <= 0) {
        return;
    }
    T *dx = (T *)a.dx.data + p.row * a.pitch + a.first + p.column;
    lsi_read<T, n>(dx, left, v);
    lsi_read<T, n>((const T *)a.dy.data + p.row * a.count + p.column, left, w);
#pragma unroll
    for (int i = 0; i < n; i++) {
        v[i] += w[i];
    }
    lsi_write<T, n>(dx, left, v);
}
LSI_KERNEL_TYPES(slice_add, (lsi_slice_bwd_args a), (a))

/* dx = dy in the columns of the slice, 0 in the others */
template <typename T> static __device__ __forceinline__ void slice_fill(const lsi_slice_bwd_args &a)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(a.pitch, n);
    int64_t left = a.pitch - p.column, from = p.column - a.first;   /* of the first element, as a column of dy */

    if (p.row >= a.rows || left <= 0) {
        return;
    }
    T *dx = (T *)a.dx.data + p.row * a.pitch + p.column;
    const T *dy = (const T *)a.dy.data + p.row * a.count;
    if (from >= 0 && from + n <= a.count) {
        move_group<T>(dx, dy + from, left);
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        if (i < left && from + i >= 0 && from + i < a.count) {
            dx[i] = dy[from + i];
        } else if (i < left) {
            lsi_narrow(0.0f, &dx[i]);
        }
    }
}
LSI_KERNEL_TYPES(slice_fill, (lsi_slice_bwd_args a), (a))

extern "C" ls_status lsi_cuda_slice_bwd(ls_stream *stream, const void *arguments)
{
    lsi_slice_bwd_args a = *(const lsi_slice_bwd_args *)arguments;
    int64_t cols = a.accumulate ? a.count : a.pitch;
    int group = lsi_cuda_group(a.dx.dtype);

    LSI_CHECK_TYPES("slice_bwd", &a.dy, &a.dx);
    if (a.rows == 0 || cols == 0) {
        return LS_OK;
    }
    if (a.accumulate) {
        return LSI_LAUNCH_TYPES("slice_bwd", slice_add, a.dx.dtype, lsi_matrix_grid(a.rows, cols, group),
                                lsi_matrix_block(cols, group), lsi_cuda_stream(stream), a);
    }
    return LSI_LAUNCH_TYPES("slice_bwd", slice_fill, a.dx.dtype, lsi_matrix_grid(a.rows, cols, group),
                            lsi_matrix_block(cols, group), lsi_cuda_stream(stream), a);
}

/* ---- concat -------------------------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ void concat(const lsi_concat_args &args)
{
    const int n = lsi_vector<T>();
    int64_t cols = args.a_cols + args.b_cols;
    lsi_place p = lsi_matrix_place(cols, n);
    int64_t left = cols - p.column, behind = p.column - args.a_cols;    /* of the first element, as a column of b */

    if (p.row >= args.rows || left <= 0) {
        return;
    }
    T *y = (T *)args.y.data + p.row * cols + p.column;
    const T *a = (const T *)args.a.data + p.row * args.a_cols, *b = (const T *)args.b.data + p.row * args.b_cols;
    if (behind >= 0) {
        move_group<T>(y, b + behind, left);
    } else if (behind + n <= 0) {
        move_group<T>(y, a + p.column, left);
    } else {
#pragma unroll
        for (int i = 0; i < n; i++) {
            if (i < left) {
                y[i] = behind + i < 0 ? a[p.column + i] : b[behind + i];
            }
        }
    }
}
LSI_KERNEL_TYPES(concat, (lsi_concat_args a), (a))

extern "C" ls_status lsi_cuda_concat(ls_stream *stream, const void *arguments)
{
    lsi_concat_args a = *(const lsi_concat_args *)arguments;
    int64_t cols = a.a_cols + a.b_cols;
    int group = lsi_cuda_group(a.y.dtype);

    LSI_CHECK_TYPES("concat", &a.a, &a.b, &a.y);
    if (a.rows == 0 || cols == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("concat", concat, a.y.dtype, lsi_matrix_grid(a.rows, cols, group),
                            lsi_matrix_block(cols, group), lsi_cuda_stream(stream), a);
}
