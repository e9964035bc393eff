/* From calls to operations: groups, and the way onto the stream. */
#include <stdlib.h>
#include <string.h>

#include "nccl_internal.h"

/* Groups are a thread's own. */
static _Thread_local struct {
    int depth;
    ncclResult_t error; /* the first one inside the group */
    cusim_nccl_queued *calls;
    int n_calls, room;
    struct {
        struct ncclComm *comm;
        ncclComm_t *out;
    } joins[CUSIM_NCCL_RANKS];
    int n_joins;
} group;

/* ---- onto the stream ------------------------------------------------------------------------- */
ncclResult_t cusim_nccl_queue(cusim_nccl_operation *operation, cudaStream_t stream)
{
    struct ncclComm *comm = operation->comm;
    size_t bytes = 0;
    bool captured = cusim_stream_capturing(stream);
    const cusim_nccl_call *first = &operation->tasks[0].call;

    for (int i = 0; i < operation->n_tasks; i++) {
        const cusim_nccl_call *call = &operation->tasks[i].call;

        bytes += call->count * cusim_nccl_type_size(call->type);
    }
    operation->turn = captured ? CUSIM_NCCL_TURN_WHEN_RUN : comm->next_turn++;
    const cusim_work work = {
        .name = operation->n_tasks == 1 ? cusim_nccl_kind_name(first->kind) : "ncclGroup",
        .poll = cusim_nccl_poll,
        .argument = operation,
        .argument_bytes = cusim_nccl_operation_bytes(operation->n_tasks),
        .seconds = 1e-5 + (double)bytes * 2 * (comm->n_ranks - 1) / comm->n_ranks / 1e11,
    };
    if (cusim_enqueue(stream, &work) != cudaSuccess) {
        comm->next_turn -= captured ? 0 : 1;
        return cusim_nccl_refuse(comm, ncclUnhandledCudaError, "%s cannot be put on its stream", work.name);
    }
    return ncclSuccess;
}

/* A communicator that does not block may take its time: the call is over, the operation is not on its stream yet. */
static bool defer(cusim_nccl_operation *operation, cudaStream_t stream)
{
    struct ncclComm *comm = operation->comm;

    if (comm->blocking || cusim_seed() == 0 || cusim_random() % 3 != 0) {
        return false;
    }
    comm->deferred = operation;
    comm->deferred_stream = stream;
    comm->deferred_polls = 1 + (int)(cusim_random() % 3);
    comm->state = ncclInProgress;
    return true;
}

/* All calls of one communicator, from `first` on; marks them as taken. */
static ncclResult_t launch_comm(cusim_nccl_queued *calls, int n_calls, int first)
{
    struct ncclComm *comm = calls[first].comm;
    cudaStream_t stream = calls[first].stream;
    int n = 0;

    for (int i = first; i < n_calls; i++) {
        if (calls[i].comm == comm && calls[i].stream != stream) {
            return cusim_nccl_refuse(comm, ncclInvalidUsage,
                                     "a group uses two streams for one communicator: not simulated");
        }
        n += calls[i].comm == comm;
    }
    cusim_nccl_operation *operation = calloc(1, cusim_nccl_operation_bytes(n));
    if (operation == NULL) {
        return ncclSystemError;
    }
    operation->comm = comm;
    for (int i = first; i < n_calls; i++) {
        if (calls[i].comm == comm) {
            operation->tasks[operation->n_tasks++] = calls[i].task;
            calls[i].comm = NULL;
        }
    }
    if (defer(operation, stream)) {
        return ncclInProgress;
    }
    ncclResult_t result = cusim_nccl_queue(operation, stream);
    free(operation);
    return result;
}

static ncclResult_t launch(cusim_nccl_queued *calls, int n_calls)
{
    ncclResult_t result = ncclSuccess;

    cusim_lock();
    for (int i = 0; i < n_calls && (result == ncclSuccess || result == ncclInProgress); i++) {
        if (calls[i].comm != NULL) {
            ncclResult_t one = launch_comm(calls, n_calls, i);

            result = one == ncclSuccess ? result : one;
        }
    }
    cusim_unlock();
    return result;
}

/* ---- groups ---------------------------------------------------------------------------------- */
bool cusim_nccl_group_adds_join(struct ncclComm *comm, ncclComm_t *out)
{
    if (group.depth == 0 || group.n_joins == CUSIM_NCCL_RANKS) {
        return false;
    }
    group.joins[group.n_joins].comm = comm;
    group.joins[group.n_joins++].out = out;
    return true;
}

ncclResult_t cusim_nccl_group_failed(ncclResult_t code)
{
    if (group.depth > 0 && group.error == ncclSuccess) {
        group.error = code;
    }
    return code;
}

ncclResult_t cusim_nccl_submit(const cusim_nccl_queued *call)
{
    cusim_nccl_queued alone = *call;

    if (group.depth == 0) {
        return launch(&alone, 1);
    }
    if (group.n_calls == group.room) {
        int room = group.room > 0 ? group.room * 2 : 16;
        cusim_nccl_queued *more = realloc(group.calls, sizeof *more * (size_t)room);

        if (more == NULL) {
            return cusim_nccl_group_failed(ncclSystemError);
        }
        group.calls = more;
        group.room = room;
    }
    group.calls[group.n_calls++] = *call;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    int code = cusim_call(CUSIM_FN_ncclGroupStart, CUSIM_NO_STREAM, NULL);

    if (code != 0) {
        return (ncclResult_t)code;
    }
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    cudaStream_t stream = group.n_calls > 0 ? group.calls[0].stream : CUSIM_NO_STREAM;
    int code = cusim_call(CUSIM_FN_ncclGroupEnd, stream, "calls=%d", group.n_calls);

    if (group.depth == 0) {
        return cusim_nccl_refuse(NULL, ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
    }
    if (--group.depth > 0) {
        return (ncclResult_t)code;
    }
    ncclResult_t result = code != 0 ? (ncclResult_t)code : group.error;
    for (int i = 0; i < group.n_joins; i++) {
        ncclResult_t one = group.joins[i].comm->blocking
                               ? cusim_nccl_finish_joining(group.joins[i].comm, group.joins[i].out)
                               : ncclInProgress;

        result = result == ncclSuccess ? one : result;
    }
    if (result == ncclSuccess || result == ncclInProgress) {
        ncclResult_t one = launch(group.calls, group.n_calls);

        result = one == ncclSuccess ? result : one;
    }
    free(group.calls);
    memset(&group, 0, sizeof group);
    return result;
}
