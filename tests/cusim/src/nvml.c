/* A libnvidia-ml.so.1 that tells of the described machine (machine.h). It reproduces what a selector trips over: its
 * order is not CUDA's, it ignores CUDA_VISIBLE_DEVICES, a lost GPU counts but has no handle, and in MIG mode there is
 * no utilization. CUSIM_NVML_FAIL="name=code,name@n=code" fails every call, or the nth call, of a function. */
#include "nvml_min.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

/* The library's functions have C linkage and these types; a caller looks them up by name. */
#define DECLARE(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
NVML_FUNCTIONS(DECLARE)

/* A handle points to a GPU or to an instance of this. */
static cusim_machine machine;
static atomic_int n_users; /* nvmlInit calls without their nvmlShutdown */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- injected failures --------------------------------------------------------------------------------------------
 */
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

/* The code this call must fail with, or 0. Calls are counted while a rule asks for the nth of them. */
static nvmlReturn_t injected(const char *name)
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

#define BEGIN()                                                                                                        \
    do {                                                                                                               \
        nvmlReturn_t code_ = injected(__func__);                                                                       \
        if (code_ != NVML_SUCCESS) {                                                                                   \
            return code_;                                                                                              \
        }                                                                                                              \
        if (atomic_load(&n_users) == 0) {                                                                              \
            return NVML_ERROR_UNINITIALIZED;                                                                           \
        }                                                                                                              \
    } while (0)

/* ... and the GPU behind the handle, NULL arguments refused. */
#define BEGIN_DEVICE(gpu, device)                                                                                      \
    BEGIN();                                                                                                           \
    const cusim_gpu *gpu = device_gpu(device);                                                                         \
    if (gpu == NULL) {                                                                                                 \
        return NVML_ERROR_INVALID_ARGUMENT;                                                                            \
    }                                                                                                                  \
    if (gpu->lost) {                                                                                                   \
        return NVML_ERROR_GPU_IS_LOST;                                                                                 \
    }

/* ---- handles ------------------------------------------------------------------------------------------------------
 */
static const cusim_instance *device_instance(nvmlDevice_t device)
{
    const cusim_instance *instance = (const void *)device;

    return instance >= machine.instances && instance < machine.instances + machine.n_instances ? instance : NULL;
}

static const cusim_gpu *device_gpu(nvmlDevice_t device)
{
    const cusim_gpu *gpu = (const void *)device;
    const cusim_instance *instance = device_instance(device);

    if (instance != NULL) {
        return &machine.gpus[instance->gpu];
    }
    return gpu >= machine.gpus && gpu < machine.gpus + machine.n_gpus ? gpu : NULL;
}

static int gpu_index(const cusim_gpu *gpu)
{
    return (int)(gpu - machine.gpus);
}

static nvmlReturn_t give_handle(const void *record, nvmlDevice_t *out)
{
    nvmlDevice_t device = (nvmlDevice_t)(size_t)record;

    *out = device;
    return device_gpu(device)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t give_text(const char *text, char *out, unsigned size)
{
    if (strlen(text) + 1 > size) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* ---- the library and the system -----------------------------------------------------------------------------------
 */
nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t code = injected(__func__);
    char error[256];

    if (code != NVML_SUCCESS) {
        return code;
    }
    pthread_mutex_lock(&init_lock);
    if (atomic_load(&n_users) == 0 && cusim_machine_load(&machine, error, sizeof error) != 0) {
        fprintf(stderr, "cusim: %s\n", error);
        code = NVML_ERROR_UNKNOWN;
    } else if (!machine.has_driver) {
        code = NVML_ERROR_DRIVER_NOT_LOADED;
    } else {
        atomic_fetch_add(&n_users, 1);
    }
    pthread_mutex_unlock(&init_lock);
    return code;
}

nvmlReturn_t nvmlShutdown(void)
{
    BEGIN();
    atomic_fetch_sub(&n_users, 1);
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
    return give_text(machine.driver, out, size);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    BEGIN();
    *out = machine.cuda_version;
    return NVML_SUCCESS;
}

/* ---- which devices there are --------------------------------------------------------------------------------------
 */
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    BEGIN();
    *out = (unsigned)machine.n_gpus;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    BEGIN();
    return index < (unsigned)machine.n_gpus ? give_handle(&machine.gpus[index], out) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    BEGIN();
    for (int i = 0; i < machine.n_gpus; i++) {
        if (strcmp(machine.gpus[i].uuid, uuid) == 0) {
            return give_handle(&machine.gpus[i], out);
        }
    }
    for (int i = 0; i < machine.n_instances; i++) {
        if (strcmp(machine.instances[i].uuid, uuid) == 0) {
            return give_handle(&machine.instances[i], out);
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
    for (int i = 0; i < machine.n_gpus; i++) {
        const cusim_gpu *gpu = &machine.gpus[i];

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
    for (int i = 0; i < machine.n_instances; i++) {
        if (machine.instances[i].gpu == gpu_index(gpu) && index-- == 0) {
            return give_handle(&machine.instances[i], out);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_device, nvmlDevice_t *out)
{
    BEGIN_DEVICE(gpu, mig_device);
    return device_instance(mig_device) != NULL ? give_handle(gpu, out) : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- what a device is ---------------------------------------------------------------------------------------------
 */
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned size)
{
    BEGIN_DEVICE(gpu, device);
    return give_text(gpu->name, out, size);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned size)
{
    BEGIN_DEVICE(gpu, device);
    const cusim_instance *instance = device_instance(device);
    return give_text(instance != NULL ? instance->uuid : gpu->uuid, out, size);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    BEGIN_DEVICE(gpu, device);
    *out = (nvmlPciInfo_t){.domain = gpu->pci_domain, .bus = gpu->pci_bus, .device = gpu->pci_device};
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *out_major, int *out_minor)
{
    BEGIN_DEVICE(gpu, device);
    *out_major = gpu->cc_major;
    *out_minor = gpu->cc_minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *out_current, unsigned *out_pending)
{
    BEGIN_DEVICE(gpu, device);
    if (gpu->cc_major < 8) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *out_current = *out_pending = gpu->mig;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int *out)
{
    BEGIN_DEVICE(gpu, device);
    *out = (int)gpu->compute_mode;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *out)
{
    BEGIN_DEVICE(gpu, device);
    if (gpu->numa_node < 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *out = (unsigned)gpu->numa_node;
    return NVML_SUCCESS;
}

/* ---- how two are connected ----------------------------------------------------------------------------------------
 */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int *out)
{
    BEGIN_DEVICE(first, a);
    const cusim_gpu *second = device_gpu(b);
    if (second == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    cusim_link link = machine.links[gpu_index(first)][gpu_index(second)];
    *out = link == CUSIM_LINK_NVLINK ? CUSIM_LINK_NODE : (int)link; /* NVML means PCIe here */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int index, int *out)
{
    enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };

    BEGIN_DEVICE(first, a);
    const cusim_gpu *second = device_gpu(b);
    if (second == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    cusim_link link = machine.links[gpu_index(first)][gpu_index(second)];
    bool ok = index == NVML_P2P_CAPS_INDEX_NVLINK ? link == CUSIM_LINK_NVLINK : link < CUSIM_LINK_SYS;
    *out = ok ? P2P_OK : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* ---- how it fares -------------------------------------------------------------------------------------------------
 */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    BEGIN_DEVICE(gpu, device);
    const cusim_instance *instance = device_instance(device);
    out->total = instance != NULL ? instance->memory : gpu->memory;
    out->used = instance != NULL ? 0 : gpu->memory_used;
    out->free = out->total - out->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
    BEGIN_DEVICE(gpu, device);
    if (gpu->mig) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *out = (nvmlUtilization_t){(unsigned)gpu->utilization, (unsigned)gpu->memory_utilization};
    return NVML_SUCCESS;
}

/* *count: room, then how many there are, also when the room does not do. */
static nvmlReturn_t give_processes(const cusim_gpu *gpu, bool graphics, unsigned *count, nvmlProcessInfo_t *out)
{
    unsigned room = out != NULL ? *count : 0, n = 0;

    for (int i = 0; i < machine.n_processes; i++) {
        const cusim_process *process = &machine.processes[i];

        if (process->gpu != gpu_index(gpu) || process->graphics != graphics) {
            continue;
        }
        if (n < room) {
            out[n] = (nvmlProcessInfo_t){(unsigned)process->pid,
                                         process->memory != 0 ? process->memory : NVML_VALUE_NOT_AVAILABLE, ~0u, ~0u};
        }
        n++;
    }
    *count = n;
    return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out)
{
    BEGIN_DEVICE(gpu, device);
    return give_processes(gpu, false, count, out);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out)
{
    BEGIN_DEVICE(gpu, device);
    return give_processes(gpu, true, count, out);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *out_celsius)
{
    BEGIN_DEVICE(gpu, device);
    if (sensor != NVML_TEMPERATURE_GPU) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *out_celsius = (unsigned)gpu->temperature;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *out_milliwatts)
{
    BEGIN_DEVICE(gpu, device);
    *out_milliwatts = (unsigned)gpu->power_watts * 1000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *out_milliwatts)
{
    BEGIN_DEVICE(gpu, device);
    *out_milliwatts = (unsigned)gpu->power_limit_watts * 1000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter, unsigned long long *out)
{
    (void)counter;
    BEGIN_DEVICE(gpu, device);
    *out = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? (unsigned long long)gpu->ecc_errors : 0;
    return NVML_SUCCESS;
}
