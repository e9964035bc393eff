/* Which devices CUDA enumerates, and in which order: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, as the driver reads
 * them. What the tests of this file fix: an item that is not valid ends the list, a repeated one empties it, integers
 * are read like strtoul ("1gpu2" is 1), a UUID may be cut to a unique prefix, and the kinds of items do not mix. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

/* Devices with an index, before the variable chooses: GPUs that work. One in MIG mode counts only with an instance. */
static int all_devices(const cusim_machine *m, cusim_visible out[CUSIM_MAX_GPUS])
{
    int n = 0;

    for (int gpu = 0; gpu < m->n_gpus; gpu++) {
        cusim_visible device = {gpu, -1};

        for (int i = m->n_instances - 1; i >= 0 && m->gpus[gpu].mig; i--) {
            device.instance = m->instances[i].gpu == gpu ? i : device.instance;
        }
        if (!m->gpus[gpu].lost && m->gpus[gpu].mig == (device.instance >= 0)) {
            out[n++] = device;
        }
    }
    return n;
}

static long speed(const cusim_machine *m, cusim_visible device)
{
    const cusim_gpu *gpu = &m->gpus[device.gpu];

    return (long)gpu->sms * gpu->clock_mhz * (gpu->cc_major + 1);
}

static unsigned long pci_order(const cusim_machine *m, cusim_visible device)
{
    const cusim_gpu *gpu = &m->gpus[device.gpu];

    return (unsigned long)gpu->pci_domain << 16 | gpu->pci_bus << 8 | gpu->pci_device;
}

static void sort_devices(const cusim_machine *m, bool by_pci, cusim_visible *devices, int n)
{
    for (int i = 1; i < n; i++) {
        for (int k = i; k > 0; k--) {
            cusim_visible a = devices[k - 1], b = devices[k];

            if (by_pci ? pci_order(m, a) < pci_order(m, b) : speed(m, a) >= speed(m, b)) {
                break;
            }
            devices[k - 1] = b;
            devices[k] = a;
        }
    }
}

/* "MIG-<GPU-uuid>/<gi>/<ci>" or "MIG-<uuid>", the latter possibly cut. */
static bool instance_matches(const cusim_machine *m, const cusim_instance *instance, const char *item, size_t length)
{
    const char *gpu_uuid = m->gpus[instance->gpu].uuid;
    size_t n = strlen(gpu_uuid);

    if (length > 8 && strncmp(item, "MIG-GPU-", 8) == 0) {
        char *end;

        if (length < 4 + n + 4 || strncmp(item + 4, gpu_uuid, n) != 0 || item[4 + n] != '/') {
            return false;
        }
        long gi = strtol(item + 5 + n, &end, 10);
        return *end == '/' && gi == instance->gpu_instance && strtol(end + 1, &end, 10) == instance->compute_instance &&
               end == item + length;
    }
    return strncmp(instance->uuid, item, length) == 0;
}

/* The one device that a UUID or a prefix of it names; {-1, -1}: none, or several. */
static cusim_visible find_uuid(const cusim_machine *m, const char *item, size_t length)
{
    cusim_visible found = {-1, -1};
    int hits = 0;

    for (int i = 0; i < m->n_gpus && item[0] == 'G'; i++) {
        if (!m->gpus[i].lost && !m->gpus[i].mig && strncmp(m->gpus[i].uuid, item, length) == 0) {
            found = (cusim_visible){i, -1};
            hits++;
        }
    }
    for (int i = 0; i < m->n_instances && item[0] == 'M'; i++) {
        if (!m->gpus[m->instances[i].gpu].lost && instance_matches(m, &m->instances[i], item, length)) {
            found = (cusim_visible){m->instances[i].gpu, i};
            hits++;
        }
    }
    return hits == 1 ? found : (cusim_visible){-1, -1};
}

/* Like strtoul: blanks, a sign, digits, whatever follows. -1: not an index of a device. */
static int read_index(const char *item, int n_devices)
{
    char *end;
    long value = strtol(item, &end, 10);

    return end == item || value < 0 || value >= n_devices ? -1 : (int)value;
}

/* CUDA enumerates at most one instance, and no whole GPU beside it. */
static int keep_one_instance(cusim_visible *devices, int n)
{
    for (int i = 0; i < n; i++) {
        if (devices[i].instance >= 0) {
            devices[0] = devices[i];
            return 1;
        }
    }
    return n;
}

int cusim_machine_visible(const cusim_machine *machine, const char *visible_devices, const char *device_order,
                          cusim_visible out[CUSIM_MAX_GPUS])
{
    cusim_visible all[CUSIM_MAX_GPUS];
    int n_all = all_devices(machine, all), n = 0;

    sort_devices(machine, device_order != NULL && strcmp(device_order, "PCI_BUS_ID") == 0, all, n_all);
    if (visible_devices == NULL) {
        memcpy(out, all, sizeof all[0] * (size_t)n_all);
        return keep_one_instance(out, n_all);
    }
    bool uuids = strncmp(visible_devices, "GPU-", 4) == 0 || strncmp(visible_devices, "MIG-", 4) == 0;
    for (const char *item = visible_devices;;) {
        size_t length = strcspn(item, ",");
        cusim_visible device = {-1, -1};

        if (uuids && strncmp(item, visible_devices, 4) == 0) {
            device = find_uuid(machine, item, length);
        } else if (!uuids) {
            int index = read_index(item, n_all);

            device = index >= 0 ? all[index] : device;
        }
        if (device.gpu < 0) {
            break;
        }
        for (int i = 0; i < n; i++) {
            if (out[i].gpu == device.gpu && out[i].instance == device.instance) {
                return 0;
            }
        }
        out[n++] = device;
        if (item[length] == '\0') {
            break;
        }
        item += length + 1;
    }
    return keep_one_instance(out, n);
}

cusim_gpu cusim_machine_device(const cusim_machine *machine, cusim_visible device)
{
    cusim_gpu gpu = machine->gpus[device.gpu];

    if (device.instance >= 0) {
        const cusim_instance *instance = &machine->instances[device.instance];

        memcpy(gpu.uuid, instance->uuid, sizeof gpu.uuid);
        gpu.sms = instance->sms;
        gpu.memory = instance->memory;
        gpu.memory_used = 0;
        strncat(gpu.name, " MIG", sizeof gpu.name - strlen(gpu.name) - 1);
    }
    return gpu;
}

bool cusim_machine_refuses(const cusim_machine *machine, int gpu)
{
    const cusim_gpu *g = &machine->gpus[gpu];
    bool occupied = g->seized;

    for (int i = 0; i < machine->n_processes; i++) {
        occupied = occupied || (machine->processes[i].gpu == gpu && !machine->processes[i].graphics);
    }
    return g->compute_mode == CUSIM_MODE_PROHIBITED || g->lost ||
           (g->compute_mode == CUSIM_MODE_EXCLUSIVE && occupied);
}
