#include "comm/transport_mpi.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "comm/patience.h"

/* Many ranks may share few cores: give way at once, and soon sleep. */
enum { YIELDS = 50, SHORT_SLEEPS = 50, SHORT_NANOSECONDS = 20000, LONG_NANOSECONDS = 50000 };

ls_status lsi_messages_check(int error, const char *call)
{
    char reason[MPI_MAX_ERROR_STRING] = "";
    int length;

    if (error == MPI_SUCCESS) {
        return LS_OK;
    }
    MPI_Error_string(error, reason, &length);
    return LS_FAIL(LS_ERR_COMM, "%s failed: %s", call, reason);
}

ls_status lsi_messages_send(lsi_mpi_comm *comm, lsi_messages *messages, const void *data, size_t bytes, int peer,
                            int tag)
{
    int error = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, comm->communicator, &messages->request[messages->n]);

    LS_TRY(lsi_messages_check(error, "MPI_Isend"));
    messages->peer[messages->n++] = peer;
    return LS_OK;
}

ls_status lsi_messages_receive(lsi_mpi_comm *comm, lsi_messages *messages, void *data, size_t bytes, int peer, int tag)
{
    int error = MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, comm->communicator, &messages->request[messages->n]);

    LS_TRY(lsi_messages_check(error, "MPI_Irecv"));
    messages->peer[messages->n++] = peer;
    return LS_OK;
}

ls_status lsi_messages_sum(lsi_mpi_comm *comm, lsi_messages *messages, const void *data, void *total, int count,
                           MPI_Datatype type, MPI_Op op, int root)
{
    bool is_root = comm->head.rank == root, in_place = is_root && data == total;

    int error = MPI_Ireduce(in_place ? MPI_IN_PLACE : data, is_root ? total : NULL, count, type, op, root,
                            comm->communicator, &messages->request[messages->n]);
    LS_TRY(lsi_messages_check(error, "MPI_Ireduce"));
    messages->peer[messages->n++] = LSI_MPI_ANY_RANK;
    return LS_OK;
}

static void pause_after(int tries)
{
    if (tries < YIELDS) {
        sched_yield();
        return;
    }
    struct timespec nap = {.tv_nsec = tries < YIELDS + SHORT_SLEEPS ? SHORT_NANOSECONDS : LONG_NANOSECONDS};
    nanosleep(&nap, NULL);
}

static ls_status fail_late(const lsi_mpi_comm *comm, const lsi_messages *messages, const char *doing)
{
    int missing = 0, first = LSI_MPI_ANY_RANK;
    char who[32] = "another rank";

    for (int i = messages->n - 1; i >= 0; i--) {
        int done = 0;

        LS_TRY(lsi_messages_check(MPI_Request_get_status(messages->request[i], &done, MPI_STATUS_IGNORE),
                                  "MPI_Request_get_status"));
        if (!done) {
            missing++;
            first = messages->peer[i];
        }
    }
    if (first != LSI_MPI_ANY_RANK) {
        snprintf(who, sizeof who, "rank %d", first);
    }
    return LS_FAIL(LS_ERR_TIMEOUT,
                   "rank %d has waited %.3g s for %s while %s (%s of %zu bytes; %d of %d messages missing): %s "
                   "is gone, stopped, held up by another rank, or slower than comm.timeout allows",
                   comm->head.rank, comm->timeout_seconds, who, doing, comm->current->name, comm->current->bytes,
                   missing, messages->n, who);
}

ls_status lsi_messages_wait(lsi_mpi_comm *comm, lsi_messages *messages, const char *doing)
{
    lsi_patience patience = lsi_patience_begin(comm->timeout_seconds, comm->watchdog);

    for (int tries = 0;; tries++) {
        int done = 0;

        int error = MPI_Testall(messages->n, messages->request, &done, MPI_STATUSES_IGNORE);
        LS_TRY(lsi_messages_check(error, "MPI_Testall"));
        if (done) {
            messages->n = 0;
            return LS_OK;
        }
        LS_REQUIRE(!atomic_load_explicit(&comm->aborted, memory_order_relaxed), LS_ERR_COMM,
                   "communication was aborted while %s", doing);
        if (lsi_patience_is_over(&patience)) {
            return fail_late(comm, messages, doing);
        }
        pause_after(tries);
    }
}
