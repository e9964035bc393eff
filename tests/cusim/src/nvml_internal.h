/* The simulated NVML, between its files: nvml.c has the library and which devices there are, nvml_device.c what each of
 * them is and how it fares. */
#ifndef CUSIM_NVML_INTERNAL_H
#define CUSIM_NVML_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "machine.h"
#include "device/nvml_abi.h"

/* The library's functions have C linkage and these types; a caller looks them up by name. */
#define DECLARE(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
NVML_FUNCTIONS(DECLARE)

/* A handle points to a GPU or to an instance of this. */
extern cusim_machine cusim_nvml_machine;
extern atomic_int cusim_nvml_users; /* nvmlInit calls without their nvmlShutdown */

/* The code this call must fail with, or 0. */
nvmlReturn_t cusim_nvml_injected(const char *name);
const cusim_instance *cusim_nvml_device_instance(nvmlDevice_t device); /* NULL: not an instance */
const cusim_gpu *cusim_nvml_device_gpu(nvmlDevice_t device);           /* NULL: not a handle */
int cusim_nvml_gpu_index(const cusim_gpu *gpu);
nvmlReturn_t cusim_nvml_give_text(const char *text, char *out, unsigned size);

#define BEGIN()                                                                                                        \
    do {                                                                                                               \
        nvmlReturn_t code_ = cusim_nvml_injected(__func__);                                                            \
        if (code_ != NVML_SUCCESS) {                                                                                   \
            return code_;                                                                                              \
        }                                                                                                              \
        if (atomic_load(&cusim_nvml_users) == 0) {                                                                     \
            return NVML_ERROR_UNINITIALIZED;                                                                           \
        }                                                                                                              \
    } while (0)

/* ... and the GPU behind the handle, NULL arguments refused. */
#define BEGIN_DEVICE(gpu, device)                                                                                      \
    BEGIN();                                                                                                           \
    const cusim_gpu *gpu = cusim_nvml_device_gpu(device);                                                              \
    if (gpu == NULL) {                                                                                                 \
        return NVML_ERROR_INVALID_ARGUMENT;                                                                            \
    }                                                                                                                  \
    if (gpu->lost) {                                                                                                   \
        return NVML_ERROR_GPU_IS_LOST;                                                                                 \
    }

#endif
