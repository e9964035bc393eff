/* Events: each GPU with xid=N in its description tells every set of events once of it, as soon as it is asked. */
#include "nvml_internal.h"

#include <stdlib.h>
#include <unistd.h>

struct nvmlEventSet_st {
    bool pending[CUSIM_MAX_GPUS];
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
    BEGIN();
    *out = calloc(1, sizeof **out);
    return *out != NULL ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    BEGIN();
    free(set);
    return NVML_SUCCESS;
}

/* Instances have none of their own. */
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *out_types)
{
    BEGIN_DEVICE(gpu, device);
    *out_types = cusim_nvml_device_instance(device) == NULL && gpu->cc_major > 0 ? NVML_EVENT_XID : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    BEGIN_DEVICE(gpu, device);
    if (cusim_nvml_device_instance(device) != NULL || types != NVML_EVENT_XID) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    set->pending[cusim_nvml_gpu_index(gpu)] = gpu->xid != 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, unsigned milliseconds)
{
    BEGIN();
    for (int i = 0; i < cusim_nvml_machine.n_gpus; i++) {
        if (set->pending[i]) {
            set->pending[i] = false;
            *out = (nvmlEventData_t){.device = (nvmlDevice_t)(size_t)&cusim_nvml_machine.gpus[i],
                                     .eventType = NVML_EVENT_XID,
                                     .eventData = (unsigned long long)cusim_nvml_machine.gpus[i].xid,
                                     .gpuInstanceId = NVML_INSTANCE_ANY,
                                     .computeInstanceId = NVML_INSTANCE_ANY};
            return NVML_SUCCESS;
        }
    }
    usleep(milliseconds * 1000);
    return NVML_ERROR_TIMEOUT;
}
