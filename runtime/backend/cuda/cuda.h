/* What the cuda backend gives to the launchers of kernels, besides the execution contract. */
#ifndef LSI_BACKEND_CUDA_CUDA_H
#define LSI_BACKEND_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include <lockstep/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The CUDA stream of a stream of this backend; captured or not. */
static inline cudaStream_t lsi_cuda_stream(ls_stream *stream)
{
    return ls_cuda_stream(stream);
}

/* Scratch memory of the stream, for one op at a time: what the stream runs next may overwrite it. An op whose scratch
 * grows with its size works in pieces that fit. 256-byte aligned, the same at every call, so that it can be captured. */
enum { LSI_CUDA_WORKSPACE_BYTES = 32 << 20 };
void *lsi_cuda_workspace(ls_stream *stream);

/* What a call of CUDA's came to that an op made: LS_OK, or the failure "<op>: <call>: <CUDA's text> (<its name>)", which
 * is one of memory when that is missing. Who runs the op adds the GPU and the stream. */
LS_MUST_USE ls_status lsi_cuda_called(const char *op, const char *call, cudaError_t error);
/* The same for a kernel's launch. */
LS_MUST_USE ls_status lsi_cuda_launched(const char *op, cudaError_t error);

/* What a kernel found wrong with its data: the host cannot look at it before the launch, as the cpu kernels do. One
 * record per device in pinned memory, zero at first. The kernel that claims it first fills it in; all of them go on
 * with something harmless, and the next sync of the device fails with the message (lsi_cuda_fault_take). */
enum { LSI_CUDA_FAULT_VALUES = 3 };
typedef struct lsi_cuda_fault {
    unsigned claimed;               /* 1: some thread has found something */
    unsigned complete;              /* 1: the rest is written */
    int status;                     /* an ls_status */
    const char *format;             /* host memory, printf's, with LSI_CUDA_FAULT_VALUES times %lld */
    long long values[LSI_CUDA_FAULT_VALUES];
} lsi_cuda_fault;

lsi_cuda_fault *lsi_cuda_faults(ls_stream *stream);

/* For the backend, once the device is known to have passed the point in question. */
LS_MUST_USE static inline ls_status lsi_cuda_fault_take(const lsi_cuda_fault *fault)
{
    ls_status status = (ls_status)fault->status;

    if (!fault->complete) {
        return LS_OK;
    }
    ls_fail_at(status, __FILE__, __LINE__, fault->format, fault->values[0], fault->values[1], fault->values[2]);
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
