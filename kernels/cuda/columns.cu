/* The second half of sums down the rows: the parts, added in order. */
#include "kernels/cuda/columns.h"

extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_columns_fold(lsi_slab s, float *out, int accumulate)
{
    int64_t column = lsi_thread();
    float sum = 0.0f;

    if (column >= s.count) {
        return;
    }
#pragma unroll 8
    for (int64_t p = 0; p < s.n_parts; p++) {
        sum += s.parts[p * s.count + column];
    }
    out[s.first + column] = accumulate ? out[s.first + column] + sum : sum;
}

extern "C" ls_status lsi_cuda_columns_fit(const char *op, int64_t rows, int n_sums, int64_t *out)
{
    int64_t parts = lsi_cuda_blocks(rows, LSI_COLUMN_ROWS);
    int64_t fit = LSI_CUDA_WORKSPACE_BYTES / (int64_t)sizeof(float) / n_sums / (parts > 0 ? parts : 1);

    *out = fit / LSI_GROUP * LSI_GROUP;     /* so that slabs begin where an access does */
    LS_REQUIRE(*out > 0, LS_ERR_INTERNAL, "%s: %lld rows are more than the workspace has room for", op,
               (long long)rows);
    return LS_OK;
}

extern "C" ls_status lsi_cuda_columns_fold(const char *op, cudaStream_t stream, lsi_slab slab, float *out,
                                           int accumulate)
{
    return lsi_cuda_launched(op, LAUNCH(lsi_columns_fold, lsi_cuda_grid(slab.count, LSI_THREADS), LSI_THREADS, 0,
                                        stream, slab, out, accumulate));
}
