/* What the files of the mpi transport share.
 *
 * Open MPI makes no progress by itself and its locks must not stop a stream, so one thread per process makes all the
 * calls, on a communicator of its own. A launch puts id + 1 of the collective into the request word and waits, on the
 * stream, until the thread has put back 0; the values are constants, so a captured launch can be replayed.
 *
 * Under comm.transport = shm on several nodes messages go between nodes only. The ranks of a node meet first
 * (comm/meeting.h); a speaker then reads its peers' partial sums where they lie, and writes what arrives into their
 * results. The plan is the same, so the bits are. */
#ifndef LSI_COMM_TRANSPORT_MPI_H
#define LSI_COMM_TRANSPORT_MPI_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "comm/arena.h"
#include "comm/meeting.h"
#include "comm/reduction.h"
#include "comm/transports.h"

typedef struct lsi_mpi_comm lsi_mpi_comm;
typedef struct lsi_mpi_collective lsi_mpi_collective;

/* ---- messages_mpi.c: nonblocking messages that are waited for together, with a deadline ---------------------- */

typedef struct lsi_messages {
    MPI_Request *request;
    int *peer;                  /* sent to or received from; LSI_MPI_ANY_RANK for a sum that all take part in */
    int n;
} lsi_messages;

enum { LSI_MPI_ANY_RANK = -1 };

/* Messages between two ranks with one tag arrive in the order in which they are posted. */
LS_MUST_USE ls_status lsi_messages_send(lsi_mpi_comm *comm, lsi_messages *messages, const void *data, size_t bytes,
                                        int peer, int tag);
LS_MUST_USE ls_status lsi_messages_receive(lsi_mpi_comm *comm, lsi_messages *messages, void *data, size_t bytes,
                                           int peer, int tag);
/* The sum of all ranks' data by `op`, formed by MPI, in `total` at `root`, whose own data may lie there already
 * (data == total); elsewhere total is not used. All ranks call this in the same order. */
LS_MUST_USE ls_status lsi_messages_sum(lsi_mpi_comm *comm, lsi_messages *messages, const void *data, void *total,
                                       int count, MPI_Datatype type, MPI_Op op, int root);
/* Until all are through. A failure names the missing rank and says that this one was `doing` something; after it, or
 * after an abort, messages may be in flight: their memory must not be reused. */
LS_MUST_USE ls_status lsi_messages_wait(lsi_mpi_comm *comm, lsi_messages *messages, const char *doing);
LS_MUST_USE ls_status lsi_messages_check(int error, const char *call);

/* ---- collectives --------------------------------------------------------------------------------------------- */

/* A vector of n elements cut into the ranks' chunks, which are worked through in pieces: piece w of all chunks is
 * round w. A part (of one owner in one round) lies at its place in the vector or, where only two rounds are held at a
 * time, in its own slot. */
typedef struct lsi_mpi_chunks {
    char *data;                 /* the vector, or the slots */
    size_t element_bytes;
    int64_t n, piece;           /* elements; of the vector, of a message */
    int64_t n_rounds;
    int64_t width, n_slots;     /* elements of a slot, slots of a round (by owner); 0: the vector */
    bool is_shared;             /* the vector is the target of a task that the node's ranks have met for */
} lsi_mpi_chunks;

/* How the staging of one reduction is cut: stage by stage, parity by parity, slot by slot. */
typedef struct lsi_mpi_staging {
    int64_t width;              /* elements of a slot */
    int64_t n_sets;
    int64_t n_slots[LSI_REDUCTION_MAX_STAGES];
    size_t bytes;
} lsi_mpi_staging;

typedef struct lsi_mpi_reduce {
    const float *partial[LSI_TREE_MAX_ROOTS];
    int n_partials;
    bool gather;
    lsi_mpi_chunks out;
    lsi_mpi_staging staging;
} lsi_mpi_reduce;

typedef struct lsi_mpi_exchange {
    const void *mine;
    void *all;
} lsi_mpi_exchange;

typedef struct lsi_mpi_broadcast {
    void *data;
    int root;
} lsi_mpi_broadcast;

/* Between device memory and the mirror of stage_mpi.c. */
typedef struct lsi_mpi_copy {
    char *device;
    size_t at, bytes;           /* in the mirror */
} lsi_mpi_copy;

typedef struct lsi_mpi_stage {
    lsi_mpi_copy in[LSI_TREE_MAX_ROOTS], out[2];
    int n_in, n_out;
    char *mirror;               /* that the collective works on now */
} lsi_mpi_stage;

struct lsi_mpi_collective {
    ls_collective head;
    uint32_t id;                /* place in the order of preparation */
    bool meets;                 /* the ranks of a node work in each other's memory: on this task */
    lsi_meeting_task task;
    const char *name;           /* for messages */
    size_t bytes;               /* of the reduced vector, of one rank's message, of the data */
    ls_status (*run)(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
    void (*declare)(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);    /* to ThreadSanitizer */
    union {
        lsi_mpi_reduce reduce;
        lsi_mpi_chunks gather;
        lsi_mpi_exchange exchange;
        lsi_mpi_broadcast broadcast;
    } u;
    lsi_mpi_stage stage;        /* where the comm is staged */
};

enum { LSI_MPI_MAX_CHILDREN = 32 };     /* of a rank in the broadcast's tree */

struct lsi_mpi_comm {
    ls_comm head;
    lsi_memory_account *account;
    double timeout_seconds;
    const lsi_watchdog *watchdog;
    void (*on_failure)(void *argument, ls_status status);
    void *failure_argument;
    size_t piece_bytes;
    bool fast;                  /* several ranks, and MPI sums in its own order */
    ls_dtype wire;
    bool staged;                /* device memory is not the host's: all goes through the mirror */
    lsi_arena *arena;           /* memory that the node's ranks share; NULL: none */
    lsi_meeting meeting;

    MPI_Comm communicator;
    pthread_t thread;
    bool has_thread;
    atomic_bool aborted, closing;
    bool in_flight;             /* a collective was left unfinished; written by the thread, read after its end */
    lsi_buffer request;         /* the request word */
    const lsi_mpi_collective *current;      /* what the thread is at */

    lsi_mpi_collective **prepared;
    uint32_t n_prepared;

    lsi_span *share;
    lsi_reduction reduction;
    lsi_route route;
    lsi_buffer staging;         /* as large as the largest reduction prepared needs */
    lsi_buffer mirror;          /* as large as the largest collective prepared needs */
    const float **operand;      /* of one sum */
    void *message_memory;
    lsi_messages stage[LSI_REDUCTION_MAX_STAGES][2], hop[LSI_REDUCTION_MAX_STAGES][2];  /* by parity of the round */
    lsi_messages sum[2];
    lsi_messages exchange, arriving[2], forwarding;
    MPI_Op add;                 /* on the wire's type; MPI_OP_NULL where MPI has its own or nothing is fast */
};

/* ---- gather_mpi.c: chunks on their way from the owner to everybody ------------------------------------------- */

/* Messages of the pieces: stages of a reduction take the first tags, then the hops. */
enum { LSI_TAG_STAGE = 0, LSI_TAG_HOP = LSI_REDUCTION_MAX_STAGES, LSI_TAG_MOVE = 2 * LSI_REDUCTION_MAX_STAGES };

lsi_mpi_chunks lsi_chunks_make(const lsi_mpi_comm *comm, void *data, int64_t n, size_t element_bytes);
/* Elements of the owner's part in this round, 0 when there is none; *at: its first in the vector. */
int64_t lsi_chunks_part(const lsi_mpi_comm *comm, const lsi_mpi_chunks *chunks, int owner, int64_t round, int64_t *at);
/* Where that part lies. */
void *lsi_chunks_data(const lsi_mpi_chunks *chunks, int owner, int64_t round, int64_t at);

/* Hop h of the route, 0 .. n_stages - 1, for the parts of one round: each may be used when its hop was waited for. */
ls_status lsi_hop_post(lsi_mpi_comm *comm, const lsi_mpi_chunks *chunks, int h, int64_t round);
ls_status lsi_hop_wait(lsi_mpi_comm *comm, int h, int64_t round);

ls_status lsi_gather_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_gather_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);

/* ---- reduce_mpi.c: the ordered sum ---------------------------------------------------------------------------- */

/* is_shared: partial sums of the node's ranks are read where they lie. */
void lsi_reduce_staging(const lsi_reduction *reduction, int rank, int64_t n, size_t piece_bytes, bool is_shared,
                        lsi_mpi_staging *out);
ls_status lsi_reduce_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_reduce_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);

/* ---- fast_mpi.c: the sum in MPI's own order ------------------------------------------------------------------ */

ls_status lsi_fast_open(lsi_mpi_comm *comm);        /* makes `add` */
void lsi_fast_close(lsi_mpi_comm *comm);
void lsi_fast_staging(int world, ls_dtype wire, int64_t n, size_t piece_bytes, lsi_mpi_staging *out);
ls_status lsi_fast_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);

/* ---- move_mpi.c ---------------------------------------------------------------------------------------------- */

ls_status lsi_exchange_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_exchange_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
ls_status lsi_broadcast_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_broadcast_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);

/* ---- stage_mpi.c: through the host --------------------------------------------------------------------------- */

/* Bytes of the mirror for reductions and gathers of n elements and for exchanges of that many bytes. */
size_t lsi_stage_bytes(int world, int n_partials, int64_t n, size_t bytes_exchanged);
/* While collectives are prepared: what a launch copies. */
LS_MUST_USE ls_status lsi_stage_reduce(lsi_mpi_comm *comm, const ls_partial *partials, int n_partials, int64_t n,
                                       float *out, bool gather, lsi_mpi_stage *stage);
LS_MUST_USE ls_status lsi_stage_gather(lsi_mpi_comm *comm, void *data, int64_t n, size_t element_bytes,
                                       lsi_mpi_stage *stage);
LS_MUST_USE ls_status lsi_stage_exchange(lsi_mpi_comm *comm, const void *mine, void *all, size_t bytes,
                                         lsi_mpi_stage *stage);
LS_MUST_USE ls_status lsi_stage_broadcast(lsi_mpi_comm *comm, void *data, size_t bytes, int root, lsi_mpi_stage *stage);
/* Before and after the thread's work. */
LS_MUST_USE ls_status lsi_stage_in(lsi_mpi_comm *comm, lsi_mpi_collective *collective, ls_stream *stream);
LS_MUST_USE ls_status lsi_stage_out(lsi_mpi_comm *comm, const lsi_mpi_collective *collective, ls_stream *stream);

#endif
