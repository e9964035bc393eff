/* The GPUs of this host: what each one is, how it fares, who uses it, how two are connected, and CUDA's number of it in
 * this process. NVML tells what there is, the CUDA driver what this process sees; the two are joined by UUID, else by
 * PCI address, never by index. Both libraries are opened by name: every build has this, also one without CUDA, and a
 * host without them has an empty inventory that says why. No context is made on any GPU.
 *
 * What the driver does not tell is LSI_GPU_UNKNOWN (numbers) or "" (texts). One thread at a time; not collective. */
#ifndef LSI_DEVICE_INVENTORY_H
#define LSI_DEVICE_INVENTORY_H

#include <lockstep/status.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LSI_GPU_UNKNOWN = -1,
    LSI_GPU_UUID = 48, /* "GPU-" or "MIG-" and 36 characters, with the NUL and some room */
    LSI_GPU_NAME = 96,
    LSI_GPU_USER = 32,
    LSI_GPU_COMMAND = 32,
    LSI_GPU_PROCESSES = 16,
    LSI_GPU_MAX = 64 /* whole GPUs and MIG instances of one host; more are left out with a note */
};

/* Values of CUDA and NVML. */
typedef enum lsi_compute_mode {
    LSI_COMPUTE_DEFAULT = 0,
    LSI_COMPUTE_PROHIBITED = 2,
    LSI_COMPUTE_EXCLUSIVE = 3 /* one process at a time */
} lsi_compute_mode;

/* How two GPUs reach each other, best first. */
typedef enum lsi_gpu_link {
    LSI_LINK_NVLINK,
    LSI_LINK_BOARD,    /* on one board */
    LSI_LINK_SWITCH,   /* one PCIe switch (nvidia-smi: PIX) */
    LSI_LINK_SWITCHES, /* several PCIe switches (PXB) */
    LSI_LINK_BRIDGE,   /* a host bridge (PHB) */
    LSI_LINK_NODE,     /* within a NUMA node */
    LSI_LINK_SYSTEM,   /* between NUMA nodes (SYS) */
    LSI_LINK_UNKNOWN
} lsi_gpu_link;

/* A process that has a context on the GPU. Inside a container the driver tells the host's process ids: whose they are
 * is then not known here. */
typedef struct lsi_gpu_process {
    int64_t pid;
    int64_t bytes; /* of GPU memory */
    bool graphics; /* draws; a desktop's */
    char user[LSI_GPU_USER], command[LSI_GPU_COMMAND];
} lsi_gpu_process;

/* A GPU, or an instance of one in MIG mode. */
typedef struct lsi_gpu {
    char uuid[LSI_GPU_UUID]; /* "GPU-..." or "MIG-..." */
    char name[LSI_GPU_NAME];
    int pci_domain, pci_bus, pci_device;
    int ordinal;                        /* CUDA's number in this process; UNKNOWN: this process does not see it */
    int nvml_index;                     /* nvidia-smi's number; of an instance: its GPU's */
    int parent;                         /* of a MIG instance: its GPU's place in the inventory; UNKNOWN: a whole GPU */
    int gpu_instance, compute_instance; /* of a MIG instance */
    bool mig;                           /* a whole GPU in MIG mode: only its instances can be used */
    bool lost;                          /* fell off the bus: only nvml_index is known */

    int capability; /* 10 x major + minor */
    int sms;        /* streaming multiprocessors */
    int numa_node;
    int compute_mode;                  /* lsi_compute_mode */
    int64_t memory_total, memory_free; /* bytes */

    int utilization, memory_utilization; /* per cent, of the last sample; over time see lsi_inventory_sample */
    int temperature_c;
    int power_mw, power_limit_mw;
    int64_t energy_mj; /* since the driver was loaded */
    int sm_clock_mhz, max_sm_clock_mhz, memory_clock_mhz;
    int64_t pcie_replays; /* since the last reset */
    int64_t throttle_reasons; /* NVML's bits */
    int64_t ecc_errors;       /* uncorrected, since the driver was loaded */
    int row_remap_failed;     /* 1: the memory has more faults than spare rows */

    int n_processes; /* how many there are, the array has at most LSI_GPU_PROCESSES of them; UNKNOWN: not told */
    lsi_gpu_process processes[LSI_GPU_PROCESSES];
} lsi_gpu;

typedef struct lsi_inventory {
    int n, n_visible;                             /* entries; those with an ordinal */
    lsi_gpu *gpus;                                /* by PCI address, instances behind their GPU, lost ones last */
    unsigned char link[LSI_GPU_MAX][LSI_GPU_MAX]; /* lsi_gpu_link, by place in `gpus` */
    char driver[32];                              /* version of the NVIDIA driver */
    int cuda_version;                             /* newest CUDA of the driver, 13000 is 13.0; UNKNOWN without */
    char nvml_trouble[160];                       /* why NVML tells nothing, "" when it does */
    char cuda_trouble[160];                       /* why CUDA sees no GPU, "" when it does */
    struct lsi_inventory_sources *sources;
} lsi_inventory;

/* Opens the libraries and reads everything. That there is no GPU, no NVML or no driver is no failure; out of memory is.
 * CUDA fixes what this process sees at the first call in it, so CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER must be as
 * wanted by then (device/visibility.h). */
LS_MUST_USE ls_status lsi_inventory_open(lsi_inventory **out);
/* Accepts NULL. */
void lsi_inventory_close(lsi_inventory **inventory);
/* Reads again what changes: memory, processes, utilisation, health. A GPU that is lost meanwhile is marked so. */
void lsi_inventory_refresh(lsi_inventory *inventory);
/* Likewise of one entry, and, of an instance, of its GPU. */
void lsi_inventory_refresh_entry(lsi_inventory *inventory, int place);
/* Watches for `seconds` and leaves the mean utilisation in the entries, everything else as it is at the end. 0: as
 * lsi_inventory_refresh. */
void lsi_inventory_sample(lsi_inventory *inventory, double seconds);

/* Place of the entry with this CUDA ordinal, UUID (exact) or PCI address; UNKNOWN: none. */
int lsi_inventory_find_ordinal(const lsi_inventory *inventory, int ordinal);
int lsi_inventory_find_uuid(const lsi_inventory *inventory, const char *uuid);
int lsi_inventory_find_pci(const lsi_inventory *inventory, int domain, int bus, int device);

/* The GPU that an instance is part of; a whole GPU is its own. */
int lsi_inventory_whole(const lsi_inventory *inventory, int place);

/* The address as CUDA writes it, "0000:07:00.0". */
void lsi_inventory_pci_text(const lsi_gpu *gpu, char out[24]);
/* "NVLink", "PIX", ...: as `nvidia-smi topo -m` calls them. */
const char *lsi_inventory_link_text(lsi_gpu_link link);

#endif
