/* The kernel behind stamps (kernels/cuda/stamp.cu), linked into this folder's library. */
#ifndef LSI_BACKEND_CUDA_STAMP_H
#define LSI_BACKEND_CUDA_STAMP_H

#include <cuda_runtime_api.h>

#include <lockstep/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues one thread that counts *counter (device memory) up and writes that sequence, the id and the GPU's clock to the
 * ring in pinned memory, the sequence last. */
cudaError_t lsi_cuda_stamp_launch(cudaStream_t stream, unsigned long long *counter, ls_stamp *ring, uint32_t id);

/* Whether the build's kernels run on the current GPU. */
cudaError_t lsi_cuda_kernels_check(void);

#ifdef __cplusplus
}
#endif
#endif
