/* How ranks become a communicator: each announces itself in the shared block, and goes on when all are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "nccl_internal.h"

bool cusim_nccl_peers_lost(struct ncclComm *comm)
{
    const char *detect = getenv("CUSIM_NCCL_DETECT");

    if (detect == NULL || atoi(detect) == 0 || comm->aborted) {
        return false;
    }
    for (int i = 0; i < comm->n_ranks; i++) {
        cusim_nccl_rank *rank = &comm->control->ranks[i];

        if (i != comm->rank && atomic_load(&rank->presence) >= CUSIM_NCCL_ANNOUNCED && !atomic_load(&rank->finalized) &&
            (atomic_load(&rank->gone) || cusim_nccl_process_ended(rank->pid, &comm->pidfds[i]))) {
            cusim_nccl_refuse(comm, ncclRemoteError, "rank %d: rank %d is lost", comm->rank, i);
            return true;
        }
    }
    return false;
}

static unsigned long bus_number(const char *bus)
{
    unsigned domain = 0, number = 0, device = 0;

    sscanf(bus, "%x:%x:%x", &domain, &number, &device);
    return (unsigned long)domain << 20 | number << 12 | device << 4;
}

static ncclResult_t check_peers(struct ncclComm *comm)
{
    const cusim_nccl_rank *self = &comm->control->ranks[comm->rank];

    for (int i = 0; i < comm->n_ranks; i++) {
        const cusim_nccl_rank *rank = &comm->control->ranks[i];

        if (rank->n_ranks != comm->n_ranks) {
            return cusim_nccl_refuse(comm, ncclInvalidArgument, "rank %d was told %d ranks, rank %d %d", comm->rank,
                                     comm->n_ranks, i, rank->n_ranks);
        }
        if (i != comm->rank && strcmp(rank->host, self->host) == 0 && strcmp(rank->bus, self->bus) == 0) {
            return cusim_nccl_refuse(comm, ncclInvalidUsage,
                                     "Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx", comm->rank,
                                     i, bus_number(rank->bus));
        }
    }
    return ncclSuccess;
}

static ncclResult_t open_peers(struct ncclComm *comm)
{
    for (int i = 0; i < comm->n_ranks; i++) {
        const cusim_nccl_rank *rank = &comm->control->ranks[i];

        for (int s = 0; s < CUSIM_NCCL_SEGMENTS && i != comm->rank; s++) {
            comm->segments[i][s] = (cusim_nccl_segment){.fd = cusim_nccl_open_fd(rank->pid, rank->segment_fds[s])};
            if (comm->segments[i][s].fd < 0) {
                return cusim_nccl_refuse(comm, ncclRemoteError, "rank %d: rank %d is lost", comm->rank, i);
            }
        }
    }
    return ncclSuccess;
}

/* What all ranks have reached; one that failed decides. */
static cusim_nccl_presence least_presence(const struct ncclComm *comm)
{
    int least = CUSIM_NCCL_JOINED;

    for (int i = 0; i < comm->n_ranks; i++) {
        int presence = atomic_load(&comm->control->ranks[i].presence);

        if (presence == CUSIM_NCCL_FAILED) {
            return CUSIM_NCCL_FAILED;
        }
        least = presence < least ? presence : least;
    }
    return (cusim_nccl_presence)least;
}

static ncclResult_t step_join(struct ncclComm *comm)
{
    cusim_nccl_rank *self = &comm->control->ranks[comm->rank];
    cusim_nccl_presence least = least_presence(comm);
    ncclResult_t result = ncclSuccess;

    if (cusim_nccl_peers_lost(comm)) {
        return ncclRemoteError;
    }
    if (least == CUSIM_NCCL_FAILED) {
        return cusim_nccl_refuse(comm, ncclRemoteError, "rank %d: another rank could not join", comm->rank);
    }
    if (least >= CUSIM_NCCL_ANNOUNCED && atomic_load(&self->presence) == CUSIM_NCCL_ANNOUNCED) {
        result = check_peers(comm);
        result = result == ncclSuccess ? open_peers(comm) : result;
        if (result == ncclSuccess) {
            atomic_store(&self->presence, CUSIM_NCCL_JOINED);
        }
    }
    return result == ncclSuccess && least_presence(comm) != CUSIM_NCCL_JOINED ? ncclInProgress : result;
}

void cusim_nccl_try_join(struct ncclComm *comm)
{
    comm->state = step_join(comm);
    if (comm->state == ncclSuccess) {
        comm->stage = CUSIM_NCCL_RUNNING;
        if (comm->id.pid == getpid() && atomic_exchange(&comm->control->id_closed, 1) == 0) {
            close(comm->id.fd);
        }
    } else if (comm->state != ncclInProgress) {
        atomic_store(&comm->control->ranks[comm->rank].presence, CUSIM_NCCL_FAILED);
    }
}

static ncclResult_t announce(struct ncclComm *comm)
{
    cusim_nccl_rank *self = &comm->control->ranks[comm->rank];
    const char *host = getenv("NCCL_HOSTID");
    int free_place = CUSIM_NCCL_ABSENT;

    if (!atomic_compare_exchange_strong(&self->presence, &free_place, CUSIM_NCCL_ARRIVING)) {
        return cusim_nccl_refuse(NULL, ncclInvalidArgument, "two processes join as rank %d", comm->rank);
    }
    self->pid = getpid();
    self->n_ranks = comm->n_ranks;
    if (host != NULL) {
        snprintf(self->host, sizeof self->host, "%s", host);
    } else {
        gethostname(self->host, sizeof self->host - 1);
    }
    cusim_machine_bus_text(cusim_device_gpu(comm->device), self->bus, sizeof self->bus);
    for (int s = 0; s < CUSIM_NCCL_SEGMENTS; s++) {
        if (!cusim_nccl_segment_make(&comm->segments[comm->rank][s])) {
            return cusim_nccl_refuse(NULL, ncclSystemError, "rank %d cannot make memory for messages", comm->rank);
        }
        self->segment_fds[s] = comm->segments[comm->rank][s].fd;
    }
    atomic_store(&self->presence, CUSIM_NCCL_ANNOUNCED);
    return ncclSuccess;
}

static struct ncclComm *make(int n_ranks, const cusim_nccl_id *id, int rank)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);

    if (comm == NULL) {
        return NULL;
    }
    comm->rank = rank;
    comm->n_ranks = n_ranks;
    comm->device = cusim_current_device();
    comm->id = *id;
    comm->state = ncclInProgress;
    for (int i = 0; i < CUSIM_NCCL_RANKS; i++) {
        comm->pidfds[i] = -1;
        for (int s = 0; s < CUSIM_NCCL_SEGMENTS; s++) {
            comm->segments[i][s].fd = -1;
        }
    }
    return comm;
}

/* Waits, for a communicator that blocks; streams go on meanwhile. */
ncclResult_t cusim_nccl_finish_joining(struct ncclComm *comm, ncclComm_t *out)
{
    for (;;) {
        cusim_lock();
        cusim_nccl_advance(comm);
        ncclResult_t state = comm->state;
        if (state != ncclSuccess && state != ncclInProgress) {
            *out = NULL;
            cusim_nccl_close(comm);
        }
        cusim_unlock();
        if (state != ncclInProgress) {
            return state;
        }
        usleep(200);
    }
}

static ncclResult_t join(ncclComm_t *out, int n_ranks, ncclUniqueId unique_id, int rank, const ncclConfig_t *config)
{
    cusim_nccl_id id;
    bool blocking = config == NULL || config->blocking != 0;

    memcpy(&id, unique_id.internal, sizeof id);
    if (out == NULL || n_ranks < 1 || n_ranks > CUSIM_NCCL_RANKS || rank < 0 || rank >= n_ranks) {
        return cusim_nccl_refuse(NULL, ncclInvalidArgument, "rank %d of %d is not possible", rank, n_ranks);
    }
    if (config != NULL &&
        (config->magic != 0xcafebeef || config->size < offsetof(ncclConfig_t, cgaClusterSize) ||
         (config->blocking != 0 && config->blocking != 1 && config->blocking != NCCL_CONFIG_UNDEF_INT))) {
        return cusim_nccl_refuse(NULL, ncclInvalidArgument,
                                 "the configuration has not been initialized, or blocking is not 0 or 1");
    }
    if (cusim_device_gpu(cusim_current_device()) == NULL || cusim_device_error(cusim_current_device()) != cudaSuccess) {
        return cusim_nccl_refuse(NULL, ncclUnhandledCudaError, "no device, or one that has failed");
    }
    struct ncclComm *comm = make(n_ranks, &id, rank);
    if (comm == NULL) {
        return ncclSystemError;
    }
    comm->blocking = blocking;
    comm->control = cusim_nccl_control_attach(&id);
    ncclResult_t result = comm->control != NULL ? announce(comm)
                                                : cusim_nccl_refuse(NULL, ncclSystemError,
                                                                    "the process that made the id cannot be reached");
    cusim_lock();
    cusim_nccl_keep(comm);
    if (result != ncclSuccess) {
        cusim_nccl_close(comm);
    }
    cusim_unlock();
    if (result != ncclSuccess) {
        return result;
    }
    *out = comm;
    if (n_ranks > 1) {
        cusim_need_progress();
    }
    if (cusim_nccl_group_adds_join(comm, out)) {
        return blocking ? ncclSuccess : ncclInProgress;
    }
    return blocking ? cusim_nccl_finish_joining(comm, out) : ncclInProgress;
}

ncclResult_t ncclGetVersion(int *version)
{
    CUSIM_NCCL_CALL(ncclGetVersion, NULL);
    if (version == NULL) {
        return ncclInvalidArgument;
    }
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    cusim_nccl_id id;

    CUSIM_NCCL_CALL(ncclGetUniqueId, NULL);
    if (out == NULL) {
        return ncclInvalidArgument;
    }
    if (!cusim_nccl_control_make(&id)) {
        return cusim_nccl_refuse(NULL, ncclSystemError, "no memory that processes can share");
    }
    memset(out, 0, sizeof *out);
    memcpy(out->internal, &id, sizeof id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int n_ranks, ncclUniqueId id, int rank)
{
    CUSIM_NCCL_CALL(ncclCommInitRank, "rank=%d ranks=%d", rank, n_ranks);
    return join(out, n_ranks, id, rank, NULL);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    CUSIM_NCCL_CALL(ncclCommInitRankConfig, "rank=%d ranks=%d blocking=%d", rank, n_ranks,
                    config != NULL && config->blocking == 0 ? 0 : 1);
    return join(out, n_ranks, id, rank, config);
}
