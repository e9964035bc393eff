/* Sums of squares per block, in double: what the gradient norm and the non-finite check are made of. A block of threads
 * does one block of gradients. */
#include "kernels/commit.h"
#include "kernels/cuda/row.h"

enum { PER_THREAD = 4 };    /* elements of one access */

/* A square of an f32 is exact in double and cannot overflow there, so that the sum is non-finite exactly when an element
 * is. */
extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_block_norms_f32(lsi_block_norms_args a)
{
    __shared__ double slot[LSI_ROW_WARPS];
    __shared__ int first_bad;
    const float *g = (const float *)a.g.data + (int64_t)blockIdx.x * LSI_BLOCK;
    int64_t n = lsi_least(LSI_BLOCK, a.g.count - (int64_t)blockIdx.x * LSI_BLOCK);
    lsi_row all = {0, 0, 0, LSI_THREADS};
    double sum = 0.0;

    if (threadIdx.x == 0) {
        first_bad = LSI_BLOCK;
    }
#pragma unroll 4
    for (int64_t at = threadIdx.x * PER_THREAD; at < n; at += LSI_THREADS * PER_THREAD) {
        float v[PER_THREAD];

        lsi_read<float, PER_THREAD>(g + at, n - at, v);
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            sum += (double)v[i] * (double)v[i];
        }
    }
    sum = lsi_row_sum(&all, sum, slot);
    if (isfinite(sum)) {
        if (threadIdx.x == 0) {
            ((double *)a.sums.data)[blockIdx.x] = sum;
        }
        return;     /* the whole block does */
    }
    for (int64_t at = threadIdx.x; at < n; at += LSI_THREADS) {
        if (!isfinite(g[at])) {
            atomicMin(&first_bad, (int)at);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ((double *)a.sums.data)[blockIdx.x] = lsi_bad_sum(first_bad);
    }
}

extern "C" ls_status lsi_cuda_block_norms(ls_stream *stream, const void *arguments)
{
    lsi_block_norms_args a = *(const lsi_block_norms_args *)arguments;
    int64_t n_blocks = lsi_cuda_blocks(a.g.count, LSI_BLOCK);

    LS_REQUIRE(a.sums.count == n_blocks, LS_ERR_INTERNAL, "block_norms: %lld sums for %lld blocks",
               (long long)a.sums.count, (long long)n_blocks);
    LS_REQUIRE(a.g.dtype == LS_F32 || n_blocks == 0, LS_ERR_INTERNAL, "block_norms: gradients are %s; choices: f32",
               ls_dtype_name(a.g.dtype));
    if (n_blocks == 0) {
        return LS_OK;
    }
    return lsi_cuda_launched("block_norms", LAUNCH(lsi_block_norms_f32, (unsigned)n_blocks, LSI_THREADS, 0,
                                                   lsi_cuda_stream(stream), a));
}
