/* Reports by nonblocking messages. A sender ends with an empty one. Errors of single messages are not looked at: a
 * report that does not come is an old one that stays. */
#include "job/reports.h"

#include <mpi.h>
#include <string.h>

#include "base/memory.h"
#include "job/watchdog.h"

enum { TAG = 1 }; /* heartbeats have 0 */

/* Of rank 0: one per sender. */
typedef struct channel {
    int rank;
    MPI_Request receiving;
    char *in;
} channel;

struct lsi_reports {
    lsi_job *job;
    MPI_Comm communicator;
    size_t bytes;
    int n;
    channel *channel;    /* rank 0's */
    char *room;          /* for a report of each sender; a sender's, for its one */
    MPI_Request sending; /* a sender's */
};

static void listen(lsi_reports *r, channel *c)
{
    MPI_Irecv(c->in, (int)r->bytes, MPI_BYTE, c->rank, TAG, r->communicator, &c->receiving);
}

static bool is_among(const int *ranks, int n, int rank)
{
    for (int i = 0; i < n; i++) {
        if (ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

static ls_status create(lsi_job *job, int n_senders, size_t bytes, lsi_reports **out)
{
    size_t n_rooms = job->rank == 0 ? (size_t)n_senders : 1;
    lsi_reports *r;

    LS_TRY(lsi_memory_alloc(sizeof *r + n_rooms * (sizeof(channel) + bytes), "reports", (void **)&r));
    *r = (lsi_reports){.job = job,
                       .communicator = *(MPI_Comm *)job->heartbeats,
                       .bytes = bytes,
                       .n = job->rank == 0 ? n_senders : 0,
                       .sending = MPI_REQUEST_NULL};
    r->channel = (channel *)(void *)(r + 1);
    r->room = (char *)(r->channel + n_rooms);
    *out = r;
    return LS_OK;
}

ls_status lsi_reports_open(lsi_job *job, const int *senders, int n_senders, size_t bytes, lsi_reports **out)
{
    lsi_reports *r = NULL;
    bool takes_part = n_senders > 0 && (job->rank == 0 || is_among(senders, n_senders, job->rank));
    ls_status status = lsi_job_agree(job, takes_part ? create(job, n_senders, bytes, &r) : LS_OK);

    if (status != LS_OK) {
        lsi_memory_free(r);
        return status;
    }
    for (int i = 0; r != NULL && i < r->n; i++) {
        r->channel[i] = (channel){.rank = senders[i], .in = r->room + (size_t)i * bytes};
        listen(r, &r->channel[i]);
    }
    *out = r;
    return LS_OK;
}

bool lsi_reports_send(lsi_reports *r, const void *report)
{
    int done = 0;

    if (MPI_Test(&r->sending, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) {
        return false;
    }
    memcpy(r->room, report, r->bytes);
    return MPI_Isend(r->room, (int)r->bytes, MPI_BYTE, 0, TAG, r->communicator, &r->sending) == MPI_SUCCESS;
}

/* False: the sender's empty one. */
static bool holds_report(const MPI_Status *status)
{
    int count = 0;

    MPI_Get_count(status, MPI_BYTE, &count);
    return count > 0;
}

bool lsi_reports_receive(lsi_reports *r, int *sender, void *out)
{
    for (int i = 0; i < r->n; i++) {
        channel *c = &r->channel[i];
        MPI_Status status;
        int done = 0;

        if (c->receiving == MPI_REQUEST_NULL || MPI_Test(&c->receiving, &done, &status) != MPI_SUCCESS || !done ||
            !holds_report(&status)) {
            continue;
        }
        memcpy(out, c->in, r->bytes);
        *sender = i;
        listen(r, c);
        return true;
    }
    return false;
}

/* Until every sender's empty one has come. */
static void drain(lsi_reports *r)
{
    for (int i = 0; i < r->n; i++) {
        channel *c = &r->channel[i];
        MPI_Status status;

        while (c->receiving != MPI_REQUEST_NULL && MPI_Wait(&c->receiving, &status) == MPI_SUCCESS &&
               holds_report(&status)) {
            listen(r, c);
        }
    }
}

void lsi_reports_close(lsi_reports **reports)
{
    lsi_reports *r = *reports;

    if (r == NULL) {
        return;
    }
    lsi_watchdog_wait(r->job->watchdog, true);
    if (r->job->rank == 0) {
        drain(r);
    } else {
        MPI_Wait(&r->sending, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG, r->communicator);
    }
    lsi_watchdog_wait(r->job->watchdog, false);
    lsi_memory_free(r);
    *reports = NULL;
}
