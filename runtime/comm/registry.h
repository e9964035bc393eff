/* Opens a transport by name. */
#ifndef LSI_COMM_REGISTRY_H
#define LSI_COMM_REGISTRY_H

#include "backend/buffer.h"
#include "comm/shares.h"
#include "job/watchdog.h"
#include <lockstep/comm.h>

typedef struct lsi_comm_options {
    const char *transport;          /* auto, self, mpi, shm, nccl */
    lsi_job *job;
    ls_device *device;
    lsi_memory_account *account;    /* staging is counted here */
    int n_lanes;
    const lsi_span *share;          /* of every rank */
    bool fast;                      /* comm.reduction = fast */
    ls_dtype wire;                  /* comm.dtype; LS_F32 unless fast */
    double timeout_seconds;
    const lsi_watchdog *watchdog;   /* NULL: none. While it sees the job get on, a wait may last beyond the timeout */
    /* Called on the transport's thread when a peer is lost or late; must not return. */
    void (*on_failure)(void *argument, ls_status status);
    void *failure_argument;
    size_t piece_bytes;             /* of the largest message; 0: 4 MiB, above 32 MiB Open MPI slows down fourfold */
} lsi_comm_options;

/* Collective. `share` is copied. */
LS_MUST_USE ls_status lsi_comm_open(const lsi_comm_options *options, ls_comm **out);
/* Bytes of staging that a comm opened with these options (transport: the name of the one that auto has chosen) needs on
 * this rank for reductions and gathers of at most n elements, and exchanges of as many bytes: for the plan that
 * --dry-run prints. */
int64_t lsi_comm_staging_bytes(const lsi_comm_options *options, int64_t largest_n, size_t exchange_bytes);

#endif
