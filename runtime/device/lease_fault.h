/* Notes of GPUs that failed, in the folder of leases: `<UUID>.fault` says that a GPU told of a fatal Xid since the host
 * was started. Jobs that choose by themselves leave such a GPU alone. A restart of the host ends a note; who resets the
 * GPU removes the file. */
#ifndef LSI_DEVICE_LEASE_FAULT_H
#define LSI_DEVICE_LEASE_FAULT_H

#include "device/lease.h"

/* Any thread. `uuid` is a whole GPU's. A failure says so in the log's words. */
LS_MUST_USE ls_status lsi_lease_fault_put(const char *folder, const char *uuid, int xid);
/* The number of the Xid; 0: no note, or one from before the host's start, which is removed. */
int lsi_lease_fault_find(const lsi_leases *leases, const char *uuid);

#endif
