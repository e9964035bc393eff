/* NVML, opened by name. A function that this driver lacks is as one that is not supported. */
#ifndef LSI_DEVICE_NVML_H
#define LSI_DEVICE_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "device/nvml_abi.h"

typedef struct lsi_nvml {
    void *library; /* NULL: NVML is not there */
#define LSI_NVML_MEMBER(type, name, parameters) type(*name) parameters;
    NVML_FUNCTIONS(LSI_NVML_MEMBER)
#undef LSI_NVML_MEMBER
} lsi_nvml;

/* False: NVML cannot be used, and `why` says so in a few words. */
bool lsi_nvml_open(lsi_nvml *out, char *why, size_t why_room);
/* Of one that is not open: nothing. */
void lsi_nvml_close(lsi_nvml *nvml);

/* Calls a function by its name; NOT_SUPPORTED where there is none. */
#define LSI_NVML_CALL(nvml, name, ...) ((nvml)->name != NULL ? (nvml)->name(__VA_ARGS__) : NVML_ERROR_NOT_SUPPORTED)

#endif
