/* Communicators: what is under way, errors, leaving. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_internal.h"

static struct ncclComm *all_comms;
static _Thread_local char last_message[256];

ncclResult_t cusim_nccl_refuse(struct ncclComm *comm, ncclResult_t code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(last_message, sizeof last_message, format, arguments);
    va_end(arguments);
    if (comm != NULL) {
        memcpy(comm->message, last_message, sizeof comm->message);
    }
    cusim_note("NCCL WARN %s", last_message);
    return code;
}

struct ncclComm *cusim_nccl_find(ncclComm_t handle)
{
    for (struct ncclComm *comm = all_comms; comm != NULL; comm = comm->next) {
        if (comm == handle) {
            return comm->stage == CUSIM_NCCL_OVER ? NULL : comm;
        }
    }
    return NULL;
}

void cusim_nccl_keep(struct ncclComm *comm)
{
    comm->next = all_comms;
    all_comms = comm;
}

void cusim_nccl_close(struct ncclComm *comm)
{
    comm->stage = CUSIM_NCCL_OVER;
    for (int i = 0; i < CUSIM_NCCL_RANKS; i++) {
        for (int s = 0; s < CUSIM_NCCL_SEGMENTS; s++) {
            cusim_nccl_segment_close(&comm->segments[i][s]);
        }
        if (comm->pidfds[i] >= 0) {
            close(comm->pidfds[i]);
        }
        comm->pidfds[i] = -1;
    }
    cusim_nccl_control_detach(comm->control);
    comm->control = NULL;
    free(comm->deferred);
    comm->deferred = NULL;
}

/* ---- what is under way ----------------------------------------------------------------------- */
static bool quiet(void *argument)
{
    const struct ncclComm *comm = argument;

    return comm->aborted || (comm->turn == comm->next_turn && comm->deferred == NULL);
}

static void queue_deferred(struct ncclComm *comm)
{
    cusim_nccl_operation *operation = comm->deferred;

    if (operation == NULL || --comm->deferred_polls > 0) {
        return;
    }
    comm->deferred = NULL;
    comm->state = cusim_nccl_queue(operation, comm->deferred_stream);
    free(operation);
}

static void try_leave(struct ncclComm *comm)
{
    if (!quiet(comm)) {
        return;
    }
    atomic_store(&comm->control->ranks[comm->rank].finalized, 1);
    for (int i = 0; i < comm->n_ranks; i++) {
        if (!atomic_load(&comm->control->ranks[i].finalized) && !atomic_load(&comm->control->ranks[i].gone)) {
            return;
        }
    }
    comm->state = ncclSuccess;
}

void cusim_nccl_advance(struct ncclComm *comm)
{
    if (comm->state != ncclSuccess && comm->state != ncclInProgress) {
        return; /* an error stays */
    }
    if (comm->stage == CUSIM_NCCL_JOINING) {
        cusim_nccl_try_join(comm);
    } else if (comm->stage == CUSIM_NCCL_RUNNING) {
        queue_deferred(comm);
        if (cusim_nccl_peers_lost(comm)) {
            comm->state = ncclRemoteError;
        }
    } else if (comm->stage == CUSIM_NCCL_LEAVING && comm->state == ncclInProgress) {
        try_leave(comm);
        if (comm->state == ncclInProgress && cusim_nccl_peers_lost(comm)) {
            comm->state = ncclRemoteError;
        }
    }
}

ncclResult_t cusim_nccl_usable(struct ncclComm *comm, const char *what)
{
    comm = cusim_nccl_find(comm);
    if (comm == NULL || comm->aborted) {
        return cusim_nccl_refuse(NULL, ncclInvalidArgument, "%s: not a communicator", what);
    }
    if (comm->stage == CUSIM_NCCL_LEAVING) {
        return cusim_nccl_refuse(comm, ncclInvalidUsage, "%s: the communicator has been finalized", what);
    }
    if (comm->state == ncclInProgress) {
        return cusim_nccl_refuse(comm, ncclInvalidArgument,
                                 "%s: Attempt to use communicator before the previous operation returned ncclSuccess",
                                 what);
    }
    return comm->state;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *out)
{
    int code = cusim_call(CUSIM_FN_ncclCommGetAsyncError, CUSIM_NO_STREAM, NULL);
    ncclResult_t result = ncclInvalidArgument;

    cusim_lock();
    struct ncclComm *comm = cusim_nccl_find(handle);
    if (comm != NULL && out != NULL) {
        if (code != 0) {
            comm->state = (ncclResult_t)code; /* injected: as if something had gone wrong meanwhile */
        }
        cusim_nccl_advance(comm);
        *out = comm->state;
        result = ncclSuccess;
    }
    cusim_unlock();
    return result;
}

/* ---- leaving --------------------------------------------------------------------------------- */
static bool left(void *argument)
{
    struct ncclComm *comm = argument;

    cusim_nccl_advance(comm);
    return comm->state != ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    CUSIM_NCCL_CALL(ncclCommFinalize, NULL);
    cusim_lock();
    struct ncclComm *comm = cusim_nccl_find(handle);
    ncclResult_t result = cusim_nccl_usable(handle, "ncclCommFinalize");
    if (result == ncclSuccess) {
        comm->stage = CUSIM_NCCL_LEAVING;
        comm->state = ncclInProgress;
        result = comm->blocking ? ncclSuccess : ncclInProgress;
        if (comm->blocking) {
            cusim_wait_until(left, comm);
            result = comm->state;
        }
    }
    cusim_unlock();
    return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    CUSIM_NCCL_CALL(ncclCommDestroy, NULL);
    if (handle == NULL) {
        return ncclSuccess;
    }
    cusim_lock();
    struct ncclComm *comm = cusim_nccl_find(handle);
    ncclResult_t result = comm != NULL
                              ? ncclSuccess
                              : cusim_nccl_refuse(NULL, ncclInvalidArgument, "ncclCommDestroy: not a communicator");
    if (comm != NULL) {
        comm->deferred_polls = 0;
        queue_deferred(comm);
        cusim_wait_until(quiet, comm);
        atomic_store(&comm->control->ranks[comm->rank].finalized, 1);
        cusim_nccl_close(comm);
    }
    cusim_unlock();
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t handle)
{
    CUSIM_NCCL_CALL(ncclCommAbort, NULL);
    cusim_lock();
    struct ncclComm *comm = cusim_nccl_find(handle);
    if (comm != NULL) {
        comm->aborted = true; /* operations on streams end without having done anything */
        if (comm->stage == CUSIM_NCCL_JOINING) {
            atomic_store(&comm->control->ranks[comm->rank].presence, CUSIM_NCCL_FAILED);
        }
        atomic_store(&comm->control->ranks[comm->rank].gone, 1);
        cusim_nccl_close(comm);
    }
    cusim_unlock();
    return comm != NULL ? ncclSuccess
                        : cusim_nccl_refuse(NULL, ncclInvalidArgument, "ncclCommAbort: not a communicator");
}

/* ---- questions ------------------------------------------------------------------------------- */
enum question { COUNT, DEVICE, RANK };

static ncclResult_t answer(ncclComm_t handle, enum question question, int *out)
{
    cusim_lock();
    const struct ncclComm *comm = cusim_nccl_find(handle);
    if (comm != NULL && out != NULL) {
        *out = question == COUNT ? comm->n_ranks : question == DEVICE ? comm->device : comm->rank;
    }
    cusim_unlock();
    return comm != NULL && out != NULL ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *out)
{
    CUSIM_NCCL_CALL(ncclCommCount, NULL);
    return answer(comm, COUNT, out);
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *out)
{
    CUSIM_NCCL_CALL(ncclCommCuDevice, NULL);
    return answer(comm, DEVICE, out);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *out)
{
    CUSIM_NCCL_CALL(ncclCommUserRank, NULL);
    return answer(comm, RANK, out);
}

const char *ncclGetLastError(ncclComm_t handle)
{
    const char *text = last_message;

    cusim_call(CUSIM_FN_ncclGetLastError, CUSIM_NO_STREAM, NULL);
    cusim_lock();
    const struct ncclComm *comm = cusim_nccl_find(handle);
    if (comm != NULL && comm->message[0] != '\0') {
        text = comm->message;
    }
    cusim_unlock();
    return text;
}

const char *ncclGetErrorString(ncclResult_t code)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };

    cusim_call(CUSIM_FN_ncclGetErrorString, CUSIM_NO_STREAM, NULL);
    return (int)code >= 0 && code < ncclNumResults ? texts[code] : "unknown result code";
}
