/* NCCL between processes of one machine, between its files.
 *
 *   nccl_shared.c     memory that the processes share
 *   nccl_join.c       how ranks become a communicator
 *   nccl_comm.c       communicators: what is under way, errors, leaving
 *   nccl_call.c       what may be called
 *   nccl_group.c      calls and groups of calls to operations on streams
 *   nccl_operation.c  an operation as it runs: collectives
 *   nccl_message.c    its sends and receives
 *   nccl_reduce.c     arithmetic
 *   nccl_deadlock.c   who waits for whom
 *
 * An operation never blocks: the core asks it again until its peers have done their part, and runs other streams
 * meanwhile. Everything that touches a communicator holds the core's lock. */
#ifndef CUSIM_NCCL_INTERNAL_H
#define CUSIM_NCCL_INTERNAL_H

#include "internal.h"
#include "nccl_shared.h"

/* One call. */
typedef struct cusim_nccl_task {
    cusim_nccl_call call;
    const void *in;
    void *out;
    uint8_t scalar[8];         /* of a reduction made by ncclRedOpCreatePreMulSum, in the call's type */
    const void *device_scalar; /* or where it lies when the operation runs */
    bool scaled;
    /* While it runs. */
    uint64_t number; /* of the collective, or of the message on its channel */
    bool begun, posted, finished;
} cusim_nccl_task;

/* A group of calls on one communicator, or a single call: one operation on a stream. */
typedef struct cusim_nccl_operation {
    struct ncclComm *comm;
    uint64_t turn; /* operations of a communicator run in the order of their turns */
    bool begun;
    double waiting_since;
    uint64_t idle_polls;
    int n_tasks;
    cusim_nccl_task tasks[];
} cusim_nccl_operation;

/* An operation of a graph gets its turn when it runs. */
#define CUSIM_NCCL_TURN_WHEN_RUN UINT64_MAX

typedef struct cusim_nccl_scale {
    bool used;
    int type;
    uint8_t scalar[8];
    const void *device_scalar;
} cusim_nccl_scale;

enum { CUSIM_NCCL_SCALES = 16 };

typedef enum cusim_nccl_stage {
    CUSIM_NCCL_JOINING,
    CUSIM_NCCL_RUNNING,
    CUSIM_NCCL_LEAVING,
    CUSIM_NCCL_OVER
} cusim_nccl_stage;

struct ncclComm {
    struct ncclComm *next; /* all there ever were: operations may refer to them */
    cusim_nccl_stage stage;
    bool blocking, aborted;
    ncclResult_t state; /* what ncclCommGetAsyncError tells */
    char message[256];
    int rank, n_ranks, device;
    cusim_nccl_id id;
    cusim_nccl_control *control;
    cusim_nccl_segment segments[CUSIM_NCCL_RANKS][CUSIM_NCCL_SEGMENTS];
    int pidfds[CUSIM_NCCL_RANKS];
    uint64_t next_turn, turn; /* operations queued, finished */
    uint64_t n_collectives;   /* begun */
    bool hung;                /* by injection */
    cusim_nccl_scale scales[CUSIM_NCCL_SCALES];
    /* Of a communicator that does not block: an operation that is not on its stream yet, and how often it will be asked
     * for before it is. */
    cusim_nccl_operation *deferred;
    cudaStream_t deferred_stream;
    int deferred_polls;
    /* The search for deadlocks. */
    double suspected_since;
    uint64_t suspected_changes;
    bool slow_told;
};

#define CUSIM_NCCL_CALL(name, ...)                                                                                     \
    do {                                                                                                               \
        int code_ = cusim_call(CUSIM_FN_##name, CUSIM_NO_STREAM, __VA_ARGS__);                                         \
        if (code_ != 0) {                                                                                              \
            return (ncclResult_t)code_;                                                                                \
        }                                                                                                              \
    } while (0)

/* The header declares them without parameters, which is no prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* ---- communicators ---- */
/* With the lock: NULL unless it is a communicator that lives. */
struct ncclComm *cusim_nccl_find(ncclComm_t handle);
void cusim_nccl_keep(struct ncclComm *comm);
/* With the lock: gives back what the communicator holds. The structure stays: an operation may still point to it. */
void cusim_nccl_close(struct ncclComm *comm);
void cusim_nccl_try_join(struct ncclComm *comm);
/* With CUSIM_NCCL_DETECT=1: has a peer ended or aborted? Between GPUs of one machine the real library tends just to
 * hang; over a network it finds out. */
bool cusim_nccl_peers_lost(struct ncclComm *comm);
/* With the lock: does what can be done now about joining, leaving and a deferred operation. */
void cusim_nccl_advance(struct ncclComm *comm);
/* With the lock: may an operation be queued? Sets the message where not. */
ncclResult_t cusim_nccl_usable(struct ncclComm *comm, const char *what);
/* Keeps a message for ncclGetLastError, says it, and returns the code. */
ncclResult_t cusim_nccl_refuse(struct ncclComm *comm, ncclResult_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Inside a group: joining ends at the end of the group. */
bool cusim_nccl_group_adds_join(struct ncclComm *comm, ncclComm_t *out);
ncclResult_t cusim_nccl_finish_joining(struct ncclComm *comm, ncclComm_t *out);
double cusim_nccl_clock(void); /* seconds of real time */

/* ---- operations ---- */
/* With the lock: gives it its turn and puts it on the stream; copies it. */
ncclResult_t cusim_nccl_queue(cusim_nccl_operation *operation, cudaStream_t stream);
size_t cusim_nccl_operation_bytes(int n_tasks);
int cusim_nccl_poll(void *operation, bool first);

/* One call, from a check of it to the group it belongs to. */
typedef struct cusim_nccl_queued {
    struct ncclComm *comm;
    cudaStream_t stream;
    cusim_nccl_task task;
} cusim_nccl_queued;

ncclResult_t cusim_nccl_submit(const cusim_nccl_queued *call);
/* The code; inside a group, it is the group's result, too. */
ncclResult_t cusim_nccl_group_failed(ncclResult_t code);

void cusim_nccl_messages_begin(cusim_nccl_operation *operation);
bool cusim_nccl_messages_step(cusim_nccl_operation *operation); /* true: all through */

/* ---- arithmetic ---- */
size_t cusim_nccl_type_size(int type); /* 0: not a type */
void cusim_nccl_reduce(void *into, const void *from, size_t count, int type, int reduction);
void cusim_nccl_divide(void *data, size_t count, int type, int by);
void cusim_nccl_multiply(void *data, size_t count, int type, const void *scalar);

/* ---- texts and deadlocks ---- */
const char *cusim_nccl_kind_name(int kind);
void cusim_nccl_describe(const cusim_nccl_call *call, char *out, size_t size);
/* While an operation waits: dies naming the ranks when they wait for each other in a circle; says once when a wait is
 * long. */
void cusim_nccl_deadlock_look(cusim_nccl_operation *operation);

#endif
