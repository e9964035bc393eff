#include "comm/nccl/nccl.h"

#include <unistd.h>

#include "backend/cuda/stream.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

enum { LOOK_MICROSECONDS = 20000, LOOKS_PER_QUESTION = 5, GIVE_UP_SECONDS = 10, LEAVE_SECONDS = 30 };

/* ---- giving up ------------------------------------------------------------------------------------------------- */

/* Outlives its caller where NCCL takes too long. */
typedef struct giving_up {
    const lsi_cuda_device *device;
    ncclComm_t nccl;
    atomic_int owners; /* the last one frees it */
    atomic_bool done;
} giving_up;

static void drop(giving_up *g)
{
    if (atomic_fetch_sub(&g->owners, 1) == 1) {
        lsi_memory_free(g);
    }
}

static void *give_up_main(void *argument)
{
    giving_up *g = argument;

    (void)lsi_cuda_device_enter(g->device);
    (void)ncclCommAbort(g->nccl);
    atomic_store(&g->done, true);
    drop(g);
    return NULL;
}

void lsi_nccl_give_up(lsi_nccl_comm *comm)
{
    double deadline = lsi_clock_seconds() + GIVE_UP_SECONDS;
    pthread_t thread;
    void *memory;

    atomic_store(&comm->aborted, true); /* who waits for NCCL inside a call leaves */
    pthread_mutex_lock(&comm->use);
    ncclComm_t nccl = comm->nccl;
    comm->nccl = NULL;
    pthread_mutex_unlock(&comm->use);
    if (nccl == NULL || lsi_memory_alloc(sizeof(giving_up), "an abort", &memory) != LS_OK) {
        return;
    }
    giving_up *g = memory;
    g->device = comm->device;
    g->nccl = nccl;
    atomic_init(&g->owners, 2);
    atomic_init(&g->done, false);
    if (lsi_thread_start(&thread, "ls-nccl-abort", give_up_main, g) != LS_OK) {
        lsi_memory_free(g);
        return;
    }
    pthread_detach(thread);
    while (!atomic_load(&g->done) && lsi_clock_seconds() < deadline) {
        usleep(LOOK_MICROSECONDS / 20);
    }
    drop(g);
}

/* ---- errors of work under way, and work that does not end -------------------------------------------------------- */

/* What the guard has seen: since when a call of NCCL runs, since when the GPU stands still. */
typedef struct watch {
    double now, call_since, still_since;
    uint64_t stamps;
} watch;

static const char *last_launched(const lsi_nccl_comm *comm)
{
    const lsi_nccl_collective *current = atomic_load(&((lsi_nccl_comm *)(uintptr_t)comm)->current);

    return current != NULL ? current->name : "nothing";
}

/* A stream that is captured must not be asked, nor one that is gone; what is captured does not run. */
static bool has_work(lsi_nccl_comm *comm)
{
    lsi_cuda_device *device = (lsi_cuda_device *)comm->head.device;
    bool pending = false;

    pthread_mutex_lock(&device->mutex);
    for (const lsi_cuda_queue *s = device->capture == NULL ? device->streams : NULL; s != NULL; s = s->next) {
        if (!pending && (&s->head == atomic_load(&comm->stream) || &s->head == atomic_load(&comm->origin))) {
            pending = cudaStreamQuery(s->cuda) == cudaErrorNotReady;
            (void)cudaGetLastError();
        }
    }
    pthread_mutex_unlock(&device->mutex);
    return pending;
}

/* A watchdog knows more (which rank is behind, and where) and one of them speaks for all: it speaks first, this is for
 * the case that it does not. */
static bool is_late(const lsi_nccl_comm *comm, double now, double since)
{
    const double behind_watchdog = 4;
    double limit = comm->timeout_seconds + (comm->watchdog != NULL ? behind_watchdog : 0);

    return now - since > limit && !lsi_watchdog_vouches(comm->watchdog, limit);
}

/* The GPU moves when it stamps: a step does so many times, around every collective. */
static ls_status check_moves(lsi_nccl_comm *comm, watch *w)
{
    uint64_t stamps = lsi_cuda_stamp_count(comm->head.device);

    if (stamps != w->stamps || !has_work(comm)) {
        w->stamps = stamps;
        w->still_since = w->now;
    }
    LS_REQUIRE(!is_late(comm, w->now, w->still_since), LS_ERR_TIMEOUT,
               "rank %d of %d: GPU %d has stood still for %g s (comm.timeout) with communication queued (last: %s): "
               "another rank is gone, stopped or held up; NCCL does not tell which",
               comm->head.rank, comm->head.world, comm->device->ordinal, comm->timeout_seconds, last_launched(comm));
    return LS_OK;
}

/* LS_OK also where a launch holds the communicator: it sees errors itself. */
static ls_status ask(lsi_nccl_comm *comm, watch *w)
{
    ncclResult_t state = ncclSuccess;
    ls_status status = LS_OK;

    if (pthread_mutex_trylock(&comm->use) != 0) {
        /* A launch waits as long itself, for NCCL; longer is inside one call. */
        LS_REQUIRE(
            !is_late(comm, w->now, w->call_since + 1), LS_ERR_TIMEOUT,
            "rank %d of %d: a call of NCCL for GPU %d has not returned after %g s (comm.timeout; %s): another rank "
            "is gone, stopped or held up",
            comm->head.rank, comm->head.world, comm->device->ordinal, comm->timeout_seconds, last_launched(comm));
        return LS_OK;
    }
    w->call_since = w->now;
    if (comm->nccl != NULL && !atomic_load(&comm->aborted)) {
        status = lsi_nccl_check(comm, ncclCommGetAsyncError(comm->nccl, &state), "ncclCommGetAsyncError");
        if (status == LS_OK) {
            status = lsi_nccl_check(comm, state, "a peer or the way to it has failed");
        }
    }
    pthread_mutex_unlock(&comm->use);
    LS_TRY(status);
    return check_moves(comm, w);
}

static void *guard_main(void *argument)
{
    lsi_nccl_comm *comm = argument;
    watch w = {.now = lsi_clock_seconds()};

    w.call_since = w.still_since = w.now;
    ls_status entered = lsi_cuda_device_enter_for((lsi_cuda_device *)comm->head.device, "cannot watch over NCCL");
    if (entered != LS_OK) {
        comm->on_failure(comm->failure_argument, entered);
        return NULL;
    }
    for (int looks = 1; !atomic_load(&comm->closing); looks++) {
        usleep(LOOK_MICROSECONDS);
        if (looks % LOOKS_PER_QUESTION != 0) {
            continue;
        }
        w.now = lsi_clock_seconds();
        ls_status status = ask(comm, &w);
        if (status != LS_OK && !atomic_load(&comm->closing) && !atomic_load(&comm->aborted)) {
            comm->on_failure(comm->failure_argument, status);
        }
    }
    return NULL;
}

ls_status lsi_nccl_guard_start(lsi_nccl_comm *comm)
{
    LS_TRY(lsi_thread_start(&comm->guard, "ls-nccl", guard_main, comm));
    comm->has_guard = true;
    return LS_OK;
}

void lsi_nccl_guard_stop(lsi_nccl_comm *comm)
{
    atomic_store(&comm->closing, true);
    if (comm->has_guard) {
        pthread_join(comm->guard, NULL);
    }
}

/* ---- leaving --------------------------------------------------------------------------------------------------- */

void lsi_nccl_leave(lsi_nccl_comm *comm)
{
    /* Work that failed or was aborted may never end, and NCCL would wait for it. */
    if (comm->nccl == NULL || atomic_load(&comm->aborted) || lsi_cuda_device_stopped(comm->device)) {
        lsi_nccl_give_up(comm);
        return;
    }
    comm->timeout_seconds = comm->timeout_seconds < LEAVE_SECONDS ? comm->timeout_seconds : LEAVE_SECONDS;
    ls_status status = lsi_nccl_finish(comm, ncclCommFinalize(comm->nccl), "ncclCommFinalize");
    if (status != LS_OK) {
        lsi_nccl_give_up(comm);
        return;
    }
    (void)ncclCommDestroy(comm->nccl);
    comm->nccl = NULL;
}
