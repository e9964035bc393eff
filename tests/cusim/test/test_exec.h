#ifndef CUSIM_TEST_EXEC_H
#define CUSIM_TEST_EXEC_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t test_warp(float *out, cudaStream_t stream); /* [16][32] */
cudaError_t test_atomic(int *ints, unsigned *words, float *floats, unsigned long long *longs, cudaStream_t stream);
cudaError_t test_types(float *out, cudaStream_t stream); /* [64][8] */
/* which: bf16 in steps of 16, f16 of 16, f16 of 8. d [16][8], a [16][k], b [8][k]. */
cudaError_t test_tile(int which, float *d, const void *a, const void *b, int k, cudaStream_t stream);
cudaError_t test_transpose(float *out, cudaStream_t stream); /* [32][4] */
cudaError_t test_index(float *out, int gx, int gy, int gz, int bx, int by, int bz, cudaStream_t stream);
cudaError_t test_fault(int which, cudaStream_t stream); /* 1: traps */

#ifdef __cplusplus
}
#endif
#endif
