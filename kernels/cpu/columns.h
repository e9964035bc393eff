/* Sums down the rows of a matrix: partial sums of LSI_COLUMN_ROWS rows are added in order. Two ways with the same bits:
 *
 * - one block of work for each part makes its sums of all columns, which lie on the caller's stack if there are no more
 *   than LSI_COLUMN_PARTS; then blocks for ranges of columns combine them. Rows are read from end to end.
 * - one block of work owns a range of columns and goes through all rows: no memory, but short pieces of rows far apart,
 *   which memory is slow at. */
#ifndef LSI_KERNELS_CPU_COLUMNS_H
#define LSI_KERNELS_CPU_COLUMNS_H

#include <stdint.h>

enum { LSI_COLUMNS = 128, LSI_COLUMN_ROWS = 64, LSI_COLUMN_PARTS = 1 << 19 };

static inline void lsi_columns_add(float *restrict sum, const float *restrict part, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        sum[i] += part[i];
    }
}

static inline void lsi_columns_store(float *restrict out, const float *restrict sum, int64_t n, int accumulate)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = accumulate ? out[i] + sum[i] : sum[i];
    }
}

#endif
