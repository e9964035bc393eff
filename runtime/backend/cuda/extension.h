/* What code above the backend keeps for the life of a device: plans of matrix products, a communicator's handles. */
#ifndef LSI_BACKEND_CUDA_EXTENSION_H
#define LSI_BACKEND_CUDA_EXTENSION_H

#include <lockstep/backend.h>

/* Embedded first in what is kept. `key` is the address of something of the owner's. */
typedef struct lsi_cuda_extension {
    const void *key;
    void (*destroy)(struct lsi_cuda_extension *extension); /* when the device closes, its GPU being current */
    struct lsi_cuda_extension *next;
} lsi_cuda_extension;

/* NULL when nothing is kept under the key. */
lsi_cuda_extension *lsi_cuda_extension_find(ls_device *device, const void *key);
void lsi_cuda_extension_keep(ls_device *device, lsi_cuda_extension *extension);

/* How the device was opened, for kernels that choose by it. */
int lsi_cuda_ordinal(ls_device *device);    /* CUDA's number of it, for messages */
int lsi_cuda_capability(ls_device *device); /* 10 x major + minor */
bool lsi_cuda_uses_tf32(ls_device *device);
/* What it is, in parts: "NAME, 108 SMs, sm080", and "cuBLASLt 13.0.0". Valid while it is open. */
const char *lsi_cuda_model(ls_device *device);
const char *lsi_cuda_library(ls_device *device);
/* Makes the GPU current in the calling thread. */
void lsi_cuda_enter(ls_device *device);

#endif
