/* What a device is, how two are connected, how one fares. */
#include "nvml_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- what a device is ------------------------------------------------------------------------ */
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned size)
{
    BEGIN_DEVICE(gpu, device);
    return cusim_nvml_give_text(gpu->name, out, size);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned size)
{
    BEGIN_DEVICE(gpu, device);
    const cusim_instance *instance = cusim_nvml_device_instance(device);
    return cusim_nvml_give_text(instance != NULL ? instance->uuid : gpu->uuid, out, size);
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

/* ---- how two are connected ------------------------------------------------------------------- */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int *out)
{
    BEGIN_DEVICE(first, a);
    const cusim_gpu *second = cusim_nvml_device_gpu(b);
    if (second == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    cusim_link link = cusim_nvml_machine.links[cusim_nvml_gpu_index(first)][cusim_nvml_gpu_index(second)];
    *out = link == CUSIM_LINK_NVLINK ? CUSIM_LINK_NODE : (int)link; /* NVML means PCIe here */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int index, int *out)
{
    enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };

    BEGIN_DEVICE(first, a);
    const cusim_gpu *second = cusim_nvml_device_gpu(b);
    if (second == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    cusim_link link = cusim_nvml_machine.links[cusim_nvml_gpu_index(first)][cusim_nvml_gpu_index(second)];
    bool ok = index == NVML_P2P_CAPS_INDEX_NVLINK ? link == CUSIM_LINK_NVLINK : link < CUSIM_LINK_SYS;
    *out = ok ? P2P_OK : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* ---- how it fares ---------------------------------------------------------------------------- */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    BEGIN_DEVICE(gpu, device);
    const cusim_instance *instance = cusim_nvml_device_instance(device);
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

    for (int i = 0; i < cusim_nvml_machine.n_processes; i++) {
        const cusim_process *process = &cusim_nvml_machine.processes[i];

        if (process->gpu != cusim_nvml_gpu_index(gpu) || process->graphics != graphics) {
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

/* What the device draws, since the machine's start. */
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *out_millijoules)
{
    struct timespec now;

    BEGIN_DEVICE(gpu, device);
    clock_gettime(CLOCK_MONOTONIC, &now);
    *out_millijoules = (unsigned long long)(((double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6) * gpu->power_watts);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *out)
{
    BEGIN_DEVICE(gpu, device);
    (void)gpu;
    *out = 0;
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

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned *out_mhz)
{
    (void)clock;
    BEGIN_DEVICE(gpu, device);
    *out_mhz = (unsigned)(gpu->utilization > 0 ? gpu->clock_mhz : gpu->clock_mhz / 4);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned *out_mhz)
{
    (void)clock;
    BEGIN_DEVICE(gpu, device);
    *out_mhz = (unsigned)gpu->clock_mhz;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *out_bits)
{
    BEGIN_DEVICE(gpu, device);
    *out_bits = (unsigned long long)gpu->throttle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *out_correctable, unsigned *out_uncorrectable,
                                       unsigned *out_pending, unsigned *out_failed)
{
    BEGIN_DEVICE(gpu, device);
    if (gpu->cc_major < 8) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *out_correctable = *out_pending = 0;
    *out_uncorrectable = (unsigned)gpu->ecc_errors;
    *out_failed = gpu->remap_failed;
    return NVML_SUCCESS;
}
