/* Between the inventory's files: where entries come from. */
#ifndef LSI_DEVICE_INVENTORY_SOURCE_H
#define LSI_DEVICE_INVENTORY_SOURCE_H

#include "device/inventory.h"
#include "device/nvml.h"

struct lsi_inventory_sources {
    lsi_nvml nvml;
    nvmlDevice_t handle[LSI_GPU_MAX]; /* by place in `gpus`; NULL: NVML has none */
};

/* An entry that nothing is known of. */
void lsi_inventory_blank(lsi_gpu *out);

/* inventory_nvml.c */
/* Appends all GPUs and instances that NVML knows, in its order. */
void lsi_inventory_nvml_list(lsi_inventory *inventory);
/* What changes with time, of one entry. */
void lsi_inventory_nvml_refresh(lsi_inventory *inventory, int place);
void lsi_inventory_nvml_links(lsi_inventory *inventory);

/* inventory_process.c */
/* User and command of a process, "" where the system does not tell. */
void lsi_inventory_process_owner(lsi_gpu_process *process);

#endif
