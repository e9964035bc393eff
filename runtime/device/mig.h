/* MIG: a process sees one instance, whatever there is, so who starts several processes chooses for each. */
#ifndef LSI_DEVICE_MIG_H
#define LSI_DEVICE_MIG_H

#include "device/inventory.h"

/* The instances that processes could be started on by CUDA_VISIBLE_DEVICES: those that the variable names here, or all
 * where it is not set; bit g is place g of the inventory. 0: this process sees no instance, or whole GPUs as well,
 * which are taken instead. */
uint64_t lsi_mig_candidates(const lsi_inventory *inventory);

#endif
