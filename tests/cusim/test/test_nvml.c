/* RUN: timeout=30 */
/* The simulated NVML, opened as a program opens the real one: by name, functions looked up. */
#include "support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvml_abi.h"

#define POINTER(type, name, parameters) static type(*p_##name) parameters;
NVML_FUNCTIONS(POINTER)

static void set(const char *name, const char *value)
{
    assert_int_equal(value != NULL ? setenv(name, value, 1) : unsetenv(name), 0);
}

static int open_library(void **state)
{
    void *library = dlopen(CUSIM_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    (void)state;
    if (library == NULL) {
        printf("%s\n", dlerror());
        return -1;
    }
#define LOOK_UP(type, name, parameters)                                                                                \
    *(void **)&p_##name = dlsym(library, #name);                                                                       \
    if (p_##name == NULL) {                                                                                            \
        printf("no " #name "\n");                                                                                      \
        return -1;                                                                                                     \
    }
    NVML_FUNCTIONS(LOOK_UP)
    set("CUSIM_MACHINE", CUSIM_MACHINES "/mixed.txt");
    return 0;
}

static nvmlDevice_t device_at(unsigned index)
{
    nvmlDevice_t device;

    assert_int_equal(p_nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

static void test_not_initialized(void **state)
{
    unsigned n;

    (void)state;
    assert_int_equal(p_nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(p_nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

static void test_devices(void **state)
{
    nvmlDevice_t device, same;
    nvmlPciInfo_t pci;
    char text[96];
    unsigned n;
    int a, b;

    (void)state;
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    /* All of them, whatever CUDA is allowed to see. */
    set("CUDA_VISIBLE_DEVICES", "0");
    assert_int_equal(p_nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
    set("CUDA_VISIBLE_DEVICES", NULL);
    assert_int_equal(n, 6);
    assert_int_equal(p_nvmlDeviceGetHandleByIndex_v2(6, &device), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(p_nvmlDeviceGetHandleByIndex_v2(4, &device), NVML_ERROR_GPU_IS_LOST);
    device = device_at(3);
    assert_int_equal(p_nvmlDeviceGetName(device, text, sizeof text), NVML_SUCCESS);
    assert_string_equal(text, "NVIDIA A100-SXM4-80GB");
    assert_int_equal(p_nvmlDeviceGetName(device, text, 5), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(p_nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
    assert_string_equal(pci.busId, "00000000:48:00.0");
    assert_string_equal(pci.busIdLegacy, "0000:48:00.0");
    assert_int_equal(p_nvmlDeviceGetHandleByPciBusId_v2("0000:48:00.0", &same), NVML_SUCCESS);
    assert_ptr_equal(same, device);
    assert_int_equal(p_nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &same), NVML_SUCCESS);
    assert_ptr_equal(same, device);
    assert_int_equal(p_nvmlDeviceGetHandleByPciBusId_v2("0000:49:00.0", &same), NVML_ERROR_NOT_FOUND);
    assert_int_equal(p_nvmlDeviceGetUUID(device, text, sizeof text), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetHandleByUUID(text, &same), NVML_SUCCESS);
    assert_ptr_equal(same, device);
    assert_int_equal(p_nvmlDeviceGetHandleByUUID("GPU-aaaaaaab", &same), NVML_ERROR_NOT_FOUND);
    assert_int_equal(p_nvmlDeviceGetCudaComputeCapability(device, &a, &b), NVML_SUCCESS);
    assert_int_equal(a * 10 + b, 80);
    assert_int_equal(p_nvmlDeviceGetName(NULL, text, sizeof text), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(p_nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
    assert_string_equal(text, "580.65.06");
    assert_int_equal(p_nvmlSystemGetCudaDriverVersion_v2(&a), NVML_SUCCESS);
    assert_int_equal(a, 13000);
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
}

static void test_how_they_fare(void **state)
{
    nvmlUtilization_t rates;
    nvmlMemory_t memory;
    nvmlProcessInfo_t processes[4];
    unsigned long long errors;
    unsigned n, value;
    int mode, link;

    (void)state;
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetUtilizationRates(device_at(1), &rates), NVML_SUCCESS);
    assert_int_equal(rates.gpu * 1000 + rates.memory, 97040);
    assert_int_equal(p_nvmlDeviceGetUtilizationRates(device_at(5), &rates), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(p_nvmlDeviceGetMemoryInfo(device_at(1), &memory), NVML_SUCCESS);
    assert_true(memory.total == 81920ull << 20 && memory.used == 79100ull << 20);
    assert_true(memory.free == memory.total - memory.used);
    n = 0;
    assert_int_equal(p_nvmlDeviceGetComputeRunningProcesses_v3(device_at(1), &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 2);
    n = 4;
    assert_int_equal(p_nvmlDeviceGetComputeRunningProcesses_v3(device_at(1), &n, processes), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(processes[0].pid, 4242);
    assert_true(processes[0].usedGpuMemory == 78000ull << 20);
    assert_true(processes[1].usedGpuMemory == NVML_VALUE_NOT_AVAILABLE);
    n = 4;
    assert_int_equal(p_nvmlDeviceGetGraphicsRunningProcesses_v3(device_at(1), &n, processes), NVML_SUCCESS);
    assert_int_equal(n, 0);
    n = 4;
    assert_int_equal(p_nvmlDeviceGetGraphicsRunningProcesses_v3(device_at(0), &n, processes), NVML_SUCCESS);
    assert_int_equal(processes[0].pid, 900);
    assert_int_equal(p_nvmlDeviceGetTemperature(device_at(1), NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
    assert_int_equal(value, 78);
    assert_int_equal(p_nvmlDeviceGetPowerUsage(device_at(1), &value), NVML_SUCCESS);
    assert_int_equal(value, 391000);
    assert_int_equal(p_nvmlDeviceGetEnforcedPowerLimit(device_at(1), &value), NVML_SUCCESS);
    assert_int_equal(value, 400000);
    assert_int_equal(
        p_nvmlDeviceGetTotalEccErrors(device_at(3), NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors),
        NVML_SUCCESS);
    assert_int_equal(errors, 3);
    assert_int_equal(p_nvmlDeviceGetNumaNodeId(device_at(5), &value), NVML_SUCCESS);
    assert_int_equal(value, 1);
    assert_int_equal(p_nvmlDeviceGetNumaNodeId(device_at(2), &value), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(p_nvmlDeviceGetComputeMode(device_at(5), &mode), NVML_SUCCESS);
    assert_int_equal(mode, 3);
    assert_int_equal(p_nvmlDeviceGetP2PStatus(device_at(1), device_at(3), NVML_P2P_CAPS_INDEX_NVLINK, &link),
                     NVML_SUCCESS);
    assert_int_equal(link, 0);
    assert_int_equal(p_nvmlDeviceGetP2PStatus(device_at(2), device_at(3), NVML_P2P_CAPS_INDEX_NVLINK, &link),
                     NVML_SUCCESS);
    assert_int_equal(link, 5);
    assert_int_equal(p_nvmlDeviceGetTopologyCommonAncestor(device_at(2), device_at(3), &link), NVML_SUCCESS);
    assert_int_equal(link, 40);
    assert_int_equal(p_nvmlDeviceGetTopologyCommonAncestor(device_at(0), device_at(3), &link), NVML_SUCCESS);
    assert_int_equal(link, 50);
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
}

static void test_instances(void **state)
{
    nvmlDevice_t instance, parent;
    nvmlMemory_t memory;
    char uuid[96];
    unsigned current, pending;

    (void)state;
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetMigMode(device_at(0), &current, &pending), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(p_nvmlDeviceGetMigMode(device_at(1), &current, &pending), NVML_SUCCESS);
    assert_int_equal(current, 0);
    assert_int_equal(p_nvmlDeviceGetMigMode(device_at(5), &current, &pending), NVML_SUCCESS);
    assert_int_equal(current, 1);
    assert_int_equal(p_nvmlDeviceGetMaxMigDeviceCount(device_at(5), &current), NVML_SUCCESS);
    assert_int_equal(current, 7);
    assert_int_equal(p_nvmlDeviceGetMigDeviceHandleByIndex(device_at(5), 2, &instance), NVML_ERROR_NOT_FOUND);
    assert_int_equal(p_nvmlDeviceGetMigDeviceHandleByIndex(device_at(5), 1, &instance), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetUUID(instance, uuid, sizeof uuid), NVML_SUCCESS);
    assert_string_equal(uuid, "MIG-eeeeeeee-0000-0000-0000-000000000008");
    assert_int_equal(p_nvmlDeviceGetMemoryInfo(instance, &memory), NVML_SUCCESS);
    assert_true(memory.total == 10048ull << 20);
    assert_int_equal(p_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance, &parent), NVML_SUCCESS);
    assert_ptr_equal(parent, device_at(5));
    assert_int_equal(p_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(parent, &parent), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
}

static void test_failures(void **state)
{
    unsigned n;

    (void)state;
    set("CUSIM_NVML_FAIL", "nvmlInit_v2=18");
    assert_int_equal(p_nvmlInit_v2(), NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    assert_string_equal(p_nvmlErrorString(18), "Driver/library version mismatch");
    set("CUSIM_NVML_FAIL", "nvmlDeviceGetPowerUsage@2=15,nvmlDeviceGetTemperature=3");
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetTemperature(device_at(0), NVML_TEMPERATURE_GPU, &n), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(p_nvmlDeviceGetPowerUsage(device_at(0), &n), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetPowerUsage(device_at(0), &n), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(p_nvmlDeviceGetPowerUsage(device_at(0), &n), NVML_SUCCESS);
    set("CUSIM_NVML_FAIL", NULL);
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
    set("CUSIM_MACHINE", "/nowhere");
    assert_int_equal(p_nvmlInit_v2(), NVML_ERROR_UNKNOWN);
}

/* Each set is told once, of GPUs it was asked to watch; instances have no events of their own. */
static void test_events(void **state)
{
    nvmlEventSet_t sets[2];
    nvmlEventData_t event;
    nvmlDevice_t instance;
    unsigned long long types;

    (void)state;
    set("CUSIM_MACHINE", CUSIM_MACHINES "/mixed.txt");
    assert_int_equal(p_nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetSupportedEventTypes(device_at(2), &types), NVML_SUCCESS);
    assert_true((types & NVML_EVENT_XID) != 0);
    assert_int_equal(p_nvmlDeviceGetMigDeviceHandleByIndex(device_at(5), 0, &instance), NVML_SUCCESS);
    assert_int_equal(p_nvmlDeviceGetSupportedEventTypes(instance, &types), NVML_SUCCESS);
    assert_true(types == 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p_nvmlEventSetCreate(&sets[i]), NVML_SUCCESS);
        assert_int_equal(p_nvmlEventSetWait_v2(sets[i], &event, 1), NVML_ERROR_TIMEOUT);
        assert_int_equal(p_nvmlDeviceRegisterEvents(device_at(1), NVML_EVENT_XID, sets[i]), NVML_SUCCESS);
        assert_int_equal(p_nvmlEventSetWait_v2(sets[i], &event, 1), NVML_ERROR_TIMEOUT);
        assert_int_equal(p_nvmlDeviceRegisterEvents(device_at(2), NVML_EVENT_XID, sets[i]), NVML_SUCCESS);
        assert_int_equal(p_nvmlEventSetWait_v2(sets[i], &event, 1), NVML_SUCCESS);
        assert_true(event.device == device_at(2) && event.eventType == NVML_EVENT_XID && event.eventData == 31);
        assert_int_equal(event.gpuInstanceId, NVML_INSTANCE_ANY);
        assert_int_equal(p_nvmlEventSetWait_v2(sets[i], &event, 1), NVML_ERROR_TIMEOUT);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p_nvmlEventSetFree(sets[i]), NVML_SUCCESS);
    }
    assert_int_equal(p_nvmlShutdown(), NVML_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_initialized), cmocka_unit_test(test_devices),  cmocka_unit_test(test_how_they_fare),
        cmocka_unit_test(test_instances),       cmocka_unit_test(test_failures), cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, open_library, NULL);
}
