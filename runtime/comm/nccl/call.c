#include "comm/nccl/nccl.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/failure.h"

enum { NAP_NANOSECONDS = 50000 };

static void describe_current(const lsi_nccl_comm *comm, char *out, size_t size)
{
    const lsi_nccl_collective *current = atomic_load(&((lsi_nccl_comm *)(uintptr_t)comm)->current);

    if (current == NULL) {
        snprintf(out, size, "setting up NCCL");
    } else {
        snprintf(out, size, "%s of %zu bytes", current->name, current->bytes);
    }
}

ls_status lsi_nccl_check(const lsi_nccl_comm *comm, ncclResult_t result, const char *call)
{
    char what[96];

    if (result == ncclSuccess || result == ncclInProgress) {
        return LS_OK;
    }
    const char *more = ncclGetLastError(comm->nccl);
    describe_current(comm, what, sizeof what);
    (void)cudaGetLastError(); /* it is told here */
    return LS_FAIL(LS_ERR_COMM, "rank %d of %d, GPU %d, %s: %s: %s%s%s%s", comm->head.rank, comm->head.world,
                   comm->device->ordinal, what, call, ncclGetErrorString(result),
                   more != NULL && more[0] != '\0' ? " (" : "", more != NULL ? more : "",
                   more != NULL && more[0] != '\0' ? ")" : "");
}

ls_status lsi_nccl_settle(const lsi_nccl_comm *comm, const char *call)
{
    const struct timespec nap = {.tv_nsec = NAP_NANOSECONDS};
    double deadline = lsi_clock_seconds() + comm->timeout_seconds;
    ncclResult_t state;
    char what[96];

    for (;;) {
        LS_TRY(lsi_nccl_check(comm, ncclCommGetAsyncError(comm->nccl, &state), "ncclCommGetAsyncError"));
        if (state != ncclInProgress) {
            return lsi_nccl_check(comm, state, call);
        }
        describe_current(comm, what, sizeof what);
        LS_REQUIRE(!atomic_load(&((lsi_nccl_comm *)(uintptr_t)comm)->aborted), LS_ERR_COMM,
                   "communication was aborted during %s", what);
        LS_REQUIRE(lsi_clock_seconds() < deadline, LS_ERR_TIMEOUT,
                   "rank %d of %d, GPU %d, %s: %s has not ended after %g s (comm.timeout)", comm->head.rank,
                   comm->head.world, comm->device->ordinal, what, call, comm->timeout_seconds);
        nanosleep(&nap, NULL);
    }
}

ls_status lsi_nccl_finish(const lsi_nccl_comm *comm, ncclResult_t result, const char *call)
{
    LS_TRY(lsi_nccl_check(comm, result, call));
    return result == ncclInProgress ? lsi_nccl_settle(comm, call) : LS_OK;
}

ls_status lsi_nccl_launched(const lsi_nccl_comm *comm, ls_status status)
{
    lsi_failure failure;
    char what[96];

    if (status == LS_OK) {
        return LS_OK;
    }
    lsi_failure_take(&failure);
    describe_current(comm, what, sizeof what);
    return LS_FAIL(status, "rank %d of %d, GPU %d, %s: %s", comm->head.rank, comm->head.world, comm->device->ordinal,
                   what, failure.message);
}

/* ---- groups ---------------------------------------------------------------------------------------------------- */

/* A group without messages is none. */
static ls_status begin_message(lsi_nccl_group *group)
{
    if (group->n++ > 0) {
        return LS_OK;
    }
    ls_status status = lsi_nccl_check(group->comm, ncclGroupStart(), "ncclGroupStart");
    if (status != LS_OK) {
        group->n = 0;
    }
    return status;
}

ls_status lsi_nccl_send(lsi_nccl_group *group, const void *data, size_t bytes, int peer)
{
    char call[48];

    LS_TRY(begin_message(group));
    ncclResult_t result = ncclSend(data, bytes, ncclInt8, peer, group->comm->nccl, group->stream);
    if (result == ncclSuccess || result == ncclInProgress) {
        return LS_OK;
    }
    snprintf(call, sizeof call, "ncclSend to rank %d", peer);
    return lsi_nccl_check(group->comm, result, call);
}

ls_status lsi_nccl_receive(lsi_nccl_group *group, void *data, size_t bytes, int peer)
{
    char call[48];

    LS_TRY(begin_message(group));
    ncclResult_t result = ncclRecv(data, bytes, ncclInt8, peer, group->comm->nccl, group->stream);
    if (result == ncclSuccess || result == ncclInProgress) {
        return LS_OK;
    }
    snprintf(call, sizeof call, "ncclRecv from rank %d", peer);
    return lsi_nccl_check(group->comm, result, call);
}

ls_status lsi_nccl_reduce_to(lsi_nccl_group *group, const void *data, void *total, size_t count, ncclDataType_t type,
                             int root)
{
    LS_TRY(begin_message(group));
    return lsi_nccl_check(group->comm,
                          ncclReduce(data, total, count, type, ncclSum, root, group->comm->nccl, group->stream),
                          "ncclReduce");
}

ls_status lsi_nccl_group_end(lsi_nccl_group *group, ls_status status)
{
    if (group->n == 0) {
        return status;
    }
    group->n = 0;
    ncclResult_t result = ncclGroupEnd();
    LS_TRY(status);
    return lsi_nccl_finish(group->comm, result, "ncclGroupEnd");
}
