/* Devices: which there are, what they are, which one is current. */
#include "runtime.h"
#include "cusim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_device(int device)
{
    return device >= 0 && device < cusim.n_devices;
}

bool cusim_has_context(int device)
{
    return is_device(device) && cusim.devices[device].has_context;
}

cudaError_t cudaGetDeviceCount(int *out)
{
    *out = 0;
    CUSIM_ENTER(cudaGetDeviceCount);
    *out = cusim.n_devices;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    /* The context that the call makes is the new device's. */
    int before = cusim_device;
    if (cusim_device_gpu(device) == NULL)
        return cusim_set_error(cusim.n_devices == 0 ? cusim.no_device : cudaErrorInvalidDevice);
    cusim_device = device;
    cudaError_t error = cusim_enter(CUSIM_FN_cudaSetDevice, CUSIM_NO_STREAM, "device=%d", device);
    if (error != cudaSuccess) {
        cusim_device = before;
        return error;
    }
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaGetDevice(int *out)
{
    CUSIM_ENTER(cudaGetDevice);
    *out = cusim_device;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaSetDeviceFlags, CUSIM_NO_STREAM, "flags=%u", flags);
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    CUSIM_ENTER(cudaDeviceSynchronize);
    cusim_drain_device(cusim_device);
    return cusim_leave(cusim.devices[cusim_device].error);
}

cudaError_t cudaDeviceReset(void)
{
    CUSIM_ENTER(cudaDeviceReset);
    cusim_drain_device(cusim_device);
    cusim.devices[cusim_device].has_context = false;
    return cusim_leave(cudaSuccess);
}

/* Answers without a usable driver, too: 0 where there is none. */
cudaError_t cudaDriverGetVersion(int *out)
{
    int code = cusim_call(CUSIM_FN_cudaDriverGetVersion, CUSIM_NO_STREAM, NULL);
    *out = cusim.machine.has_driver ? cusim.machine.cuda_version : 0;
    return cusim_set_error((cudaError_t)code);
}

cudaError_t cudaRuntimeGetVersion(int *out)
{
    *out = CUDART_VERSION;
    int code = cusim_call(CUSIM_FN_cudaRuntimeGetVersion, CUSIM_NO_STREAM, NULL);
    return cusim_set_error((cudaError_t)code);
}

/* ---- properties ----------------------------------------------------------------------------- */

static void read_uuid(const char *text, char out[16])
{
    const char *p = strchr(text, '-');
    for (int i = 0; p != NULL && i < 16; i++) {
        while (*p == '-')
            p++;
        char pair[3] = {p[0], p[0] != '\0' ? p[1] : '\0', '\0'};
        if (strlen(pair) < 2)
            return;
        out[i] = (char)strtoul(pair, NULL, 16);
        p += 2;
    }
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    CUSIM_ENTER_STREAM(cudaGetDeviceProperties, CUSIM_NO_STREAM, "device=%d", device);
    if (!is_device(device))
        return cusim_leave(cudaErrorInvalidDevice);
    const cusim_gpu *gpu = &cusim.devices[device].gpu;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", gpu->name);
    read_uuid(gpu->uuid, out->uuid.bytes);
    out->totalGlobalMem = gpu->memory;
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = (size_t)cusim_shared_per_block(device);
    out->sharedMemPerMultiprocessor = (size_t)cusim_shared_per_sm(device);
    out->reservedSharedMemPerBlock = gpu->cc_major >= 8 ? 1 << 10 : 0;
    out->regsPerBlock = out->regsPerMultiprocessor = 65536;
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
    out->maxThreadsDim[2] = 64;
    out->maxGridSize[0] = 0x7fffffff;
    out->maxGridSize[1] = out->maxGridSize[2] = 65535;
    out->major = gpu->cc_major;
    out->minor = gpu->cc_minor;
    out->multiProcessorCount = gpu->sms;
    out->maxThreadsPerMultiProcessor = gpu->cc_major * 10 + gpu->cc_minor == 75 ? 1024 : 2048;
    out->maxBlocksPerMultiProcessor = 32;
    out->asyncEngineCount = 3;
    out->concurrentKernels = out->unifiedAddressing = out->canMapHostMemory = 1;
    out->streamPrioritiesSupported = out->memoryPoolsSupported = 1;
    out->l2CacheSize = 40 << 20;
    out->memoryBusWidth = 5120;
    out->pciDomainID = (int)gpu->pci_domain;
    out->pciBusID = (int)gpu->pci_bus;
    out->pciDeviceID = (int)gpu->pci_device;
    return cusim_leave(cudaSuccess);
}

static bool attribute(int device, int which, int *out)
{
    const cusim_gpu *gpu = &cusim.devices[device].gpu;
    switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
        *out = 1024;
        return true;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        *out = 1024;
        return true;
    case cudaDevAttrMaxBlockDimZ:
        *out = 64;
        return true;
    case cudaDevAttrMaxGridDimX:
        *out = 0x7fffffff;
        return true;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        *out = 65535;
        return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *out = 48 << 10;
        return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *out = cusim_shared_per_block(device);
        return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *out = cusim_shared_per_sm(device);
        return true;
    case cudaDevAttrWarpSize:
        *out = 32;
        return true;
    case cudaDevAttrClockRate:
        *out = gpu->clock_mhz * 1000;
        return true;
    case cudaDevAttrMemoryClockRate:
        *out = 1593000;
        return true;
    case cudaDevAttrGlobalMemoryBusWidth:
        *out = 5120;
        return true;
    case cudaDevAttrL2CacheSize:
        *out = 40 << 20;
        return true;
    case cudaDevAttrMultiProcessorCount:
        *out = gpu->sms;
        return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *out = 2048;
        return true;
    case cudaDevAttrComputeMode:
        *out = (int)gpu->compute_mode;
        return true;
    case cudaDevAttrComputeCapabilityMajor:
        *out = gpu->cc_major;
        return true;
    case cudaDevAttrComputeCapabilityMinor:
        *out = gpu->cc_minor;
        return true;
    case cudaDevAttrPciBusId:
        *out = (int)gpu->pci_bus;
        return true;
    case cudaDevAttrPciDeviceId:
        *out = (int)gpu->pci_device;
        return true;
    case cudaDevAttrPciDomainId:
        *out = (int)gpu->pci_domain;
        return true;
    case cudaDevAttrAsyncEngineCount:
        *out = 3;
        return true;
    case cudaDevAttrEccEnabled:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrMemoryPoolsSupported:
        *out = 1;
        return true;
    case cudaDevAttrIntegrated:
    case cudaDevAttrTccDriver:
    case cudaDevAttrKernelExecTimeout:
        *out = 0;
        return true;
    /* The driver's numbers for stream memory operations: always there since CUDA 12. */
    case 92:
    case 93:
    case 94:
    case 122:
    case 123:
        *out = 1;
        return true;
    default:
        return false;
    }
}

bool cusim_device_attribute(int device, int which, int *out)
{
    return is_device(device) && attribute(device, which, out);
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr which, int device)
{
    CUSIM_ENTER_STREAM(cudaDeviceGetAttribute, CUSIM_NO_STREAM, "attribute=%d device=%d", (int)which, device);
    if (!is_device(device))
        return cusim_leave(cudaErrorInvalidDevice);
    bool known = attribute(device, (int)which, out);
    if (!known)
        cusim_note("device attribute %d is not simulated", (int)which);
    return cusim_leave(known ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int length, int device)
{
    CUSIM_ENTER_STREAM(cudaDeviceGetPCIBusId, CUSIM_NO_STREAM, "device=%d", device);
    if (!is_device(device) || length < 13)
        return cusim_leave(is_device(device) ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
    cusim_machine_bus_text(&cusim.devices[device].gpu, out, (size_t)length);
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaDeviceGetByPCIBusId(int *out, const char *bus)
{
    CUSIM_ENTER_STREAM(cudaDeviceGetByPCIBusId, CUSIM_NO_STREAM, "bus=%s", bus);
    unsigned domain, number, slot;
    if (sscanf(bus, "%x:%x:%x", &domain, &number, &slot) != 3)
        return cusim_leave(cudaErrorInvalidValue);
    for (int i = 0; i < cusim.n_devices; i++) {
        const cusim_gpu *gpu = &cusim.devices[i].gpu;
        if (gpu->pci_domain == domain && gpu->pci_bus == number && gpu->pci_device == slot) {
            *out = i;
            return cusim_leave(cudaSuccess);
        }
    }
    return cusim_leave(cudaErrorInvalidDevice);
}

/* ---- peers ---------------------------------------------------------------------------------- */

cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer)
{
    CUSIM_ENTER_STREAM(cudaDeviceCanAccessPeer, CUSIM_NO_STREAM, "device=%d peer=%d", device, peer);
    if (!is_device(device) || !is_device(peer))
        return cusim_leave(cudaErrorInvalidDevice);
    cusim_visible a = cusim.devices[device].visible, b = cusim.devices[peer].visible;
    bool parts = a.instance >= 0 || b.instance >= 0;
    *out = device != peer && !parts && cusim.machine.links[a.gpu][b.gpu] < CUSIM_LINK_SYS;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaDeviceEnablePeerAccess, CUSIM_NO_STREAM, "peer=%d flags=%u", peer, flags);
    return cusim_leave(is_device(peer) && peer != cusim_device ? cudaSuccess : cudaErrorInvalidDevice);
}
