/* Gives each process of the job its GPU. On every host one process decides for all; each process then holds the lease
 * of its own GPU, and the job's processes compare UUIDs before anything is opened on a GPU. */
#ifndef LSI_DEVICE_BINDING_H
#define LSI_DEVICE_BINDING_H

#include "device/inventory.h"
#include "device/lease.h"
#include "job/watchdog.h"
#include <lockstep/config.h>

typedef struct lsi_binding {
    lsi_gpu gpu;        /* what this process was given */
    lsi_leases *leases; /* NULL: device.leases is empty */
    char what[64];      /* what others read of this job */
    bool held;          /* its context is made: a GPU in exclusive compute mode is this process's alone */
} lsi_binding;

/* Collective. `name` is the job's for other users of the host. Waits up to device.wait; a request to stop ends that
 * (STOPPED: nothing was begun). A failure has been printed, with host, UUIDs and the way out, and is the same on all
 * ranks. The GPU of this process is gpu.ordinal of CUDA. watchdog may be NULL. */
LS_MUST_USE ls_status lsi_binding_open(lsi_job *job, const ls_config *config, const char *name, lsi_watchdog *watchdog,
                                       lsi_binding **out);
/* Gives the lease back; after the device is closed. Accepts NULL. */
void lsi_binding_close(lsi_binding **binding);

#endif
