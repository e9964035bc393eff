#include "kernels/attention_path.h"

#ifdef LOCKSTEP_HAVE_CUDA

#include "backend/cuda/extension.h"
#include "backend/registry.h"
#include "kernels/cuda/attention.h"

const char *lsi_attention_path_text(ls_device *device, ls_dtype dtype)
{
    return device->backend == &lsi_cuda_backend ? lsi_cuda_attention_path(lsi_cuda_capability(device), dtype) : NULL;
}

#else

const char *lsi_attention_path_text(ls_device *device, ls_dtype dtype)
{
    (void)device, (void)dtype;
    return NULL;
}

#endif
