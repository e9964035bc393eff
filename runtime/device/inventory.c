#include "device/inventory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/cuda_driver.h"
#include "device/inventory_source.h"

void lsi_inventory_blank(lsi_gpu *out)
{
    *out = (lsi_gpu){
        .pci_domain = LSI_GPU_UNKNOWN,
        .pci_bus = LSI_GPU_UNKNOWN,
        .pci_device = LSI_GPU_UNKNOWN,
        .ordinal = LSI_GPU_UNKNOWN,
        .nvml_index = LSI_GPU_UNKNOWN,
        .parent = LSI_GPU_UNKNOWN,
        .gpu_instance = LSI_GPU_UNKNOWN,
        .compute_instance = LSI_GPU_UNKNOWN,
        .capability = LSI_GPU_UNKNOWN,
        .sms = LSI_GPU_UNKNOWN,
        .numa_node = LSI_GPU_UNKNOWN,
        .compute_mode = LSI_GPU_UNKNOWN,
        .memory_total = LSI_GPU_UNKNOWN,
        .memory_free = LSI_GPU_UNKNOWN,
        .utilization = LSI_GPU_UNKNOWN,
        .memory_utilization = LSI_GPU_UNKNOWN,
        .temperature_c = LSI_GPU_UNKNOWN,
        .power_mw = LSI_GPU_UNKNOWN,
        .power_limit_mw = LSI_GPU_UNKNOWN,
        .energy_mj = LSI_GPU_UNKNOWN,
        .sm_clock_mhz = LSI_GPU_UNKNOWN,
        .memory_clock_mhz = LSI_GPU_UNKNOWN,
        .pcie_replays = LSI_GPU_UNKNOWN,
        .max_sm_clock_mhz = LSI_GPU_UNKNOWN,
        .throttle_reasons = LSI_GPU_UNKNOWN,
        .ecc_errors = LSI_GPU_UNKNOWN,
        .row_remap_failed = LSI_GPU_UNKNOWN,
        .n_processes = LSI_GPU_UNKNOWN,
    };
}

/* ---- joining what CUDA sees with what NVML knows ---------------------------------------------------------------- */

/* CUDA gives 16 bytes; what kind of device they name stands in NVML's text only. */
static void uuid_text(const char *kind, const unsigned char bytes[16], char out[LSI_GPU_UUID])
{
    int n = snprintf(out, LSI_GPU_UUID, "%s", kind);

    for (int i = 0; i < 16; i++) {
        n += snprintf(out + n, LSI_GPU_UUID - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      bytes[i]);
    }
}

static bool is_instance(const lsi_cuda_seen *seen)
{
    return strstr(seen->name, "MIG") != NULL;
}

/* Place of the entry that is this device. Some drivers tell an instance's GPU in place of the instance: then it is the
 * GPU's only one, or unknown which. */
static int find_seen(const lsi_inventory *inventory, const lsi_cuda_seen *seen)
{
    char gpu[LSI_GPU_UUID], mig[LSI_GPU_UUID];
    int place = LSI_GPU_UNKNOWN;

    if (seen->has_uuid) {
        uuid_text("GPU-", seen->uuid, gpu);
        uuid_text("MIG-", seen->uuid, mig);
        place = lsi_inventory_find_uuid(inventory, mig);
        place = place == LSI_GPU_UNKNOWN ? lsi_inventory_find_uuid(inventory, gpu) : place;
    }
    if (place == LSI_GPU_UNKNOWN && seen->pci_bus >= 0) {
        place = lsi_inventory_find_pci(inventory, seen->pci_domain, seen->pci_bus, seen->pci_device);
    }
    if (place == LSI_GPU_UNKNOWN || !inventory->gpus[place].mig) {
        return place;
    }
    int only = LSI_GPU_UNKNOWN, n = 0;
    for (int i = 0; i < inventory->n; i++) {
        if (inventory->gpus[i].parent == place) {
            only = i;
            n++;
        }
    }
    return n == 1 ? only : LSI_GPU_UNKNOWN;
}

static void take_seen(lsi_inventory *inventory, const lsi_cuda_seen *seen, int ordinal)
{
    int place = find_seen(inventory, seen);

    if (place == LSI_GPU_UNKNOWN) {
        if (inventory->n == LSI_GPU_MAX) {
            return;
        }
        place = inventory->n++;
        lsi_inventory_blank(&inventory->gpus[place]);
        memset(inventory->link[place], LSI_LINK_UNKNOWN, sizeof inventory->link[place]);
        if (seen->has_uuid) {
            uuid_text(is_instance(seen) ? "MIG-" : "GPU-", seen->uuid, inventory->gpus[place].uuid);
        }
        inventory->gpus[place].pci_domain = seen->pci_domain;
        inventory->gpus[place].pci_bus = seen->pci_bus;
        inventory->gpus[place].pci_device = seen->pci_device;
    }
    lsi_gpu *gpu = &inventory->gpus[place];
    gpu->ordinal = ordinal;
    gpu->sms = seen->sms;
    inventory->n_visible++;
    if (gpu->name[0] == '\0') {
        snprintf(gpu->name, sizeof gpu->name, "%s", seen->name);
    }
    gpu->capability = gpu->capability == LSI_GPU_UNKNOWN ? seen->capability : gpu->capability;
    gpu->compute_mode = gpu->compute_mode == LSI_GPU_UNKNOWN ? seen->compute_mode : gpu->compute_mode;
    gpu->memory_total = gpu->memory_total == LSI_GPU_UNKNOWN ? seen->memory_total : gpu->memory_total;
}

static void look_through_cuda(lsi_inventory *inventory)
{
    lsi_cuda_seen seen[LSI_GPU_MAX];
    lsi_cuda_view view;

    lsi_cuda_driver_look(seen, LSI_GPU_MAX, &view);
    inventory->cuda_version = view.version > 0 ? view.version : LSI_GPU_UNKNOWN;
    snprintf(inventory->cuda_trouble, sizeof inventory->cuda_trouble, "%s", view.trouble);
    for (int i = 0; i < view.n; i++) {
        take_seen(inventory, &seen[i], i);
    }
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static bool stands_behind(const lsi_gpu *a, const lsi_gpu *b)
{
    if (a->lost != b->lost) {
        return a->lost;
    }
    if (a->pci_domain != b->pci_domain) {
        return a->pci_domain > b->pci_domain;
    }
    return a->pci_bus != b->pci_bus ? a->pci_bus > b->pci_bus : a->pci_device > b->pci_device;
}

/* By PCI address. Instances have their GPU's and stand behind it already, and equal ones keep their order. */
static void sort(lsi_inventory *inventory)
{
    struct lsi_inventory_sources *s = inventory->sources;
    int place[LSI_GPU_MAX]; /* where the entry that was at i has gone */
    int from[LSI_GPU_MAX];

    for (int i = 0; i < inventory->n; i++) {
        from[i] = i;
    }
    for (int i = 1; i < inventory->n; i++) {
        for (int k = i; k > 0 && stands_behind(&inventory->gpus[k - 1], &inventory->gpus[k]); k--) {
            lsi_gpu gpu = inventory->gpus[k];
            nvmlDevice_t handle = s->handle[k];
            int origin = from[k];

            inventory->gpus[k] = inventory->gpus[k - 1];
            s->handle[k] = s->handle[k - 1];
            from[k] = from[k - 1];
            inventory->gpus[k - 1] = gpu;
            s->handle[k - 1] = handle;
            from[k - 1] = origin;
        }
    }
    for (int i = 0; i < inventory->n; i++) {
        place[from[i]] = i;
    }
    for (int i = 0; i < inventory->n; i++) {
        if (inventory->gpus[i].parent != LSI_GPU_UNKNOWN) {
            inventory->gpus[i].parent = place[inventory->gpus[i].parent];
        }
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status lsi_inventory_open(lsi_inventory **out)
{
    lsi_inventory *inventory;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof *inventory, "the inventory of GPUs", (void **)&inventory));
    ls_status status = lsi_memory_alloc(sizeof *inventory->sources, "the inventory of GPUs", &memory);
    inventory->sources = status == LS_OK ? memory : NULL;
    if (status == LS_OK) {
        status = lsi_memory_alloc(LSI_GPU_MAX * sizeof *inventory->gpus, "the inventory of GPUs", &memory);
        inventory->gpus = status == LS_OK ? memory : NULL;
    }
    if (status != LS_OK) {
        lsi_inventory_close(&inventory);
        return status;
    }
    memset(inventory->link, LSI_LINK_UNKNOWN, sizeof inventory->link);
    if (lsi_nvml_open(&inventory->sources->nvml, inventory->nvml_trouble, sizeof inventory->nvml_trouble)) {
        lsi_inventory_nvml_list(inventory);
    }
    look_through_cuda(inventory);
    sort(inventory);
    lsi_inventory_nvml_links(inventory);
    lsi_inventory_refresh(inventory);
    *out = inventory;
    return LS_OK;
}

void lsi_inventory_close(lsi_inventory **inventory)
{
    lsi_inventory *old = *inventory;

    if (old != NULL) {
        if (old->sources != NULL) {
            lsi_nvml_close(&old->sources->nvml);
        }
        lsi_memory_free(old->sources);
        lsi_memory_free(old->gpus);
        lsi_memory_free(old);
        *inventory = NULL;
    }
}

/* ---- over time ------------------------------------------------------------------------------------------------------
 */

void lsi_inventory_refresh(lsi_inventory *inventory)
{
    for (int i = 0; i < inventory->n; i++) {
        lsi_inventory_nvml_refresh(inventory, i);
    }
}

void lsi_inventory_refresh_entry(lsi_inventory *inventory, int place)
{
    lsi_inventory_nvml_refresh(inventory, place);
    if (inventory->gpus[place].parent != LSI_GPU_UNKNOWN) {
        lsi_inventory_nvml_refresh(inventory, inventory->gpus[place].parent);
    }
}

/* A driver's own figure covers between a sixth of a second and a second, so looks closer than that tell nothing new. */
void lsi_inventory_sample(lsi_inventory *inventory, double seconds)
{
    enum { MOST_LOOKS = 64 };
    const double pause = 0.2;
    double end = lsi_clock_seconds() + seconds;
    int sum[LSI_GPU_MAX] = {0}, n[LSI_GPU_MAX] = {0};

    for (int look = 0; look < MOST_LOOKS; look++) {
        lsi_inventory_refresh(inventory);
        for (int i = 0; i < inventory->n; i++) {
            if (inventory->gpus[i].utilization != LSI_GPU_UNKNOWN) {
                sum[i] += inventory->gpus[i].utilization;
                n[i]++;
            }
        }
        if (lsi_clock_seconds() + pause > end) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)(pause * 1e9)}, NULL);
    }
    for (int i = 0; i < inventory->n; i++) {
        if (n[i] > 0) {
            inventory->gpus[i].utilization = (sum[i] + n[i] / 2) / n[i];
        }
    }
}

/* ---- finding -------------------------------------------------------------------------------------------------------
 */

int lsi_inventory_find_ordinal(const lsi_inventory *inventory, int ordinal)
{
    for (int i = 0; i < inventory->n && ordinal >= 0; i++) {
        if (inventory->gpus[i].ordinal == ordinal) {
            return i;
        }
    }
    return LSI_GPU_UNKNOWN;
}

int lsi_inventory_whole(const lsi_inventory *inventory, int place)
{
    int parent = inventory->gpus[place].parent;

    return parent != LSI_GPU_UNKNOWN ? parent : place;
}

int lsi_inventory_find_uuid(const lsi_inventory *inventory, const char *uuid)
{
    for (int i = 0; i < inventory->n && uuid[0] != '\0'; i++) {
        if (strcmp(inventory->gpus[i].uuid, uuid) == 0) {
            return i;
        }
    }
    return LSI_GPU_UNKNOWN;
}

int lsi_inventory_find_pci(const lsi_inventory *inventory, int domain, int bus, int device)
{
    for (int i = 0; i < inventory->n; i++) {
        const lsi_gpu *gpu = &inventory->gpus[i];

        if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == device) {
            return i;
        }
    }
    return LSI_GPU_UNKNOWN;
}

void lsi_inventory_pci_text(const lsi_gpu *gpu, char out[24])
{
    if (gpu->pci_bus == LSI_GPU_UNKNOWN) {
        snprintf(out, 24, "n/a");
    } else {
        snprintf(out, 24, "%04x:%02x:%02x.0", (unsigned)gpu->pci_domain & 0xffffffu, (unsigned)gpu->pci_bus & 0xff,
                 (unsigned)gpu->pci_device & 0xff);
    }
}

const char *lsi_inventory_link_text(lsi_gpu_link link)
{
    static const char *const names[] = {"NVLink", "board", "PIX", "PXB", "PHB", "NODE", "SYS", "n/a"};

    return names[link];
}
