/* A libcuda.so.1 that tells of the described machine what the driver tells without a context: how many devices this
 * process sees, and what they are. A context is refused as by the described GPU, else it is nothing but a number.
 * Programs open it by name; nothing else of the driver is in it, so a caller that wants more than to look fails. The
 * first cuInit fixes what is seen, as in the real one. */
#include "machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK = 0,
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    UNAVAILABLE = 46,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    UNKNOWN = 999
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cusim_machine machine;
static cusim_visible seen[CUSIM_MAX_GPUS];
static int n_contexts[CUSIM_MAX_GPUS];
static int n_seen, code_of_init = NOT_INITIALIZED;

EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *out);
EXPORT int cuDeviceGetCount(int *out);
EXPORT int cuDeviceGet(int *out, int ordinal);
EXPORT int cuDeviceGetName(char *out, int room, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *out, int device);
EXPORT int cuDeviceGetAttribute(int *out, int which, int device);
EXPORT int cuDeviceGetUuid(void *out, int device);
EXPORT int cuDeviceGetUuid_v2(void *out, int device);
EXPORT int cuDevicePrimaryCtxRetain(void **out, int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);

static int initialize(void)
{
    char error[256];

    if (cusim_machine_load(&machine, error, sizeof error) != 0) {
        fprintf(stderr, "cusim: %s\n", error);
        return UNKNOWN;
    }
    n_seen = cusim_machine_visible(&machine, getenv("CUDA_VISIBLE_DEVICES"), getenv("CUDA_DEVICE_ORDER"), seen);
    return machine.has_driver && n_seen > 0 ? OK : NO_DEVICE;
}

int cuInit(unsigned flags)
{
    if (flags != 0) {
        return INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    if (code_of_init == NOT_INITIALIZED) {
        code_of_init = initialize();
    }
    int code = code_of_init;
    pthread_mutex_unlock(&lock);
    return code;
}

int cuDriverGetVersion(int *out)
{
    cusim_machine described;
    char error[256];

    if (cusim_machine_load(&described, error, sizeof error) != 0) {
        return UNKNOWN;
    }
    *out = described.has_driver ? described.cuda_version : 0;
    return OK;
}

int cuDeviceGetCount(int *out)
{
    *out = n_seen;
    return code_of_init;
}

int cuDeviceGet(int *out, int ordinal)
{
    *out = ordinal;
    return code_of_init != OK ? code_of_init : ordinal >= 0 && ordinal < n_seen ? OK : INVALID_DEVICE;
}

static int find(int device, cusim_gpu *out)
{
    if (code_of_init != OK) {
        return code_of_init;
    }
    if (device < 0 || device >= n_seen) {
        return INVALID_DEVICE;
    }
    *out = cusim_machine_device(&machine, seen[device]);
    return OK;
}

int cuDeviceGetName(char *out, int room, int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    if (code == OK) {
        snprintf(out, (size_t)room, "%s", gpu.name);
    }
    return code;
}

int cuDeviceTotalMem_v2(size_t *out, int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    *out = code == OK ? gpu.memory : 0;
    return code;
}

int cuDeviceGetAttribute(int *out, int which, int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    if (code != OK) {
        return code;
    }
    switch (which) {
    case 16:
        *out = gpu.sms;
        return OK;
    case 20:
        *out = (int)gpu.compute_mode;
        return OK;
    case 33:
        *out = (int)gpu.pci_bus;
        return OK;
    case 34:
        *out = (int)gpu.pci_device;
        return OK;
    case 50:
        *out = (int)gpu.pci_domain;
        return OK;
    case 75:
        *out = gpu.cc_major;
        return OK;
    case 76:
        *out = gpu.cc_minor;
        return OK;
    default:
        return INVALID_VALUE;
    }
}

static int give_uuid(const char *text, unsigned char out[16])
{
    const char *digits = strchr(text, '-');

    for (int i = 0; digits != NULL && i < 16; i++) {
        unsigned byte;

        digits += strspn(digits, "-");
        if (sscanf(digits, "%2x", &byte) != 1) {
            return INVALID_VALUE;
        }
        out[i] = (unsigned char)byte;
        digits += 2;
    }
    return digits != NULL ? OK : INVALID_VALUE;
}

/* Of an instance the first version tells its GPU's. */
int cuDeviceGetUuid(void *out, int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    return code == OK ? give_uuid(machine.gpus[seen[device].gpu].uuid, out) : code;
}

int cuDeviceGetUuid_v2(void *out, int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    return code == OK ? give_uuid(gpu.uuid, out) : code;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    if (code == OK && cusim_machine_refuses(&machine, seen[device].gpu)) {
        code = UNAVAILABLE;
    }
    if (code == OK) {
        pthread_mutex_lock(&lock);
        n_contexts[device]++;
        pthread_mutex_unlock(&lock);
        *out = &n_contexts[device];
    }
    return code;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    cusim_gpu gpu;
    int code = find(device, &gpu);

    pthread_mutex_lock(&lock);
    if (code == OK) {
        code = n_contexts[device] > 0 ? OK : INVALID_VALUE;
        n_contexts[device] -= code == OK;
    }
    pthread_mutex_unlock(&lock);
    return code;
}
