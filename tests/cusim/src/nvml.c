/* A libnvidia-ml.so.1 that tells of the described machine (machine.h). It reproduces what a selector trips over: its
 * order is not CUDA's, it ignores CUDA_VISIBLE_DEVICES, a lost GPU counts but has no handle, and in MIG mode there is
 * no utilization. CUSIM_NVML_FAIL="name=code,name@n=code" fails every call, or the nth call, of a function. */
#include "nvml_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cusim_machine cusim_nvml_machine;
atomic_int cusim_nvml_users;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- injected failures ----------------------------------------------------------------------- */
#define COUNTER(type, name, parameters) {#name, 0},
static struct {
    const char *name;
    atomic_int calls;
} counters[] = {NVML_FUNCTIONS(COUNTER)};

static int count_call(const char *name)
{
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (strcmp(counters[i].name, name) == 0) {
            return atomic_fetch_add(&counters[i].calls, 1) + 1;
        }
    }
    return 0;
}

/* Calls are counted while a rule asks for the nth of them. */
nvmlReturn_t cusim_nvml_injected(const char *name)
{
    const char *rule = getenv("CUSIM_NVML_FAIL");
    size_t n = strlen(name);
    int nth, code;

    for (; rule != NULL; rule = strchr(rule, ','), rule += rule != NULL) {
        if (strncmp(rule, name, n) != 0) {
            continue;
        }
        if (sscanf(rule + n, "=%d", &code) == 1 ||
            (sscanf(rule + n, "@%d=%d", &nth, &code) == 2 && nth == count_call(name))) {
            return code;
        }
    }
    return NVML_SUCCESS;
}

/* ---- handles --------------------------------------------------------------------------------- */
const cusim_instance *cusim_nvml_device_instance(nvmlDevice_t device)
{
    const cusim_instance *instance = (const void *)device;

    return instance >= cusim_nvml_machine.instances &&
                   instance < cusim_nvml_machine.instances + cusim_nvml_machine.n_instances
               ? instance
               : NULL;
}

const cusim_gpu *cusim_nvml_device_gpu(nvmlDevice_t device)
{
    const cusim_gpu *gpu = (const void *)device;
    const cusim_instance *instance = cusim_nvml_device_instance(device);

    if (instance != NULL) {
        return &cusim_nvml_machine.gpus[instance->gpu];
    }
    return gpu >= cusim_nvml_machine.gpus && gpu < cusim_nvml_machine.gpus + cusim_nvml_machine.n_gpus ? gpu : NULL;
}

int cusim_nvml_gpu_index(const cusim_gpu *gpu)
{
    return (int)(gpu - cusim_nvml_machine.gpus);
}

static nvmlReturn_t give_handle(const void *record, nvmlDevice_t *out)
{
    nvmlDevice_t device = (nvmlDevice_t)(size_t)record;

    *out = device;
    return cusim_nvml_device_gpu(device)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t cusim_nvml_give_text(const char *text, char *out, unsigned size)
{
    if (strlen(text) + 1 > size) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* ---- the library and the system -------------------------------------------------------------- */
nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t code = cusim_nvml_injected(__func__);
    char error[256];

    if (code != NVML_SUCCESS) {
        return code;
    }
    pthread_mutex_lock(&init_lock);
    if (atomic_load(&cusim_nvml_users) == 0 && cusim_machine_load(&cusim_nvml_machine, error, sizeof error) != 0) {
        fprintf(stderr, "cusim: %s\n", error);
        code = NVML_ERROR_UNKNOWN;
    } else if (!cusim_nvml_machine.has_driver) {
        code = NVML_ERROR_DRIVER_NOT_LOADED;
    } else {
        atomic_fetch_add(&cusim_nvml_users, 1);
    }
    pthread_mutex_unlock(&init_lock);
    return code;
}

nvmlReturn_t nvmlShutdown(void)
{
    BEGIN();
    atomic_fetch_sub(&cusim_nvml_users, 1);
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    switch (code) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "Driver/library version mismatch";
    default:
        return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    BEGIN();
    return cusim_nvml_give_text(cusim_nvml_machine.driver, out, size);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    BEGIN();
    *out = cusim_nvml_machine.cuda_version;
    return NVML_SUCCESS;
}

/* ---- which devices there are ----------------------------------------------------------------- */
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    BEGIN();
    *out = (unsigned)cusim_nvml_machine.n_gpus;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    BEGIN();
    return index < (unsigned)cusim_nvml_machine.n_gpus ? give_handle(&cusim_nvml_machine.gpus[index], out)
                                                       : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    BEGIN();
    for (int i = 0; i < cusim_nvml_machine.n_gpus; i++) {
        if (strcmp(cusim_nvml_machine.gpus[i].uuid, uuid) == 0) {
            return give_handle(&cusim_nvml_machine.gpus[i], out);
        }
    }
    for (int i = 0; i < cusim_nvml_machine.n_instances; i++) {
        if (strcmp(cusim_nvml_machine.instances[i].uuid, uuid) == 0) {
            return give_handle(&cusim_nvml_machine.instances[i], out);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *out)
{
    unsigned domain, bus, device;

    BEGIN();
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < cusim_nvml_machine.n_gpus; i++) {
        const cusim_gpu *gpu = &cusim_nvml_machine.gpus[i];

        if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == device) {
            return give_handle(gpu, out);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *out)
{
    BEGIN_DEVICE(gpu, device);
    *out = gpu->cc_major >= 8 ? 7 : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *out)
{
    BEGIN_DEVICE(gpu, device);
    for (int i = 0; i < cusim_nvml_machine.n_instances; i++) {
        if (cusim_nvml_machine.instances[i].gpu == cusim_nvml_gpu_index(gpu) && index-- == 0) {
            return give_handle(&cusim_nvml_machine.instances[i], out);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig_device, unsigned *out)
{
    BEGIN_DEVICE(gpu, mig_device);
    const cusim_instance *instance = cusim_nvml_device_instance(mig_device);
    if (instance == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *out = (unsigned)instance->gpu_instance;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig_device, unsigned *out)
{
    BEGIN_DEVICE(gpu, mig_device);
    const cusim_instance *instance = cusim_nvml_device_instance(mig_device);
    if (instance == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *out = (unsigned)instance->compute_instance;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_device, nvmlDevice_t *out)
{
    BEGIN_DEVICE(gpu, mig_device);
    return cusim_nvml_device_instance(mig_device) != NULL ? give_handle(gpu, out) : NVML_ERROR_INVALID_ARGUMENT;
}
