/* The described machine: the GPUs that the simulated CUDA runtime, NVML and NCCL tell of. It comes from the file that
 * CUSIM_MACHINE names, else it is CUSIM_DEVICES (default 4) equal GPUs. The syntax is on top of machine.c. */
#ifndef CUSIM_MACHINE_H
#define CUSIM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum { CUSIM_MAX_GPUS = 16, CUSIM_MAX_PROCESSES = 64, CUSIM_MAX_INSTANCES = 32 };

/* How two GPUs reach each other: nvmlGpuTopologyLevel_t, and NVLink, which NVML tells separately. */
typedef enum cusim_link {
    CUSIM_LINK_INTERNAL = 0, /* on one board */
    CUSIM_LINK_NVLINK = 1,
    CUSIM_LINK_PIX = 10,  /* one PCIe switch */
    CUSIM_LINK_PXB = 20,  /* several PCIe switches */
    CUSIM_LINK_PHB = 30,  /* a host bridge */
    CUSIM_LINK_NODE = 40, /* one NUMA node */
    CUSIM_LINK_SYS = 50   /* between NUMA nodes */
} cusim_link;

typedef enum cusim_compute_mode { /* values of cudaComputeMode and nvmlComputeMode_t */
                                  CUSIM_MODE_DEFAULT = 0,
                                  CUSIM_MODE_PROHIBITED = 2,
                                  CUSIM_MODE_EXCLUSIVE = 3
} cusim_compute_mode;

typedef struct cusim_gpu {
    char name[96];
    char uuid[48]; /* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx; MIG-... for an instance */
    unsigned pci_domain, pci_bus, pci_device;
    int cc_major, cc_minor; /* compute capability */
    int sms;                /* streaming multiprocessors */
    int clock_mhz;
    int utilization, memory_utilization; /* per cent */
    int temperature;                     /* degrees Celsius */
    int power_watts, power_limit_watts;
    int numa_node;  /* -1: not known */
    int ecc_errors; /* uncorrected */
    int xid;        /* error that it tells of while somebody listens; 0: none */
    int throttle;   /* why clocks are low: NVML's bits */
    bool mig, lost, remap_failed;
    bool seized; /* in exclusive mode: by a process that NVML does not tell of yet */
    cusim_compute_mode compute_mode;
    size_t memory, memory_used; /* bytes; used: by others than the simulated process */
} cusim_gpu;

/* A process that uses a GPU, as NVML tells of it. */
typedef struct cusim_process {
    int gpu, pid;
    bool graphics;
    size_t memory; /* bytes; 0: the driver does not tell */
} cusim_process;

/* A part of a GPU in MIG mode. */
typedef struct cusim_instance {
    int gpu, gpu_instance, compute_instance;
    char uuid[48];
    int sms;
    size_t memory;
} cusim_instance;

typedef struct cusim_machine {
    bool has_driver;
    char driver[32];  /* version of the driver, as text */
    int cuda_version; /* newest CUDA of the driver: 13000 is 13.0 */
    int n_gpus, n_processes, n_instances;
    cusim_gpu gpus[CUSIM_MAX_GPUS]; /* in NVML's order */
    cusim_process processes[CUSIM_MAX_PROCESSES];
    cusim_instance instances[CUSIM_MAX_INSTANCES];
    cusim_link links[CUSIM_MAX_GPUS][CUSIM_MAX_GPUS];
} cusim_machine;

/* Both return 0, or -1 with one line in `error`. parse: `name` is what the line calls the text. */
int cusim_machine_load(cusim_machine *out, char *error, size_t error_size);
int cusim_machine_parse(const char *text, const char *name, cusim_machine *out, char *error, size_t error_size);

/* Whether CUDA refuses a context on this GPU: its compute mode is prohibited, or exclusive and another process has it.
 */
bool cusim_machine_refuses(const cusim_machine *machine, int gpu);

/* One device as CUDA enumerates it. */
typedef struct cusim_visible {
    int gpu;      /* index in `gpus` */
    int instance; /* index in `instances`, -1: the whole GPU */
} cusim_visible;

/* What a process sees that was started with these values of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (NULL: not set).
 * Device i of CUDA is out[i]; returns how many there are. */
int cusim_machine_visible(const cusim_machine *machine, const char *visible_devices, const char *device_order,
                          cusim_visible out[CUSIM_MAX_GPUS]);

/* The properties of a device: its GPU's, with the instance's where it is one. */
cusim_gpu cusim_machine_device(const cusim_machine *machine, cusim_visible device);

/* "0000:07:00.0", the form CUDA uses. */
void cusim_machine_bus_text(const cusim_gpu *gpu, char *out, size_t size);

#endif
