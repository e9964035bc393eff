/* What CUDA's error codes become: a status, and a message with the GPU, the call and CUDA's own words. */
#ifndef LSI_BACKEND_CUDA_ERROR_H
#define LSI_BACKEND_CUDA_ERROR_H

#include <cuda_runtime_api.h>

#include <lockstep/status.h>

/* Of `gpu` where no GPU is chosen yet. */
enum { LSI_CUDA_NO_GPU = -1 };

/* LS_ERR_MEMORY when memory is what is missing, else LS_ERR_DEVICE. */
ls_status lsi_cuda_status(cudaError_t error);

/* Records "GPU <gpu>: <what>: <call>: <CUDA's text> (<its name>)" on this thread and gives the status. Of `call`, which
 * may be the source text of one, only the name is told. Forgets the runtime's own record of the error, which would
 * otherwise be taken for that of a later launch. */
ls_status lsi_cuda_fail_at(cudaError_t error, int gpu, const char *call, const char *file, int line, const char *what,
                           ...) __attribute__((cold, format(printf, 6, 7)));

#define LSI_CUDA_FAIL(error, gpu, call, ...) lsi_cuda_fail_at((error), (gpu), (call), __FILE__, __LINE__, __VA_ARGS__)

/* expression: one call of CUDA's. */
#define LSI_CUDA_TRY(gpu, expression, ...)                                                                             \
    do {                                                                                                               \
        cudaError_t lsi_cuda_try_error_ = (expression);                                                                \
        if (lsi_cuda_try_error_ != cudaSuccess) {                                                                      \
            return LSI_CUDA_FAIL(lsi_cuda_try_error_, (gpu), #expression, __VA_ARGS__);                                \
        }                                                                                                              \
    } while (0)

#endif
