/* How a kernel says that its data are wrong (backend/cuda/cuda.h). The launcher gives it a site: the device's record, and
 * what to say about three numbers. */
#ifndef LSI_KERNELS_CUDA_FAULT_H
#define LSI_KERNELS_CUDA_FAULT_H

#include "kernels/cuda/kernel.h"

typedef struct lsi_fault_site {
    lsi_cuda_fault *record;
    const char *format;     /* host memory: passed through, never read here */
    int status;
} lsi_fault_site;

static inline lsi_fault_site lsi_fault_at(ls_stream *stream, ls_status status, const char *format)
{
    lsi_fault_site site = {lsi_cuda_faults(stream), format, (int)status};

    return site;
}

/* The first to come is the one that is reported. */
static __device__ __forceinline__ void lsi_fault_raise(const lsi_fault_site *site, int64_t first, int64_t second,
                                                       int64_t third)
{
    lsi_cuda_fault *record = site->record;

    if (atomicCAS(&record->claimed, 0u, 1u) != 0u) {
        return;
    }
    record->status = site->status;
    record->format = site->format;
    record->values[0] = first;
    record->values[1] = second;
    record->values[2] = third;
    __threadfence_system();
    atomicExch(&record->complete, 1u);
}

#endif
