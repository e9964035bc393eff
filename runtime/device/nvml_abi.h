/* The part of NVML's binary interface that choosing and watching GPUs needs. A machine without a driver has no
 * libnvidia-ml.so.1, and not every toolkit has nvml.h: the library is opened with dlopen, the functions are looked up
 * by the names in NVML_FUNCTIONS; older drivers lack some. The simulator's stand-in (tests/cusim) is made of the same
 * list. */
#ifndef LSI_DEVICE_NVML_ABI_H
#define LSI_DEVICE_NVML_ABI_H

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef int nvmlReturn_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_UNKNOWN = 999
};

enum {
    NVML_TEMPERATURE_GPU = 0,
    NVML_P2P_CAPS_INDEX_NVLINK = 2,
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
    NVML_VOLATILE_ECC = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2
};

/* What NVML cannot tell. */
#define NVML_VALUE_NOT_AVAILABLE (~0ull)

typedef struct nvmlMemory {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlUtilization {
    unsigned gpu, memory; /* per cent */
} nvmlUtilization_t;

typedef struct nvmlPciInfo {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32]; /* with a domain of eight digits, where the CUDA runtime writes four */
} nvmlPciInfo_t;

typedef struct nvmlProcessInfo {
    unsigned pid;                     /* the host's, also inside a container */
    unsigned long long usedGpuMemory; /* bytes, or NVML_VALUE_NOT_AVAILABLE */
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

/* An event's type, and what instance it is about when it is about none. */
#define NVML_EVENT_XID 0x8ull
#define NVML_INSTANCE_ANY 0xffffffffu

typedef struct nvmlEventSet_st *nvmlEventSet_t;

typedef struct nvmlEventData {
    nvmlDevice_t device; /* a whole GPU */
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

/* X(type of the result, name, parameters) */
#define NVML_FUNCTIONS(X)                                                                                              \
    X(nvmlReturn_t, nvmlInit_v2, (void))                                                                               \
    X(nvmlReturn_t, nvmlShutdown, (void))                                                                              \
    X(const char *, nvmlErrorString, (nvmlReturn_t code))                                                              \
    X(nvmlReturn_t, nvmlSystemGetDriverVersion, (char *out, unsigned size))                                            \
    X(nvmlReturn_t, nvmlSystemGetCudaDriverVersion_v2, (int *out))                                                     \
    X(nvmlReturn_t, nvmlDeviceGetCount_v2, (unsigned *out))                                                            \
    X(nvmlReturn_t, nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *out))                                \
    X(nvmlReturn_t, nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *out))                                  \
    X(nvmlReturn_t, nvmlDeviceGetHandleByPciBusId_v2, (const char *bus_id, nvmlDevice_t *out))                         \
    X(nvmlReturn_t, nvmlDeviceGetName, (nvmlDevice_t device, char *out, unsigned size))                                \
    X(nvmlReturn_t, nvmlDeviceGetUUID, (nvmlDevice_t device, char *out, unsigned size))                                \
    X(nvmlReturn_t, nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t * out))                               \
    X(nvmlReturn_t, nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * out))                                \
    X(nvmlReturn_t, nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * out))                     \
    X(nvmlReturn_t, nvmlDeviceGetComputeRunningProcesses_v3,                                                           \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out))                                                  \
    X(nvmlReturn_t, nvmlDeviceGetGraphicsRunningProcesses_v3,                                                          \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out))                                                  \
    X(nvmlReturn_t, nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned *out_celsius))                \
    X(nvmlReturn_t, nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *out_milliwatts))                          \
    X(nvmlReturn_t, nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long *out_millijoules))   \
    X(nvmlReturn_t, nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned *out))                              \
    X(nvmlReturn_t, nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned *out_milliwatts))                  \
    X(nvmlReturn_t, nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *out_current, unsigned *out_pending))         \
    X(nvmlReturn_t, nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned *out))                              \
    X(nvmlReturn_t, nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t device, unsigned index, nvmlDevice_t *out))     \
    X(nvmlReturn_t, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t mig_device, nvmlDevice_t * out))       \
    X(nvmlReturn_t, nvmlDeviceGetComputeMode, (nvmlDevice_t device, int *out))                                         \
    X(nvmlReturn_t, nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *out_major, int *out_minor))         \
    X(nvmlReturn_t, nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t a, nvmlDevice_t b, int *out))                   \
    X(nvmlReturn_t, nvmlDeviceGetP2PStatus, (nvmlDevice_t a, nvmlDevice_t b, int index, int *out))                     \
    X(nvmlReturn_t, nvmlDeviceGetTotalEccErrors,                                                                       \
      (nvmlDevice_t device, int type, int counter, unsigned long long *out))                                           \
    X(nvmlReturn_t, nvmlDeviceGetNumaNodeId, (nvmlDevice_t device, unsigned *out))                                     \
    X(nvmlReturn_t, nvmlDeviceGetGpuInstanceId, (nvmlDevice_t mig_device, unsigned *out))                              \
    X(nvmlReturn_t, nvmlDeviceGetComputeInstanceId, (nvmlDevice_t mig_device, unsigned *out))                          \
    X(nvmlReturn_t, nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned *out_mhz))                       \
    X(nvmlReturn_t, nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, int clock, unsigned *out_mhz))                    \
    X(nvmlReturn_t, nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long *out_bits))    \
    X(nvmlReturn_t, nvmlEventSetCreate, (nvmlEventSet_t * out))                                                        \
    X(nvmlReturn_t, nvmlEventSetFree, (nvmlEventSet_t set))                                                            \
    X(nvmlReturn_t, nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t * out, unsigned milliseconds))           \
    X(nvmlReturn_t, nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long *out_types))            \
    X(nvmlReturn_t, nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))     \
    X(nvmlReturn_t, nvmlDeviceGetRemappedRows,                                                                         \
      (nvmlDevice_t device, unsigned *out_correctable, unsigned *out_uncorrectable, unsigned *out_pending,             \
       unsigned *out_failed))

#endif
