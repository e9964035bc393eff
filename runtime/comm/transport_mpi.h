/* What the files of the mpi transport share.
 *
 * Open MPI makes no progress by itself and its locks must not stop a stream, so one thread per process makes all the
 * calls, on a communicator of its own. A launch puts id + 1 of the collective into the request word and waits, on the
 * stream, until the thread has put back 0; the values are constants, so a captured launch can be replayed. */
#ifndef LSI_COMM_TRANSPORT_MPI_H
#define LSI_COMM_TRANSPORT_MPI_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "comm/reduction.h"
#include "comm/transports.h"

typedef struct lsi_mpi_comm lsi_mpi_comm;
typedef struct lsi_mpi_collective lsi_mpi_collective;

/* ---- messages_mpi.c: nonblocking messages that are waited for together, with a deadline ---------------------- */

typedef struct lsi_messages {
    MPI_Request *request;
    int *peer;
    int n;
} lsi_messages;

/* Messages between two ranks with one tag arrive in the order in which they are posted. */
LS_MUST_USE ls_status lsi_messages_send(lsi_mpi_comm *comm, lsi_messages *messages, const void *data, size_t bytes,
                                        int peer, int tag);
LS_MUST_USE ls_status lsi_messages_receive(lsi_mpi_comm *comm, lsi_messages *messages, void *data, size_t bytes,
                                           int peer, int tag);
/* Until all are through. A failure names the missing rank and says that this one was `doing` something; after it, or
 * after an abort, messages may be in flight: their memory must not be reused. */
LS_MUST_USE ls_status lsi_messages_wait(lsi_mpi_comm *comm, lsi_messages *messages, const char *doing);
LS_MUST_USE ls_status lsi_messages_check(int error, const char *call);

/* ---- collectives --------------------------------------------------------------------------------------------- */

/* How the staging of one reduction is cut: stage by stage, parity by parity, slot by slot. */
typedef struct lsi_mpi_staging {
    int64_t width;              /* elements of a slot */
    int64_t n_rounds, n_sets;
    int64_t n_slots[LSI_REDUCTION_MAX_STAGES];
    size_t bytes;
} lsi_mpi_staging;

typedef struct lsi_mpi_reduce {
    const float *partial[LSI_TREE_MAX_ROOTS];
    int n_partials;
    int64_t n;
    float *out;
    bool gather;
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

struct lsi_mpi_collective {
    ls_collective head;
    uint32_t id;                /* place in the order of preparation */
    const char *name;           /* for messages */
    size_t bytes;               /* of the reduced vector, of one rank's message, of the data */
    ls_status (*run)(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
    void (*declare)(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);    /* to ThreadSanitizer */
    union {
        lsi_mpi_reduce reduce;
        lsi_mpi_exchange exchange;
        lsi_mpi_broadcast broadcast;
    } u;
};

enum { LSI_MPI_MAX_CHILDREN = 32 };     /* of a rank in the broadcast's tree */

struct lsi_mpi_comm {
    ls_comm head;
    lsi_memory_account *account;
    double timeout_seconds;
    void (*on_failure)(void *argument, ls_status status);
    void *failure_argument;
    int64_t piece;              /* elements */

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
    const float **operand;      /* of one sum */
    void *message_memory;
    lsi_messages stage[LSI_REDUCTION_MAX_STAGES][2], hop[LSI_REDUCTION_MAX_STAGES][2];  /* by parity of the round */
    lsi_messages exchange, arriving[2], forwarding;
};

/* ---- reduce_mpi.c -------------------------------------------------------------------------------------------- */

void lsi_reduce_staging(const lsi_reduction *reduction, int rank, int64_t n, int64_t piece, lsi_mpi_staging *out);
ls_status lsi_reduce_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_reduce_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);

/* ---- move_mpi.c ---------------------------------------------------------------------------------------------- */

ls_status lsi_exchange_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_exchange_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
ls_status lsi_broadcast_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective);
void lsi_broadcast_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective);

#endif
