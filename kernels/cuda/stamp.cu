/* Time stamps: see backend/cuda/stamp.h. */
#include "kernels/cuda/mma.h"

#include "backend/cuda/stamp.h"

/* Streams stamp at the same time, so the sequence is counted here, where stamps execute. A reader that finds it in the
 * ring finds the rest, too. */
extern "C" __global__ void lsi_stamp(unsigned long long *counter, ls_stamp *ring, uint32_t id)
{
    unsigned long long sequence = atomicAdd(counter, 1ull) + 1;
    volatile ls_stamp *stamp = &ring[sequence % LS_STAMP_RING];

    stamp->id = id;
    stamp->nanoseconds = global_timer_ns();
    __threadfence_system();
    stamp->sequence = sequence;
}

extern "C" cudaError_t lsi_cuda_stamp_launch(cudaStream_t stream, unsigned long long *counter, ls_stamp *ring,
                                             uint32_t id)
{
    return (cudaError_t)LAUNCH(lsi_stamp, 1, 1, 0, stream, counter, ring, id);
}

extern "C" cudaError_t lsi_cuda_kernels_check(void)
{
    cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, (const void *)lsi_stamp);
}
