/* Sums down the rows of a matrix, without scratch memory: one block of work owns some columns and goes through all
 * rows, LSI_COLUMN_ROWS at a time, whose partial sums are added in order. */
#ifndef LSI_KERNELS_CPU_COLUMNS_H
#define LSI_KERNELS_CPU_COLUMNS_H

#include <stdint.h>

enum { LSI_COLUMNS = 128, LSI_COLUMN_ROWS = 64 };

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
