#include "backend/cuda/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"

ls_status lsi_cuda_status(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_DEVICE;
}

ls_status lsi_cuda_fail_at(cudaError_t error, int gpu, const char *call, const char *file, int line, const char *what,
                           ...)
{
    ls_status status = lsi_cuda_status(error);
    char text[512], where[24] = "";
    va_list arguments;

    va_start(arguments, what);
    vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    if (gpu != LSI_CUDA_NO_GPU) {
        snprintf(where, sizeof where, "GPU %d: ", gpu);
    }
    ls_fail_at(status, file, line, "%s%s: %.*s: %s (%s)", where, text, (int)strcspn(call, "("), call,
               cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError();
    return status;
}

ls_status lsi_cuda_called(const char *op, const char *call, cudaError_t error)
{
    if (error == cudaSuccess) {
        return LS_OK;
    }
    ls_status status = LS_FAIL(lsi_cuda_status(error), "%s: %s: %s (%s)", op, call, cudaGetErrorString(error),
                               cudaGetErrorName(error));
    (void)cudaGetLastError();
    return status;
}

ls_status lsi_cuda_launched(const char *op, cudaError_t error)
{
    return lsi_cuda_called(op, "cudaLaunchKernel", error);
}
