/* Reads the description of a machine. One item a line; `#` starts a comment, a value with blanks stands in quotes:
 *
 *     driver 580.65.06            # or: driver none
 *     cuda 13000                  # newest CUDA of the driver
 *     gpu name="NVIDIA A100" cc=8.0 mem=81920 used=79100 util=97 memutil=40 temp=78 power=391 cap=400 sms=108
 * clock=1410 bus=0000:07:00.0 uuid=GPU-... numa=0 ecc=0 xid=0 throttle=0 remap_failed=0 lost=0 seized=0 mig=off
 * mode=default|exclusive|prohibited   (on one line) instance gpu=5 gi=1 ci=0 mem=20480 sms=28 uuid=MIG-...     # part of a GPU that has mig=on proc gpu=1 pid=4242
 * mem=78000 graphics=0 link 1 3 nvlink             # internal nvlink pix pxb phb node sys
 *
 * Memory is in MiB unless it ends in k, M or G. GPUs are numbered from 0 in the order of their lines. What is left out
 * keeps the default of gpu_default(). */
#include "machine_line.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct reader {
    cusim_line line;
    cusim_machine *machine;
} reader;

#define FAIL(r, ...) cusim_line_fail(&(r)->line, __VA_ARGS__)

#define AT(type, field) offsetof(type, field)
static const cusim_key gpu_keys[] = {
    {"name", TEXT, AT(cusim_gpu, name), 0, sizeof((cusim_gpu *)0)->name},
    {"uuid", TEXT, AT(cusim_gpu, uuid), 0, sizeof((cusim_gpu *)0)->uuid},
    {"bus", BUS, AT(cusim_gpu, pci_domain), 0, 0},
    {"cc", CAPABILITY, AT(cusim_gpu, cc_major), 0, 0},
    {"mem", MEMORY, AT(cusim_gpu, memory), 0, 0},
    {"used", MEMORY, AT(cusim_gpu, memory_used), 0, 0},
    {"sms", INTEGER, AT(cusim_gpu, sms), 1, 1024},
    {"clock", INTEGER, AT(cusim_gpu, clock_mhz), 1, 100000},
    {"util", INTEGER, AT(cusim_gpu, utilization), 0, 100},
    {"memutil", INTEGER, AT(cusim_gpu, memory_utilization), 0, 100},
    {"temp", INTEGER, AT(cusim_gpu, temperature), 0, 200},
    {"power", INTEGER, AT(cusim_gpu, power_watts), 0, 10000},
    {"cap", INTEGER, AT(cusim_gpu, power_limit_watts), 1, 10000},
    {"numa", INTEGER, AT(cusim_gpu, numa_node), -1, 1024},
    {"ecc", INTEGER, AT(cusim_gpu, ecc_errors), 0, 1000000},
    {"xid", INTEGER, AT(cusim_gpu, xid), 0, 1000},
    {"throttle", INTEGER, AT(cusim_gpu, throttle), 0, 0x7fffffff},
    {"remap_failed", FLAG, AT(cusim_gpu, remap_failed), 0, 0},
    {"seized", FLAG, AT(cusim_gpu, seized), 0, 0},
    {"lost", FLAG, AT(cusim_gpu, lost), 0, 0},
    {"mig", ON_OFF, AT(cusim_gpu, mig), 0, 0},
    {"mode", MODE, AT(cusim_gpu, compute_mode), 0, 0},
};
static const cusim_key process_keys[] = {
    {"gpu", INTEGER, AT(cusim_process, gpu), 0, CUSIM_MAX_GPUS - 1},
    {"pid", INTEGER, AT(cusim_process, pid), 1, 1 << 22},
    {"mem", MEMORY, AT(cusim_process, memory), 0, 0},
    {"graphics", FLAG, AT(cusim_process, graphics), 0, 0},
};
static const cusim_key instance_keys[] = {
    {"gpu", INTEGER, AT(cusim_instance, gpu), 0, CUSIM_MAX_GPUS - 1},
    {"gi", INTEGER, AT(cusim_instance, gpu_instance), 0, 64},
    {"ci", INTEGER, AT(cusim_instance, compute_instance), 0, 64},
    {"uuid", TEXT, AT(cusim_instance, uuid), 0, sizeof((cusim_instance *)0)->uuid},
    {"sms", INTEGER, AT(cusim_instance, sms), 1, 1024},
    {"mem", MEMORY, AT(cusim_instance, memory), 0, 0},
};

static cusim_gpu gpu_default(int index)
{
    cusim_gpu gpu = {.cc_major = 9,
                     .sms = 132,
                     .clock_mhz = 1980,
                     .temperature = 35,
                     .power_watts = 70,
                     .power_limit_watts = 700,
                     .numa_node = 0,
                     .memory = (size_t)1 << 30,
                     .pci_bus = 1 + 8 * (unsigned)index};

    snprintf(gpu.name, sizeof gpu.name, "Simulated GPU");
    /* The first eight digits differ, so that an abbreviated UUID names one GPU. */
    snprintf(gpu.uuid, sizeof gpu.uuid, "GPU-%08x-0000-0000-0000-%012x", 0xa0000000u + (unsigned)index,
             (unsigned)index);
    return gpu;
}

static int read_gpu(reader *r, char *rest)
{
    cusim_machine *m = r->machine;

    if (m->n_gpus == CUSIM_MAX_GPUS) {
        return FAIL(r, "more than %d GPUs", CUSIM_MAX_GPUS);
    }
    cusim_gpu *gpu = &m->gpus[m->n_gpus];
    *gpu = gpu_default(m->n_gpus);
    if (cusim_line_keys(&r->line, "gpu", rest, gpu_keys, sizeof gpu_keys / sizeof gpu_keys[0], gpu) != 0) {
        return -1;
    }
    if (gpu->memory_used > gpu->memory) {
        return FAIL(r, "used is more than mem");
    }
    if (strncmp(gpu->uuid, "GPU-", 4) != 0) {
        return FAIL(r, "uuid is '%s', it must begin with GPU-", gpu->uuid);
    }
    for (const cusim_gpu *other = m->gpus; other < gpu; other++) {
        if (strcmp(other->uuid, gpu->uuid) == 0) {
            return FAIL(r, "GPU %d has the uuid %s, too", (int)(other - m->gpus), gpu->uuid);
        }
        if (other->pci_domain == gpu->pci_domain && other->pci_bus == gpu->pci_bus &&
            other->pci_device == gpu->pci_device) {
            return FAIL(r, "GPU %d has the same PCI address", (int)(other - m->gpus));
        }
    }
    m->n_gpus++;
    return 0;
}

static int check_gpu(reader *r, int gpu)
{
    return gpu < r->machine->n_gpus ? 0 : FAIL(r, "GPU %d is not described above", gpu);
}

static int read_process(reader *r, char *rest)
{
    cusim_machine *m = r->machine;

    if (m->n_processes == CUSIM_MAX_PROCESSES) {
        return FAIL(r, "more than %d processes", CUSIM_MAX_PROCESSES);
    }
    cusim_process *process = &m->processes[m->n_processes++];
    *process = (cusim_process){.pid = 1};
    if (cusim_line_keys(&r->line, "proc", rest, process_keys, sizeof process_keys / sizeof process_keys[0], process) !=
        0) {
        return -1;
    }
    return check_gpu(r, process->gpu);
}

static int read_instance(reader *r, char *rest)
{
    cusim_machine *m = r->machine;

    if (m->n_instances == CUSIM_MAX_INSTANCES) {
        return FAIL(r, "more than %d instances", CUSIM_MAX_INSTANCES);
    }
    cusim_instance *instance = &m->instances[m->n_instances++];
    *instance = (cusim_instance){.sms = 14, .memory = (size_t)128 << 20};
    snprintf(instance->uuid, sizeof instance->uuid, "MIG-%08x-0000-0000-0000-000000000000",
             0xb0000000u + (unsigned)m->n_instances);
    if (cusim_line_keys(&r->line, "instance", rest, instance_keys, sizeof instance_keys / sizeof instance_keys[0],
                        instance) != 0) {
        return -1;
    }
    if (strncmp(instance->uuid, "MIG-", 4) != 0) {
        return FAIL(r, "uuid is '%s', it must begin with MIG-", instance->uuid);
    }
    if (check_gpu(r, instance->gpu) != 0) {
        return -1;
    }
    return m->gpus[instance->gpu].mig ? 0 : FAIL(r, "GPU %d is not in MIG mode (mig=on)", instance->gpu);
}

static int read_link(reader *r, char *rest)
{
    static const struct {
        const char *name;
        cusim_link link;
    } names[] = {{"internal", CUSIM_LINK_INTERNAL},
                 {"nvlink", CUSIM_LINK_NVLINK},
                 {"pix", CUSIM_LINK_PIX},
                 {"pxb", CUSIM_LINK_PXB},
                 {"phb", CUSIM_LINK_PHB},
                 {"node", CUSIM_LINK_NODE},
                 {"sys", CUSIM_LINK_SYS}};
    char *first = cusim_line_word(&rest), *second = cusim_line_word(&rest), *kind = cusim_line_word(&rest);
    long a, b;

    if (kind == NULL || cusim_line_word(&rest) != NULL) {
        return FAIL(r, "link takes two GPUs and a kind");
    }
    if (cusim_line_integer(&r->line, "GPU", first, 0, r->machine->n_gpus - 1, &a) != 0 ||
        cusim_line_integer(&r->line, "GPU", second, 0, r->machine->n_gpus - 1, &b) != 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(kind, names[i].name) == 0) {
            r->machine->links[a][b] = r->machine->links[b][a] = names[i].link;
            return 0;
        }
    }
    return FAIL(r, "no kind of link is called '%s'", kind);
}

static int read_driver(reader *r, char *rest)
{
    char *version = cusim_line_word(&rest);

    if (version == NULL || cusim_line_word(&rest) != NULL || strlen(version) >= sizeof r->machine->driver) {
        return FAIL(r, "driver takes a version, or none");
    }
    r->machine->has_driver = strcmp(version, "none") != 0;
    strcpy(r->machine->driver, r->machine->has_driver ? version : "");
    return 0;
}

static int read_cuda(reader *r, char *rest)
{
    char *version = cusim_line_word(&rest);
    long n;

    if (version == NULL || cusim_line_word(&rest) != NULL) {
        return FAIL(r, "cuda takes a version such as 13000");
    }
    if (cusim_line_integer(&r->line, "cuda", version, 1000, 99990, &n) != 0) {
        return -1;
    }
    r->machine->cuda_version = (int)n;
    return 0;
}

static int read_line(reader *r, char *line)
{
    static const struct {
        const char *name;
        int (*read)(reader *r, char *rest);
    } items[] = {{"gpu", read_gpu},   {"proc", read_process},  {"instance", read_instance},
                 {"link", read_link}, {"driver", read_driver}, {"cuda", read_cuda}};
    char *item = cusim_line_word(&line);

    for (size_t i = 0; item != NULL && i < sizeof items / sizeof items[0]; i++) {
        if (strcmp(item, items[i].name) == 0) {
            return items[i].read(r, line);
        }
    }
    return item == NULL ? 0 : FAIL(r, "no item is called '%s'", item);
}

static void machine_default(cusim_machine *m)
{
    *m = (cusim_machine){.has_driver = true, .driver = "580.65.06", .cuda_version = 13000};
    for (int i = 0; i < CUSIM_MAX_GPUS; i++) {
        for (int k = 0; k < CUSIM_MAX_GPUS; k++) {
            m->links[i][k] = i == k ? CUSIM_LINK_INTERNAL : CUSIM_LINK_SYS;
        }
    }
}

int cusim_machine_parse(const char *text, const char *name, cusim_machine *out, char *error, size_t error_size)
{
    reader r = {{name, 0, error, error_size}, out};
    char line[1024];

    machine_default(out);
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        r.line.number++;
        if (n >= sizeof line) {
            return FAIL(&r, "line of more than %zu characters", sizeof line - 1);
        }
        memcpy(line, text, n);
        line[n] = '\0';
        if (read_line(&r, line) != 0) {
            return -1;
        }
        text += n + (text[n] == '\n');
    }
    return 0;
}

static int load_file(const char *path, cusim_machine *out, char *error, size_t error_size)
{
    static const size_t limit = (size_t)1 << 16;
    reader r = {{path, 0, error, error_size}, out};
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        return FAIL(&r, "%s", strerror(errno));
    }
    char *text = malloc(limit);
    size_t n = text != NULL ? fread(text, 1, limit, file) : limit;
    bool whole = n < limit && ferror(file) == 0;
    fclose(file);
    if (whole) {
        text[n] = '\0';
    }
    int result =
        whole ? cusim_machine_parse(text, path, out, error, error_size) : FAIL(&r, "cannot be read, or is too large");
    free(text);
    return result;
}

int cusim_machine_load(cusim_machine *out, char *error, size_t error_size)
{
    const char *path = getenv("CUSIM_MACHINE"), *devices = getenv("CUSIM_DEVICES");
    reader r = {{"CUSIM_DEVICES", 0, error, error_size}, out};
    long n = 4;

    if (path != NULL) {
        return load_file(path, out, error, error_size);
    }
    machine_default(out);
    if (devices != NULL && cusim_line_integer(&r.line, "it", devices, 0, CUSIM_MAX_GPUS, &n) != 0) {
        return -1;
    }
    for (out->n_gpus = 0; out->n_gpus < n; out->n_gpus++) {
        out->gpus[out->n_gpus] = gpu_default(out->n_gpus);
    }
    return 0;
}

void cusim_machine_bus_text(const cusim_gpu *gpu, char *out, size_t size)
{
    snprintf(out, size, "%04x:%02x:%02x.0", gpu->pci_domain & 0xffff, gpu->pci_bus & 0xff, gpu->pci_device & 0xff);
}
