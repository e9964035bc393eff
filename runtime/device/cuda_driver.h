/* What the CUDA driver says this process sees, by calls that make no context, and the one that makes it. The driver is
 * opened by name, so that every build has this; its binary interface needs no header of CUDA's. */
#ifndef LSI_DEVICE_CUDA_DRIVER_H
#define LSI_DEVICE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* One device, by CUDA's numbers; -1 and "" where the driver did not tell. */
typedef struct lsi_cuda_seen {
    unsigned char uuid[16];
    int has_uuid;
    char name[96];
    int pci_domain, pci_bus, pci_device;
    int capability, sms, compute_mode;
    int64_t memory_total;
} lsi_cuda_seen;

typedef struct lsi_cuda_view {
    int version;       /* newest CUDA the driver runs, -1: no driver */
    int n;             /* devices, at most `room` of them filled */
    char trouble[160]; /* why there is none, else "" */
} lsi_cuda_view;

/* The first call in a process fixes what CUDA shows to it. */
void lsi_cuda_driver_look(lsi_cuda_seen *out, int room, lsi_cuda_view *view);

typedef enum lsi_cuda_hold {
    LSI_CUDA_HELD,
    LSI_CUDA_OCCUPIED, /* another process has it alone, or its compute mode is prohibited */
    LSI_CUDA_NOT_HELD  /* the driver cannot, or fails otherwise: who opens the GPU next will hear of it */
} lsi_cuda_hold;

/* Makes this process's context on the device, the one that CUDA's runtime uses later: a GPU in exclusive compute mode
 * is this process's from then on. HELD is to be given back by lsi_cuda_driver_let_go. */
lsi_cuda_hold lsi_cuda_driver_hold(int ordinal);
void lsi_cuda_driver_let_go(int ordinal);

#endif
