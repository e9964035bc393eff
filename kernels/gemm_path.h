/* Which way bf16 factors take through a matrix product on the CPU. The two ways differ in bits (the library takes
 * subnormal factors for zero and sums in another order), so the path belongs in the numeric fingerprint. */
#ifndef LSI_KERNELS_GEMM_PATH_H
#define LSI_KERNELS_GEMM_PATH_H

#include <stdbool.h>

/* Whether the library multiplies them as they are; else they are widened to f32. Follows from library and processor. */
bool lsi_gemm_bf16_is_native(void);

#endif
