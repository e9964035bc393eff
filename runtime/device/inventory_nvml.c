/* What NVML tells of a GPU. Each figure stands alone: a driver, a model or a MIG instance that has not one of them
 * leaves it unknown, and the rest is read all the same. */
#include "device/inventory_source.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* By pointer: the value is there when the call that gives the code is over. */
static int number_or_unknown(nvmlReturn_t code, const unsigned *value)
{
    return code == NVML_SUCCESS && *value <= 0x7fffffff ? (int)*value : LSI_GPU_UNKNOWN;
}

/* ---- what stays ----------------------------------------------------------------------------------------------- */

/* The kernel knows where the driver does not (before 530); -1 on hosts with one node. */
static int numa_from_system(const lsi_gpu *gpu)
{
    char path[80];
    int node = LSI_GPU_UNKNOWN;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", (unsigned)gpu->pci_domain,
             (unsigned)gpu->pci_bus, (unsigned)gpu->pci_device);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%d", &node) != 1 || node < 0) {
            node = LSI_GPU_UNKNOWN;
        }
        fclose(file);
    }
    return node;
}

static void read_identity(const lsi_nvml *nvml, nvmlDevice_t device, lsi_gpu *out)
{
    nvmlPciInfo_t pci;
    int major, minor, mode;
    unsigned current, pending, numa;

    if (LSI_NVML_CALL(nvml, nvmlDeviceGetUUID, device, out->uuid, sizeof out->uuid) != NVML_SUCCESS) {
        out->uuid[0] = '\0';
    }
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetName, device, out->name, sizeof out->name) != NVML_SUCCESS) {
        out->name[0] = '\0';
    }
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetPciInfo_v3, device, &pci) == NVML_SUCCESS) {
        out->pci_domain = (int)pci.domain;
        out->pci_bus = (int)pci.bus;
        out->pci_device = (int)pci.device;
    }
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetCudaComputeCapability, device, &major, &minor) == NVML_SUCCESS) {
        out->capability = 10 * major + minor;
    }
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetComputeMode, device, &mode) == NVML_SUCCESS) {
        out->compute_mode = mode;
    }
    out->mig = LSI_NVML_CALL(nvml, nvmlDeviceGetMigMode, device, &current, &pending) == NVML_SUCCESS && current == 1;
    out->numa_node = number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetNumaNodeId, device, &numa), &numa);
    if (out->numa_node == LSI_GPU_UNKNOWN) {
        out->numa_node = numa_from_system(out);
    }
}

static bool append(lsi_inventory *inventory, nvmlDevice_t device, lsi_gpu **out)
{
    if (inventory->n == LSI_GPU_MAX) {
        lsi_log_debug("more than %d GPUs and instances: the others are left out", LSI_GPU_MAX);
        return false;
    }
    inventory->sources->handle[inventory->n] = device;
    *out = &inventory->gpus[inventory->n++];
    lsi_inventory_blank(*out);
    return true;
}

/* An instance has its own UUID, name and memory; the rest is its GPU's. */
static void list_instances(lsi_inventory *inventory, int parent)
{
    const lsi_nvml *nvml = &inventory->sources->nvml;
    nvmlDevice_t gpu = inventory->sources->handle[parent], instance;
    unsigned most = 0, id;
    lsi_gpu *entry;

    if (LSI_NVML_CALL(nvml, nvmlDeviceGetMaxMigDeviceCount, gpu, &most) != NVML_SUCCESS) {
        return;
    }
    for (unsigned i = 0; i < most; i++) {
        if (LSI_NVML_CALL(nvml, nvmlDeviceGetMigDeviceHandleByIndex, gpu, i, &instance) != NVML_SUCCESS) {
            continue; /* not every place is taken */
        }
        if (!append(inventory, instance, &entry)) {
            return;
        }
        const lsi_gpu *whole = &inventory->gpus[parent];
        read_identity(nvml, instance, entry);
        entry->parent = parent;
        entry->mig = false;
        entry->gpu_instance = number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetGpuInstanceId, instance, &id), &id);
        entry->compute_instance =
            number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetComputeInstanceId, instance, &id), &id);
        entry->nvml_index = whole->nvml_index;
        entry->pci_domain = whole->pci_domain;
        entry->pci_bus = whole->pci_bus;
        entry->pci_device = whole->pci_device;
        entry->capability = whole->capability;
        entry->numa_node = whole->numa_node;
        entry->compute_mode = whole->compute_mode;
    }
}

void lsi_inventory_nvml_list(lsi_inventory *inventory)
{
    const lsi_nvml *nvml = &inventory->sources->nvml;
    unsigned count = 0;
    lsi_gpu *entry;

    if (LSI_NVML_CALL(nvml, nvmlSystemGetDriverVersion, inventory->driver, sizeof inventory->driver) != NVML_SUCCESS) {
        inventory->driver[0] = '\0';
    }
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetCount_v2, &count) != NVML_SUCCESS) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        nvmlDevice_t device = NULL;
        nvmlReturn_t code = LSI_NVML_CALL(nvml, nvmlDeviceGetHandleByIndex_v2, i, &device);

        if (code == NVML_ERROR_NO_PERMISSION) {
            continue; /* a container's: the device file is not there */
        }
        if (!append(inventory, code == NVML_SUCCESS ? device : NULL, &entry)) {
            return;
        }
        entry->nvml_index = (int)i;
        entry->lost = code != NVML_SUCCESS;
        if (entry->lost) {
            continue;
        }
        read_identity(nvml, device, entry);
        if (entry->mig) {
            list_instances(inventory, inventory->n - 1);
        }
    }
}

/* ---- what changes --------------------------------------------------------------------------------------------- */

typedef nvmlReturn_t (*processes_fn)(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out);

/* False: the driver does not tell. */
static bool read_processes(processes_fn read, nvmlDevice_t device, bool graphics, lsi_gpu *out)
{
    enum { ROOM = 64 };
    nvmlProcessInfo_t list[ROOM];
    unsigned n = ROOM;
    nvmlReturn_t code = read != NULL ? read(device, &n, list) : NVML_ERROR_NOT_SUPPORTED;

    if (code != NVML_SUCCESS && code != NVML_ERROR_INSUFFICIENT_SIZE) {
        return false;
    }
    for (unsigned i = 0; code == NVML_SUCCESS && i < n && out->n_processes + (int)i < LSI_GPU_PROCESSES; i++) {
        lsi_gpu_process *process = &out->processes[out->n_processes + (int)i];

        *process = (lsi_gpu_process){.pid = list[i].pid, .graphics = graphics, .bytes = LSI_GPU_UNKNOWN};
        if (list[i].usedGpuMemory != NVML_VALUE_NOT_AVAILABLE) {
            process->bytes = (int64_t)list[i].usedGpuMemory;
        }
        lsi_inventory_process_owner(process);
    }
    out->n_processes += (int)n;
    return true;
}

static void read_load(const lsi_nvml *nvml, nvmlDevice_t device, lsi_gpu *out)
{
    nvmlUtilization_t load;
    nvmlReturn_t code = LSI_NVML_CALL(nvml, nvmlDeviceGetUtilizationRates, device, &load);

    out->utilization = code == NVML_SUCCESS ? (int)load.gpu : LSI_GPU_UNKNOWN;
    out->memory_utilization = code == NVML_SUCCESS ? (int)load.memory : LSI_GPU_UNKNOWN;
}

static void read_health(const lsi_nvml *nvml, nvmlDevice_t device, lsi_gpu *out)
{
    unsigned value, correctable, uncorrectable, pending, failed;
    unsigned long long wide;

    out->temperature_c =
        number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU, &value), &value);
    out->power_mw = number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetPowerUsage, device, &value), &value);
    out->power_limit_mw =
        number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetEnforcedPowerLimit, device, &value), &value);
    out->energy_mj = LSI_GPU_UNKNOWN;
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetTotalEnergyConsumption, device, &wide) == NVML_SUCCESS) {
        out->energy_mj = (int64_t)wide;
    }
    out->pcie_replays = number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetPcieReplayCounter, device, &value), &value);
    out->memory_clock_mhz =
        number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetClockInfo, device, NVML_CLOCK_MEMORY, &value), &value);
    out->sm_clock_mhz =
        number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM, &value), &value);
    out->max_sm_clock_mhz =
        number_or_unknown(LSI_NVML_CALL(nvml, nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_SM, &value), &value);
    out->throttle_reasons = LSI_GPU_UNKNOWN;
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetCurrentClocksThrottleReasons, device, &wide) == NVML_SUCCESS) {
        out->throttle_reasons = (int64_t)wide;
    }
    out->ecc_errors = LSI_GPU_UNKNOWN;
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetTotalEccErrors, device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                      &wide) == NVML_SUCCESS) {
        out->ecc_errors = (int64_t)wide;
    }
    out->row_remap_failed = LSI_GPU_UNKNOWN;
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetRemappedRows, device, &correctable, &uncorrectable, &pending, &failed) ==
        NVML_SUCCESS) {
        out->row_remap_failed = failed != 0;
    }
}

void lsi_inventory_nvml_refresh(lsi_inventory *inventory, int place)
{
    const lsi_nvml *nvml = &inventory->sources->nvml;
    nvmlDevice_t device = inventory->sources->handle[place];
    lsi_gpu *gpu = &inventory->gpus[place];
    nvmlMemory_t memory;

    if (device == NULL) {
        return;
    }
    nvmlReturn_t code = LSI_NVML_CALL(nvml, nvmlDeviceGetMemoryInfo, device, &memory);
    if (code == NVML_SUCCESS) {
        gpu->memory_total = (int64_t)memory.total;
        gpu->memory_free = (int64_t)memory.free;
    } else {
        gpu->memory_free = LSI_GPU_UNKNOWN;
        gpu->lost = code == NVML_ERROR_GPU_IS_LOST;
    }
    gpu->n_processes = 0;
    if (!read_processes(nvml->nvmlDeviceGetComputeRunningProcesses_v3, device, false, gpu)) {
        gpu->n_processes = LSI_GPU_UNKNOWN;
    } else {
        (void)read_processes(nvml->nvmlDeviceGetGraphicsRunningProcesses_v3, device, true, gpu);
    }
    read_load(nvml, device, gpu);
    read_health(nvml, device, gpu);
}

/* ---- how two are connected -------------------------------------------------------------------------------------- */

static lsi_gpu_link read_link(const lsi_nvml *nvml, nvmlDevice_t a, nvmlDevice_t b)
{
    enum { P2P_OK = 0 };
    static const struct {
        int level; /* nvmlGpuTopologyLevel_t */
        lsi_gpu_link link;
    } levels[] = {{0, LSI_LINK_BOARD},   {10, LSI_LINK_SWITCH}, {20, LSI_LINK_SWITCHES},
                  {30, LSI_LINK_BRIDGE}, {40, LSI_LINK_NODE},   {50, LSI_LINK_SYSTEM}};
    int status = -1, level = -1;

    if (LSI_NVML_CALL(nvml, nvmlDeviceGetP2PStatus, a, b, NVML_P2P_CAPS_INDEX_NVLINK, &status) == NVML_SUCCESS &&
        status == P2P_OK) {
        return LSI_LINK_NVLINK;
    }
    if (LSI_NVML_CALL(nvml, nvmlDeviceGetTopologyCommonAncestor, a, b, &level) == NVML_SUCCESS) {
        for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
            if (levels[i].level == level) {
                return levels[i].link;
            }
        }
    }
    return LSI_LINK_UNKNOWN;
}

/* Instances have no links of their own: between two of them nothing but the host's memory carries data. */
void lsi_inventory_nvml_links(lsi_inventory *inventory)
{
    const struct lsi_inventory_sources *s = inventory->sources;

    for (int a = 0; a < inventory->n; a++) {
        for (int b = a + 1; b < inventory->n; b++) {
            bool whole = inventory->gpus[a].parent == LSI_GPU_UNKNOWN && inventory->gpus[b].parent == LSI_GPU_UNKNOWN;
            bool known = whole && s->handle[a] != NULL && s->handle[b] != NULL;
            lsi_gpu_link link = known ? read_link(&s->nvml, s->handle[a], s->handle[b]) : LSI_LINK_UNKNOWN;

            inventory->link[a][b] = inventory->link[b][a] = (unsigned char)link;
        }
    }
}
