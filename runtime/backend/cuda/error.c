#include "backend/cuda/error.h"

#include <stdarg.h>
#include <stdio.h>

ls_status lsi_cuda_status(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_DEVICE;
}

ls_status lsi_cuda_fail_at(cudaError_t error, const char *file, int line, const char *what, ...)
{
    ls_status status = lsi_cuda_status(error);
    char text[512];
    va_list arguments;

    va_start(arguments, what);
    vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    ls_fail_at(status, file, line, "%s: %s (%s)", text, cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError();
    return status;
}
