#include "comm/nccl/nccl.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

enum { LOOK_MICROSECONDS = 20000, LOOKS_PER_QUESTION = 5, GIVE_UP_SECONDS = 10, LEAVE_SECONDS = 30 };

/* ---- giving up ------------------------------------------------------------------------------------------------- */

/* Outlives its caller where NCCL takes too long. */
typedef struct giving_up {
    const lsi_cuda_device *device;
    ncclComm_t nccl;
    atomic_int owners;          /* the last one frees it */
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

    lsi_cuda_device_enter(g->device);
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

    atomic_store(&comm->aborted, true);     /* who waits for NCCL inside a call leaves */
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

/* ---- errors of work under way ---------------------------------------------------------------------------------- */

/* LS_OK also where nobody can tell now. */
static ls_status ask(lsi_nccl_comm *comm)
{
    ncclResult_t state = ncclSuccess;
    ls_status status = LS_OK;

    if (pthread_mutex_trylock(&comm->use) != 0) {
        return LS_OK;
    }
    if (comm->nccl != NULL && !atomic_load(&comm->aborted)) {
        (void)ncclCommGetAsyncError(comm->nccl, &state);
        status = lsi_nccl_check(comm, state, "a peer or the way to it has failed");
    }
    pthread_mutex_unlock(&comm->use);
    return status;
}

static void *guard_main(void *argument)
{
    lsi_nccl_comm *comm = argument;

    lsi_cuda_device_enter(comm->device);
    for (int looks = 1; !atomic_load(&comm->closing); looks++) {
        usleep(LOOK_MICROSECONDS);
        if (looks % LOOKS_PER_QUESTION != 0) {
            continue;
        }
        ls_status status = ask(comm);
        if (status != LS_OK && !atomic_load(&comm->closing)) {
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
