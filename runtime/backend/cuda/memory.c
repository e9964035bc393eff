#include "backend/cuda/device.h"

#include "backend/cuda/error.h"
#include "backend/cuda/release.h"

ls_status lsi_cuda_memory_info(ls_device *device, size_t *free_bytes, size_t *total_bytes)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    LS_TRY(lsi_cuda_device_enter_for(d, "cannot read how much memory it has"));
    LSI_CUDA_TRY(d->ordinal, cudaMemGetInfo(free_bytes, total_bytes), "cannot read how much memory it has");
    return LS_OK;
}

/* Shared memory is device memory: any of it can be given to other processes by a handle. */
ls_status lsi_cuda_memory_alloc(ls_device *device, ls_memory kind, size_t bytes, void **out)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;
    size_t room = bytes > 0 ? bytes : 1, free_bytes = 0, total_bytes = 0;
    bool pinned = kind == LS_MEM_PINNED;
    void *pointer = NULL;

    LS_TRY(lsi_cuda_device_enter_for(d, "cannot allocate memory"));
    cudaError_t error = pinned ? cudaHostAlloc(&pointer, room, cudaHostAllocPortable | cudaHostAllocMapped)
                               : cudaMalloc(&pointer, room);
    if (error == cudaErrorMemoryAllocation && !pinned && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
        return LSI_CUDA_FAIL(error, d->ordinal, "cudaMalloc", "cannot allocate %zu bytes; %zu of %zu are free", bytes,
                             free_bytes, total_bytes);
    }
    if (error != cudaSuccess) {
        return LSI_CUDA_FAIL(error, d->ordinal, pinned ? "cudaHostAlloc" : "cudaMalloc",
                             "cannot allocate %zu bytes of %s memory", bytes, pinned ? "pinned" : "device");
    }
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
    (void)lsi_cuda_device_enter(d);
    if (kind == LS_MEM_PINNED) {
        lsi_cuda_release_forget(d, pointer, bytes);
        (void)cudaFreeHost(pointer);
    } else {
        (void)cudaFree(pointer);
    }
    d->n_blocks--;
    d->n_bytes -= bytes;
}
