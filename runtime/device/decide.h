/* One look and one choice for all processes of a job on this host, leases and claims counted in. */
#ifndef LSI_DEVICE_DECIDE_H
#define LSI_DEVICE_DECIDE_H

#include "device/lease.h"
#include "device/select.h"

typedef struct lsi_decide_options {
    lsi_select_rules rules;
    lsi_priority priority;
    int reserve;        /* GPUs to claim when the choice fails and waiting can help; 0: none */
    const bool *occupied; /* by place: refused by CUDA a moment ago; NULL: none */
    lsi_leases *leases; /* locked by the caller (lsi_lease_lock); NULL: there are none */
    const char *host;   /* for messages */
} lsi_decide_options;

/* Reads the inventory again and chooses; as lsi_select for the rest. With `reserve` a claim stands from a failure that
 * may pass on; the caller takes it back. ranks->n = 0: only judges. */
LS_MUST_USE ls_status lsi_decide(lsi_inventory *inventory, const lsi_decide_options *options,
                                 const lsi_select_ranks *ranks, lsi_choice *out);

/* How long a job waits for another one that chooses. */
enum { LSI_DECIDE_LOCK_SECONDS = 60 };

#endif
