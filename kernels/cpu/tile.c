/* Register blocking in plain C: a micro tile of constant size stays in vector registers over the whole of k. */
#include "kernels/cpu/tile.h"

#include "kernels/math.h"

/* COLUMNS is as many vectors as the registers hold beside ROWS broadcasts: 24 of 32, 12 of 16. */
#if defined(__AVX512F__)
enum { ROWS = 6, COLUMNS = 64 };
#elif defined(__AVX__)
enum { ROWS = 6, COLUMNS = 16 };
#else
enum { ROWS = 6, COLUMNS = 8 };
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* `rows` and `columns` are constants at every call, so that the sums become registers. */
ALWAYS_INLINE void multiply_micro(const int rows, const int columns, int64_t k, lsi_tile a, const float *b,
                                  int64_t b_step, float *c, int64_t c_step, int accumulate)
{
    float sum[ROWS][COLUMNS];

    for (int r = 0; r < rows; r++) {
#pragma omp simd
        for (int l = 0; l < columns; l++) {
            sum[r][l] = accumulate ? c[r * c_step + l] : 0.0f;
        }
    }
    for (int64_t p = 0; p < k; p++) {
        for (int r = 0; r < rows; r++) {
            float factor = a.data[r * a.row_step + p * a.column_step];

#pragma omp simd
            for (int l = 0; l < columns; l++) {
                sum[r][l] = lsi_fma(factor, b[p * b_step + l], sum[r][l]);
            }
        }
    }
    for (int r = 0; r < rows; r++) {
#pragma omp simd
        for (int l = 0; l < columns; l++) {
            c[r * c_step + l] = sum[r][l];
        }
    }
}

/* All rows of `columns` columns. */
ALWAYS_INLINE void multiply_columns(const int columns, int64_t m, int64_t k, lsi_tile a, const float *b,
                                    int64_t b_step, float *c, int64_t c_step, int accumulate)
{
    int64_t i = 0;

    for (; i + ROWS <= m; i += ROWS) {
        multiply_micro(ROWS, columns, k, a, b, b_step, c + i * c_step, c_step, accumulate);
        a.data += ROWS * a.row_step;
    }
    for (; i + 2 <= m; i += 2) {
        multiply_micro(2, columns, k, a, b, b_step, c + i * c_step, c_step, accumulate);
        a.data += 2 * a.row_step;
    }
    for (; i < m; i++) {
        multiply_micro(1, columns, k, a, b, b_step, c + i * c_step, c_step, accumulate);
        a.data += a.row_step;
    }
}

void LSI_CPU_NAME(tile_multiply)(int64_t m, int64_t n, int64_t k, lsi_tile a, const float *b, int64_t b_step, float *c,
                                 int64_t c_step, int accumulate)
{
    int64_t j = 0;

    for (; j + COLUMNS <= n; j += COLUMNS) {
        multiply_columns(COLUMNS, m, k, a, b + j, b_step, c + j, c_step, accumulate);
    }
    for (; j + COLUMNS / 2 <= n; j += COLUMNS / 2) {
        multiply_columns(COLUMNS / 2, m, k, a, b + j, b_step, c + j, c_step, accumulate);
    }
    for (; j + COLUMNS / 4 <= n; j += COLUMNS / 4) {
        multiply_columns(COLUMNS / 4, m, k, a, b + j, b_step, c + j, c_step, accumulate);
    }
    for (; j < n; j++) {
        multiply_columns(1, m, k, a, b + j, b_step, c + j, c_step, accumulate);
    }
}
