#include "backend/cuda/driver.h"

#include <stdlib.h>

#include "backend/cuda/error.h"

/* ---- is there a GPU ----------------------------------------------------------------------------------------- */

static ls_status explain_driver(void)
{
    int driver = 0;

    (void)cudaDriverGetVersion(&driver); /* 0 without a driver */
    (void)cudaGetLastError();
    if (driver == 0) {
        return LS_FAIL(LS_ERR_DEVICE, "no NVIDIA driver on this machine");
    }
    return LS_FAIL(LS_ERR_DEVICE, "the NVIDIA driver is too old: it runs CUDA up to %d.%d, this build needs %d.%d",
                   driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

static ls_status explain_no_device(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (visible == NULL) {
        return LS_FAIL(LS_ERR_DEVICE, "no GPU on this machine");
    }
    return LS_FAIL(LS_ERR_DEVICE, "no GPU is visible: CUDA_VISIBLE_DEVICES = '%s' hides all there are", visible);
}

ls_status lsi_cuda_driver_count(int *out)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    switch (error) {
    case cudaSuccess:
        break;
    case cudaErrorInsufficientDriver:
        return explain_driver();
    case cudaErrorNoDevice:
        (void)cudaGetLastError();
        return explain_no_device();
    default:
        return LSI_CUDA_FAIL(error, LSI_CUDA_NO_GPU, "cudaGetDeviceCount", "cannot count the GPUs");
    }
    if (count == 0) {
        return explain_no_device();
    }
    *out = count;
    return LS_OK;
}

/* ---- stream memory operations ------------------------------------------------------------------------------- */

/* The interface that CUDA 11.7 gave them: open to every process, without a module parameter of the driver. */
enum { STREAM_VALUES_VERSION = 11070 };

static ls_status entry_point(int gpu, const char *name, lsi_cuda_stream_value_fn *out)
{
    void *found = NULL;

#if CUDART_VERSION >= 12050
    LSI_CUDA_TRY(gpu, cudaGetDriverEntryPointByVersion(name, &found, STREAM_VALUES_VERSION, cudaEnableDefault, NULL),
                 "the driver's %s", name);
#elif CUDART_VERSION >= 12000
    LSI_CUDA_TRY(gpu, cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, NULL), "the driver's %s", name);
#else
    LSI_CUDA_TRY(gpu, cudaGetDriverEntryPoint(name, &found, cudaEnableDefault), "the driver's %s", name);
#endif
    LS_REQUIRE(found != NULL, LS_ERR_DEVICE, "GPU %d: the NVIDIA driver has no %s", gpu, name);
    *(void **)out = found;
    return LS_OK;
}

ls_status lsi_cuda_driver_load(int gpu, lsi_cuda_driver *out)
{
    LS_TRY(entry_point(gpu, "cuStreamWriteValue32", &out->write_value));
    return entry_point(gpu, "cuStreamWaitValue32", &out->wait_value);
}
