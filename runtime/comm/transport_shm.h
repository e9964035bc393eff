/* What the files of the shm transport share: all ranks are on one node and their memory is the host's.
 *
 * A launch is an op on the stream: it meets the other ranks (comm/meeting.h), works in everybody's memory where it
 * lies, with this process's compute threads, and ends when all are done. There is no staging and no message. Every
 * element of a reduction is read once from each partial sum and written once into each result that is owed. */
#ifndef LSI_COMM_TRANSPORT_SHM_H
#define LSI_COMM_TRANSPORT_SHM_H

#include <stdatomic.h>

#include "comm/arena.h"
#include "comm/evaluate.h"
#include "comm/meeting.h"
#include "comm/transports.h"

typedef struct lsi_shm_comm lsi_shm_comm;
typedef struct lsi_shm_collective lsi_shm_collective;

/* Rows: name in enums, what people read. */
#define LSI_SHM_KINDS(ROW)              \
    ROW(REDUCE, "reductions")           \
    ROW(GATHER, "gathers")              \
    ROW(EXCHANGE, "exchanges")          \
    ROW(BROADCAST, "broadcasts")

typedef enum lsi_shm_kind {
#define ROW(name, text) LSI_SHM_##name,
    LSI_SHM_KINDS(ROW)
#undef ROW
    LSI_SHM_KIND_COUNT
} lsi_shm_kind;

/* Where the time of one kind of collective went, so far. */
typedef struct lsi_shm_times {
    uint64_t n, bytes;          /* bytes that this rank has read and written at work */
    double ready, work, done;   /* seconds until all were ready, at work, until all were done */
} lsi_shm_times;

struct lsi_shm_collective {
    ls_collective head;
    lsi_shm_kind kind;
    lsi_meeting_task task;
    int64_t n;                  /* elements of the reduced or gathered vector */
    size_t element_bytes;
    bool gather;                /* of a reduction: everybody gets all of it */
    int root;                   /* of a broadcast */
    const void *source[LSI_TREE_MAX_ROOTS];    /* this rank's */
    void *target;
    /* Between the meeting's begin and end. */
    uint64_t (*run)(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective);
    void (*declare)(const lsi_shm_comm *comm, const lsi_shm_collective *collective);    /* to ThreadSanitizer */
};

/* One partial sum of the reduction, in the order in which they are added up. */
typedef struct lsi_shm_term {
    int rank, source;
} lsi_shm_term;

struct lsi_shm_comm {
    ls_comm head;
    lsi_memory_account *account;
    void (*on_failure)(void *argument, ls_status status);
    void *failure_argument;
    bool fast;                  /* each rank has one partial sum, of lanes that the tree knows nothing of */
    atomic_bool aborted;
    lsi_arena *arena;
    lsi_meeting meeting;

    lsi_shm_collective **prepared;
    uint32_t n_prepared;

    lsi_span *share;
    lsi_shm_term *term;
    uint8_t *step;              /* evaluates the terms, see comm/evaluate.h */
    int n_terms;
    const float **operand;      /* where each term lies, and each rank's result, in the collective that runs */
    lsi_evaluate_out *result;
    lsi_shm_times times[LSI_SHM_KIND_COUNT];
};

/* Between begin and end. They return the bytes that this rank reads and writes. */
uint64_t lsi_shm_reduce_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective);
uint64_t lsi_shm_gather_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective);
uint64_t lsi_shm_exchange_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective);
uint64_t lsi_shm_broadcast_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective);

void lsi_shm_reduce_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective);
void lsi_shm_gather_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective);
void lsi_shm_exchange_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective);
void lsi_shm_broadcast_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective);

#endif
