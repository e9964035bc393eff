/* A transport for the null backend: claims any number of processes and moves nothing. A launch goes to the backend's
 * log as an op, whose argument is the collective. */
#ifndef LS_TESTS_SUPPORT_NULL_TRANSPORT_H
#define LS_TESTS_SUPPORT_NULL_TRANSPORT_H

#include "support/null_backend.h"

#include "comm/transports.h"

typedef enum null_collective_kind { NULL_REDUCE, NULL_GATHER, NULL_EXCHANGE, NULL_BROADCAST } null_collective_kind;

typedef struct null_collective {
    ls_collective head;
    null_collective_kind kind;
    const void *data;           /* where the result goes; what an exchange sends */
    int64_t n;                  /* elements; bytes of exchange and broadcast */
    bool gather;                /* of a reduction */
    struct null_collective *next;
} null_collective;

LS_MUST_USE ls_status null_transport_open(ls_device *device, int rank, int world, int n_lanes, ls_comm **out);
/* What the entry launches; NULL: it launches nothing. */
const null_collective *null_transport_launched(const null_entry *entry);

#endif
