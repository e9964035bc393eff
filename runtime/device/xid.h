/* Errors that the driver tells of GPUs while they work (Xid), and what they mean. */
#ifndef LSI_DEVICE_XID_H
#define LSI_DEVICE_XID_H

#include "device/inventory.h"

typedef struct lsi_xid {
    int number;
    bool fatal; /* the GPU cannot be relied on until the advice is followed */
    const char *words, *advice;
} lsi_xid;

/* One that is not in the list is not fatal, and its words say where to look it up. */
lsi_xid lsi_xid_find(int number);

typedef struct lsi_xid_watch lsi_xid_watch;

/* Asks to be told of Xids of the GPUs at these places of the inventory, which outlives the watch; of an instance: of
 * its GPU. *out is NULL where no driver tells. Not collective; one thread, the inventory's. */
LS_MUST_USE ls_status lsi_xid_watch_open(const lsi_inventory *inventory, const int *places, int n, lsi_xid_watch **out);
/* Waits at most so long for one that came since the open or the call before. False: none did. *place is one of those
 * asked for. An Xid of a GPU with several of them comes once for each. */
bool lsi_xid_watch_next(lsi_xid_watch *watch, double seconds, int *place, int *xid);
/* Accepts NULL. */
void lsi_xid_watch_close(lsi_xid_watch **watch);

#endif
