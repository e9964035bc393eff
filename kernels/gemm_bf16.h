/* Products of bf16 matrices by oneDNN itself, through an entry that it exports but does not declare. */
#ifndef LSI_KERNELS_GEMM_BF16_H
#define LSI_KERNELS_GEMM_BF16_H

#include <stdbool.h>
#include <stdint.h>

/* The library has the entry, and the processor AVX512-BF16: without it the entry fails or is slower than f32. The same
 * answer for the life of the process. */
bool lsi_gemm_bf16_is_supported(void);
bool lsi_gemm_bf16_has_amx(void);

/* A row-major product on the calling thread: c[m,n] = op(a) op(b) + beta c, with bf16 a and b, f32 sums and c.
 * transpose_*: 'N' or 'T'; *_step: elements from one row to the next. Returns the library's status, 0 when done. */
typedef struct lsi_gemm_bf16_product {
    char transpose_a, transpose_b;
    int64_t m, n, k, a_step, b_step, c_step;
    const uint16_t *a, *b;
    float beta;
    float *c;
} lsi_gemm_bf16_product;
int lsi_gemm_bf16_multiply(const lsi_gemm_bf16_product *product);

#endif
