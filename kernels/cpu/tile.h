/* Small matrix products on one thread: the tiles of attention, where a library call costs more than the product. */
#ifndef LSI_KERNELS_CPU_TILE_H
#define LSI_KERNELS_CPU_TILE_H

#include "kernels/cpu/kernel.h"

/* A matrix whose element (row, column) is data[row * row_step + column * column_step]; swap the steps to transpose. */
typedef struct lsi_tile {
    const float *data;
    int64_t row_step, column_step;
} lsi_tile;

/* c[m,n] = a[m,k] b[k,n], added to c when `accumulate`. Rows of b and c are contiguous, b_step and c_step apart. Every
 * element is one chain over k in ascending order: its bits depend neither on the sizes nor on the blocking. */
void LSI_CPU_NAME(tile_multiply)(int64_t m, int64_t n, int64_t k, lsi_tile a, const float *b, int64_t b_step, float *c,
                                 int64_t c_step, int accumulate);

#endif
