/* Token and position embedding, forward, and the gradient of the positions. */
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/vector.h"

/* ---- forward ------------------------------------------------------------------------------------------------- */

template <typename T>
static __device__ __forceinline__ void embedding_fwd(const lsi_embedding_fwd_args &a, const lsi_fault_site &fault)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(a.width, n);
    int64_t left = a.width - p.column, rows = a.wte.count / a.width;
    float v[n], w[n];

    if (p.row >= a.samples * a.context || left <= 0) {
        return;
    }
    int64_t token = ((const int32_t *)a.tokens.data)[p.row];
    if (token < 0 || token >= rows) {
        lsi_fault_raise(&fault, token, p.row, rows);
        return;
    }
    lsi_read<T, n>((const T *)a.wte.data + token * a.width + p.column, left, v);
    lsi_read<T, n>((const T *)a.wpe.data + p.row % a.context * a.width + p.column, left, w);
#pragma unroll
    for (int i = 0; i < n; i++) {
        v[i] += w[i];
    }
    lsi_write<T, n>((T *)a.y.data + p.row * a.width + p.column, left, v);
}
LSI_KERNEL_TYPES(embedding_fwd, (lsi_embedding_fwd_args a, lsi_fault_site fault), (a, fault))

extern "C" ls_status lsi_cuda_embedding_fwd(ls_stream *stream, const void *arguments)
{
    lsi_embedding_fwd_args a = *(const lsi_embedding_fwd_args *)arguments;
    int64_t n = a.samples * a.context;
    int group = lsi_cuda_group(a.y.dtype);
    lsi_fault_site fault = lsi_fault_at(
        stream, LS_ERR_DATA, "token %lld at position %lld of the micro-batch is outside of the embedding's %lld rows");

    LSI_CHECK_TYPES("embedding_fwd", &a.wte, &a.wpe, &a.y);
    if (n == 0 || a.width == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("embedding_fwd", embedding_fwd, a.y.dtype, lsi_matrix_grid(n, a.width, group),
                            lsi_matrix_block(a.width, group), lsi_cuda_stream(stream), a, fault);
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

/* dwpe: over the samples in order */
template <typename T> static __device__ __forceinline__ void embedding_positions(const lsi_embedding_bwd_args &a)
{
    const int n = lsi_vector<T>();
    int64_t count = a.context * a.width, at = lsi_thread() * n, left = count - at;
    float *dwpe = (float *)a.dwpe.data + at, sum[n];

    if (left <= 0) {
        return;
    }
    if (a.accumulate_wpe) {
        lsi_read<float, n>(dwpe, left, sum);
    } else {
#pragma unroll
        for (int i = 0; i < n; i++) {
            sum[i] = 0.0f;
        }
    }
#pragma unroll 4
    for (int64_t s = 0; s < a.samples; s++) {
        float v[n];

        lsi_read<T, n>((const T *)a.dy.data + s * count + at, left, v);
#pragma unroll
        for (int i = 0; i < n; i++) {
            sum[i] += v[i];
        }
    }
    lsi_write<float, n>(dwpe, left, sum);
}
LSI_KERNEL_TYPES(embedding_positions, (lsi_embedding_bwd_args a), (a))

extern "C" ls_status lsi_cuda_embedding_bwd(ls_stream *stream, const void *arguments)
{
    lsi_embedding_bwd_args a = *(const lsi_embedding_bwd_args *)arguments;
    int64_t count = a.context * a.width;

    LSI_CHECK_TYPES("embedding_bwd", &a.dy);
    LS_TRY(lsi_cuda_embedding_tokens(stream, &a));
    if (count == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("embedding_bwd", embedding_positions, a.dy.dtype,
                            lsi_cuda_grid(count, (int64_t)LSI_THREADS * lsi_cuda_group(a.dy.dtype)), LSI_THREADS,
                            lsi_cuda_stream(stream), a);
}
