/* Which elements a thread of an optimizer updates. */
#ifndef LSI_KERNELS_CUDA_OPTIMIZER_H
#define LSI_KERNELS_CUDA_OPTIMIZER_H

#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

enum {
    LSI_UPDATE_GROUP = 4,       /* weights of one access */
    LSI_UPDATE_ROUNDS = 4,      /* accesses of a thread */
    LSI_UPDATE_BLOCK = LSI_THREADS * LSI_UPDATE_GROUP * LSI_UPDATE_ROUNDS
};

/* Where round k of this thread begins. */
static __device__ __forceinline__ int64_t lsi_update_at(int k)
{
    return (int64_t)blockIdx.x * LSI_UPDATE_BLOCK + ((int64_t)k * LSI_THREADS + threadIdx.x) * LSI_UPDATE_GROUP;
}

#endif
