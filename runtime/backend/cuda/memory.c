#include "backend/cuda/device.h"

#include "backend/cuda/error.h"
#include "backend/cuda/release.h"

ls_status lsi_cuda_memory_info(ls_device *device, size_t *free_bytes, size_t *total_bytes)
{
    lsi_cuda_device_enter((lsi_cuda_device *)device);
    LSI_CUDA_TRY(cudaMemGetInfo(free_bytes, total_bytes), "cannot read how much memory the GPU has");
    return LS_OK;
}

/* Shared memory is device memory: any of it can be given to other processes by a handle. */
ls_status lsi_cuda_memory_alloc(ls_device *device, ls_memory kind, size_t bytes, void **out)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;
    size_t room = bytes > 0 ? bytes : 1, free_bytes = 0, total_bytes = 0;
    void *pointer = NULL;

    lsi_cuda_device_enter(d);
    cudaError_t error = kind == LS_MEM_PINNED
                            ? cudaHostAlloc(&pointer, room, cudaHostAllocPortable | cudaHostAllocMapped)
                            : cudaMalloc(&pointer, room);
    if (error == cudaErrorMemoryAllocation && kind != LS_MEM_PINNED &&
        cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
        return LSI_CUDA_FAIL(error, "cannot allocate %zu bytes on GPU %d, which has %zu of %zu free", bytes, d->ordinal,
                             free_bytes, total_bytes);
    }
    LSI_CUDA_TRY(error, "cannot allocate %zu bytes of %s memory", bytes, kind == LS_MEM_PINNED ? "pinned" : "device");
    d->n_blocks++;
    d->n_bytes += bytes;
    *out = pointer;
    return LS_OK;
}

void lsi_cuda_memory_release(ls_device *device, ls_memory kind, size_t bytes, void *pointer)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    if (pointer == NULL) {
        return;
    }
    lsi_cuda_device_enter(d);
    if (kind == LS_MEM_PINNED) {
        lsi_cuda_release_forget(d, pointer, bytes);
        (void)cudaFreeHost(pointer);
    } else {
        (void)cudaFree(pointer);
    }
    d->n_blocks--;
    d->n_bytes -= bytes;
}
