/* What the machine offers: whether there is a driver and a GPU for this build, and the driver's stream memory
 * operations, which the runtime has no calls for. Nothing here makes a context on a GPU. */
#ifndef LSI_BACKEND_CUDA_DRIVER_H
#define LSI_BACKEND_CUDA_DRIVER_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <lockstep/status.h>

/* Number of GPUs this process sees. ERR_DEVICE says why there is none: driver missing, too old, no GPU, all hidden. */
LS_MUST_USE ls_status lsi_cuda_driver_count(int *out);

/* Signature of cuStreamWriteValue32 and cuStreamWaitValue32. */
typedef CUresult(CUDAAPI *lsi_cuda_stream_value_fn)(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                                    unsigned int flags);

typedef struct lsi_cuda_driver {
    lsi_cuda_stream_value_fn write_value, wait_value;
} lsi_cuda_driver;

/* Through the runtime, so that no program links the driver: it starts on machines that have none. gpu: for messages. */
LS_MUST_USE ls_status lsi_cuda_driver_load(int gpu, lsi_cuda_driver *out);

#endif
