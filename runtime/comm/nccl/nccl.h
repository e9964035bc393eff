/* What the files of the nccl transport share.
 *
 *   open.c       how the ranks become a communicator; two ranks on one GPU are named before NCCL is asked
 *   guard.c      errors that come later, aborting, leaving
 *   call.c       calls of NCCL, alone and in groups, and what their failures say
 *   reduce.c     the ordered sum
 *   fast.c       the sum in NCCL's own order
 *   move.c       gather, exchange, broadcast
 *   transport.c  the table: memory, preparing, launching
 *
 * A launch puts calls and kernels on the stream and nothing else, so it can be captured. The communicator does not
 * block: a call may be unfinished when it returns, and is asked for until its work is on the stream, before anything
 * else is put there. */
#ifndef LSI_COMM_NCCL_NCCL_H
#define LSI_COMM_NCCL_NCCL_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/cuda/device.h"
#include "comm/reduction.h"
#include "comm/transports.h"
#include "job/watchdog.h"

typedef struct lsi_nccl_comm lsi_nccl_comm;
typedef struct lsi_nccl_collective lsi_nccl_collective;

typedef struct lsi_nccl_reduce {
    const float *partial[LSI_TREE_MAX_ROOTS];
    int64_t n;
    float *out;
    bool gather;
    /* Ordered: how the staging is cut, stage by stage, slot by slot. */
    int64_t width; /* elements of a slot; chunks are worked through in rounds of as many */
    int64_t first_slot[LSI_REDUCTION_MAX_STAGES];
} lsi_nccl_reduce;

typedef struct lsi_nccl_gather {
    char *data;
    int64_t n;
    size_t element_bytes;
} lsi_nccl_gather;

typedef struct lsi_nccl_exchange {
    const void *mine;
    void *all;
} lsi_nccl_exchange;

typedef struct lsi_nccl_broadcast {
    void *data;
    int root;
} lsi_nccl_broadcast;

struct lsi_nccl_collective {
    ls_collective head;
    lsi_nccl_collective *next;
    const char *name; /* for messages */
    size_t bytes;     /* of the reduced vector, of one rank's message, of the data */
    ls_status (*queue)(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream);
    union {
        lsi_nccl_reduce reduce;
        lsi_nccl_gather gather;
        lsi_nccl_exchange exchange;
        lsi_nccl_broadcast broadcast;
    } u;
};

struct lsi_nccl_comm {
    ls_comm head;
    const lsi_cuda_device *device;
    lsi_memory_account *account;
    double timeout_seconds;
    const lsi_watchdog *watchdog; /* NULL: none */
    void (*on_failure)(void *argument, ls_status status);
    void *failure_argument;
    size_t piece_bytes;
    bool fast; /* several ranks, and NCCL sums in its own order */
    ls_dtype wire;

    ncclComm_t nccl;     /* NULL once it has been given up */
    pthread_mutex_t use; /* held during calls on it; a thread that gives it up holds it, too */
    atomic_bool aborted, closing;
    _Atomic(const lsi_nccl_collective *) current; /* launched or captured last, */
    _Atomic(const ls_stream *) stream;            /* and on which stream it was launched; */
    _Atomic(const ls_stream *) origin;            /* of the capture: replays run there */
    pthread_t guard;
    bool has_guard;

    lsi_nccl_collective *prepared;
    lsi_span *share;
    lsi_reduction reduction;
    lsi_route route;
    lsi_buffer staging; /* as large as the largest reduction prepared needs */
};

/* ---- call.c ---------------------------------------------------------------------------------------------------- */

/* ERR_COMM with NCCL's words, what was going on and `call`; LS_OK also where the call is not finished yet. */
LS_MUST_USE ls_status lsi_nccl_check(const lsi_nccl_comm *comm, ncclResult_t result, const char *call);
/* Until the communicator has finished what it was asked for; the deadline is comm.timeout. */
LS_MUST_USE ls_status lsi_nccl_settle(const lsi_nccl_comm *comm, const char *call);
/* Both, for a call that stands alone. */
LS_MUST_USE ls_status lsi_nccl_finish(const lsi_nccl_comm *comm, ncclResult_t result, const char *call);

/* What launching a kernel for the collective came to: its failure says what was going on, too. */
LS_MUST_USE ls_status lsi_nccl_launched(const lsi_nccl_comm *comm, ls_status status);

/* Messages that travel together. Between two ranks they arrive in the order in which they are given. */
typedef struct lsi_nccl_group {
    const lsi_nccl_comm *comm;
    cudaStream_t stream;
    int n;
} lsi_nccl_group;

LS_MUST_USE ls_status lsi_nccl_send(lsi_nccl_group *group, const void *data, size_t bytes, int peer);
LS_MUST_USE ls_status lsi_nccl_receive(lsi_nccl_group *group, void *data, size_t bytes, int peer);
/* data to total, at `root`, which may be the same place there. */
LS_MUST_USE ls_status lsi_nccl_reduce_to(lsi_nccl_group *group, const void *data, void *total, size_t count,
                                         ncclDataType_t type, int root);
/* Puts them on the stream; also when `status` says that giving one of them failed, which is then returned. */
LS_MUST_USE ls_status lsi_nccl_group_end(lsi_nccl_group *group, ls_status status);

/* ---- guard.c --------------------------------------------------------------------------------------------------- */

/* A thread that asks NCCL for errors of work under way, sees when work or a call does not end within comm.timeout, and
 * reports either by on_failure. */
LS_MUST_USE ls_status lsi_nccl_guard_start(lsi_nccl_comm *comm);
void lsi_nccl_guard_stop(lsi_nccl_comm *comm);
/* Any thread: gives the communicator up, so that its work ends. NCCL does that on a thread of its own, which is waited
 * for for some seconds only. */
void lsi_nccl_give_up(lsi_nccl_comm *comm);
/* Leaves the communicator; collective. */
void lsi_nccl_leave(lsi_nccl_comm *comm);

/* ---- open.c ---------------------------------------------------------------------------------------------------- */

/* Collective. Every rank says how it has come so far; fails everywhere when one has failed, or two share a GPU. */
LS_MUST_USE ls_status lsi_nccl_meet(lsi_job *job, const ls_device *device, ls_status mine);
/* Collective: makes the communicator. A failure that only this rank knows of is reported by on_failure, too. */
LS_MUST_USE ls_status lsi_nccl_join(lsi_nccl_comm *comm, lsi_job *job);

/* ---- reduce.c, fast.c, move.c ---------------------------------------------------------------------------------- */

/* Elements of the staging that the reduction needs; cuts it. */
int64_t lsi_nccl_reduce_cut(const lsi_reduction *reduction, int rank, int64_t n, size_t piece_bytes,
                            lsi_nccl_reduce *out);
/* The most operands of a sum that this rank forms. */
int lsi_nccl_reduce_operands(const lsi_route *route);
ls_status lsi_nccl_reduce_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream);
size_t lsi_nccl_fast_staging(ls_dtype wire, int64_t n);
ls_status lsi_nccl_fast_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream);

/* Elements of every rank's chunk where all have as many, else 0. */
int64_t lsi_nccl_equal_chunk(const lsi_nccl_comm *comm, int64_t n);
LS_MUST_USE ls_status lsi_nccl_gather_chunks(lsi_nccl_comm *comm, const lsi_nccl_gather *gather, cudaStream_t stream);
ls_status lsi_nccl_gather_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream);
ls_status lsi_nccl_exchange_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream);
ls_status lsi_nccl_broadcast_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream);

#endif
