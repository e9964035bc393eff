/* Sums down the rows of a matrix: a thread adds the LSI_COLUMN_ROWS rows of one part in order, for one access of columns;
 * a second kernel adds the parts in order. The sums of the parts lie in the stream's workspace; a matrix too large for it
 * is taken in slabs of columns. The rule is the cpu kernels' one. */
#ifndef LSI_KERNELS_CUDA_COLUMNS_H
#define LSI_KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

enum { LSI_COLUMN_ROWS = 64 };

/* Columns [first, first + count) of the matrix at work; parts[p * count + c] is the sum of part p. */
typedef struct lsi_slab {
    int64_t first, count, n_parts;
    float *parts;
} lsi_slab;

/* Columns of a slab when each needs n_sums sums per part. At least one access, or the op fails. */
extern "C" LS_MUST_USE ls_status lsi_cuda_columns_fit(const char *op, int64_t rows, int n_sums, int64_t *out);
/* out[slab.first + c] = (what is there +) the sum of the parts, in order. */
extern "C" LS_MUST_USE ls_status lsi_cuda_columns_fold(const char *op, cudaStream_t stream, lsi_slab slab, float *out,
                                                       int accumulate);

#endif
