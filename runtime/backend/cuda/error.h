/* What CUDA's error codes become: a status, and a message with CUDA's own words. */
#ifndef LSI_BACKEND_CUDA_ERROR_H
#define LSI_BACKEND_CUDA_ERROR_H

#include <cuda_runtime_api.h>

#include <lockstep/status.h>

/* LS_ERR_MEMORY when memory is what is missing, else LS_ERR_DEVICE. */
ls_status lsi_cuda_status(cudaError_t error);

/* Records "<what>: <CUDA's text> (<CUDA's name>)" on this thread and gives the status. Forgets the runtime's own record
 * of the error, which would otherwise be taken for that of a later launch. */
ls_status lsi_cuda_fail_at(cudaError_t error, const char *file, int line, const char *what, ...)
    __attribute__((cold, format(printf, 4, 5)));

#define LSI_CUDA_FAIL(error, ...) lsi_cuda_fail_at((error), __FILE__, __LINE__, __VA_ARGS__)

#define LSI_CUDA_TRY(expression, ...)                                                                                  \
    do {                                                                                                               \
        cudaError_t lsi_cuda_try_error_ = (expression);                                                                \
        if (lsi_cuda_try_error_ != cudaSuccess) {                                                                      \
            return LSI_CUDA_FAIL(lsi_cuda_try_error_, __VA_ARGS__);                                                    \
        }                                                                                                              \
    } while (0)

#endif
