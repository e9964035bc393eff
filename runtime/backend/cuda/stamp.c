#include "backend/cuda/stamp.h"

#include <string.h>

#include "backend/cuda/error.h"
#include "backend/cuda/stream.h"

enum { RING_BYTES = LS_STAMP_RING * sizeof(ls_stamp) };

ls_status lsi_cuda_stamp_open(lsi_cuda_device *device)
{
    LSI_CUDA_TRY(device->ordinal,
                 cudaHostAlloc((void **)&device->stamps, RING_BYTES, cudaHostAllocPortable | cudaHostAllocMapped),
                 "cannot allocate the ring of time stamps");
    memset(device->stamps, 0, RING_BYTES);
    LSI_CUDA_TRY(device->ordinal, cudaMalloc((void **)&device->stamp_counter, sizeof *device->stamp_counter),
                 "cannot allocate the counter of time stamps");
    LSI_CUDA_TRY(device->ordinal, cudaMemset(device->stamp_counter, 0, sizeof *device->stamp_counter),
                 "cannot clear the counter of time stamps");
    LSI_CUDA_TRY(device->ordinal, cudaDeviceSynchronize(), "cannot use it");
    return LS_OK;
}

void lsi_cuda_stamp_close(lsi_cuda_device *device)
{
    if (device->stamp_counter != NULL) {
        (void)cudaFree(device->stamp_counter);
    }
    if (device->stamps != NULL) {
        (void)cudaFreeHost(device->stamps);
    }
}

ls_status lsi_cuda_stamp(ls_stream *stream, uint32_t id)
{
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;
    bool skip;

    LS_TRY(lsi_cuda_stream_begin(stream, &skip));
    if (skip) {
        return LS_OK;
    }
    return lsi_cuda_stream_end(
        stream,
        lsi_cuda_stamp_launch(((lsi_cuda_queue *)stream)->cuda, (unsigned long long *)d->stamp_counter, d->stamps, id),
        "cudaLaunchKernel", "a time stamp");
}

const ls_stamp *lsi_cuda_stamps(ls_device *device)
{
    return ((lsi_cuda_device *)device)->stamps;
}

/* The counter is where the host cannot read it, so the ring itself tells: from the newest one found so far on, for as
 * long as the next place holds a later one. A lap or more ahead is found as well, by what stands in the same place. */
uint64_t lsi_cuda_stamp_count(ls_device *device)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;
    uint64_t seen = __atomic_load_n(&d->stamps_seen, __ATOMIC_RELAXED);

    for (;;) {
        uint64_t next = __atomic_load_n(&d->stamps[(seen + 1) % LS_STAMP_RING].sequence, __ATOMIC_ACQUIRE);

        if (next <= seen) {
            break;
        }
        seen = next;
    }
    __atomic_store_n(&d->stamps_seen, seen, __ATOMIC_RELAXED); /* a lesser one of another thread costs a few steps */
    return seen;
}
