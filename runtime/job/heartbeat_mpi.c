/* Beats by nonblocking messages. Of a peer that MPI cannot reach nothing comes any more, which says enough: errors of
 * single messages are not looked at. */
#include "job/heartbeat.h"

#include <mpi.h>

#include "base/memory.h"

/* One message each way is under way at most. */
typedef struct channel {
    int rank;
    MPI_Request sending, receiving;
    lsi_beat out, in;
    bool told_last, heard_last;
} channel;

struct lsi_heartbeat {
    MPI_Comm communicator;
    int n;
    channel *channel;
};

static ls_status make(lsi_heartbeat *heartbeat, const int *peers, int n_peers)
{
    void *memory;

    LS_TRY(lsi_memory_alloc((size_t)n_peers * sizeof(channel), "heartbeats", &memory));
    heartbeat->channel = memory;
    heartbeat->n = n_peers;
    for (int p = 0; p < n_peers; p++) {
        heartbeat->channel[p].rank = peers[p];
        heartbeat->channel[p].sending = heartbeat->channel[p].receiving = MPI_REQUEST_NULL;
    }
    return LS_OK;
}

ls_status lsi_heartbeat_open(lsi_job *job, const int *peers, int n_peers, lsi_heartbeat **out)
{
    lsi_heartbeat *heartbeat;

    LS_TRY(lsi_memory_alloc(sizeof *heartbeat, "heartbeats", (void **)&heartbeat));
    heartbeat->communicator = *(MPI_Comm *)job->heartbeats;
    ls_status status = make(heartbeat, peers, n_peers);
    if (status != LS_OK) {
        lsi_memory_free(heartbeat);
        return status;
    }
    *out = heartbeat;
    return LS_OK;
}

void lsi_heartbeat_close(lsi_heartbeat **heartbeat)
{
    if (*heartbeat != NULL) {
        lsi_memory_free((*heartbeat)->channel);
        lsi_memory_free(*heartbeat);
        *heartbeat = NULL;
    }
}

static void listen(lsi_heartbeat *heartbeat, channel *l)
{
    MPI_Irecv(&l->in, sizeof l->in, MPI_BYTE, l->rank, 0, heartbeat->communicator, &l->receiving);
}

void lsi_heartbeat_begin(lsi_heartbeat *heartbeat)
{
    for (int p = 0; p < heartbeat->n; p++) {
        listen(heartbeat, &heartbeat->channel[p]);
    }
}

/* A request that there is none of is done. */
static bool is_done(MPI_Request *request)
{
    int done = 0;

    return MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
}

bool lsi_heartbeat_send(lsi_heartbeat *heartbeat, const lsi_beat *beat)
{
    bool all = true;

    for (int p = 0; p < heartbeat->n; p++) {
        channel *l = &heartbeat->channel[p];

        if (is_done(&l->sending) && !l->told_last) {
            l->out = *beat;
            l->told_last = beat->leaves != 0;
            MPI_Isend(&l->out, sizeof l->out, MPI_BYTE, l->rank, 0, heartbeat->communicator, &l->sending);
        }
        all = is_done(&l->sending) && l->told_last && all;
    }
    return all;
}

bool lsi_heartbeat_receive(lsi_heartbeat *heartbeat, int *peer, lsi_beat *out)
{
    for (int p = 0; p < heartbeat->n; p++) {
        channel *l = &heartbeat->channel[p];

        if (!l->heard_last && is_done(&l->receiving)) {
            *out = l->in;
            *peer = p;
            l->heard_last = out->leaves != 0;
            if (!l->heard_last) {
                listen(heartbeat, l);
            }
            return true;
        }
    }
    return false;
}
