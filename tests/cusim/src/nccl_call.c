/* The calls: what may be called, with which buffers; reductions that multiply first. */
#include <string.h>

#include "nccl_internal.h"

/* ---- reductions that multiply first ---------------------------------------------------------- */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *out, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    int code = cusim_call(CUSIM_FN_ncclRedOpCreatePreMulSum, CUSIM_NO_STREAM, "type=%d", (int)type);

    if (code != 0) {
        return (ncclResult_t)code;
    }
    if (out == NULL || scalar == NULL || cusim_nccl_type_size((int)type) == 0) {
        return ncclInvalidArgument;
    }
    cusim_lock();
    ncclResult_t result = cusim_nccl_usable(comm, "ncclRedOpCreatePreMulSum");
    int i = 0;
    while (result == ncclSuccess && i < CUSIM_NCCL_SCALES && comm->scales[i].used) {
        i++;
    }
    if (result == ncclSuccess && i == CUSIM_NCCL_SCALES) {
        result =
            cusim_nccl_refuse(comm, ncclInternalError, "more than %d reductions: not simulated", CUSIM_NCCL_SCALES);
    }
    if (result == ncclSuccess) {
        comm->scales[i] = (cusim_nccl_scale){.used = true, .type = (int)type};
        if (residence == ncclScalarDevice) {
            comm->scales[i].device_scalar = scalar;
        } else {
            memcpy(comm->scales[i].scalar, scalar, cusim_nccl_type_size((int)type));
        }
        *out = (ncclRedOp_t)(ncclNumOps + i);
    }
    cusim_unlock();
    return result;
}

static cusim_nccl_scale *find_scale(struct ncclComm *comm, int reduction)
{
    int i = reduction - ncclNumOps;

    return i >= 0 && i < CUSIM_NCCL_SCALES && comm->scales[i].used ? &comm->scales[i] : NULL;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t reduction, ncclComm_t comm)
{
    int code = cusim_call(CUSIM_FN_ncclRedOpDestroy, CUSIM_NO_STREAM, NULL);

    if (code != 0) {
        return (ncclResult_t)code;
    }
    cusim_lock();
    ncclResult_t result = cusim_nccl_usable(comm, "ncclRedOpDestroy");
    cusim_nccl_scale *scale = result == ncclSuccess ? find_scale(comm, (int)reduction) : NULL;
    if (scale != NULL) {
        scale->used = false;
    }
    cusim_unlock();
    return result != ncclSuccess ? result : scale != NULL ? ncclSuccess : ncclInvalidArgument;
}

/* ---- what may be called ---------------------------------------------------------------------- */
typedef struct shape {
    bool reads, writes;
    size_t in_bytes, out_bytes;
    size_t in_place; /* the input's offset in the output, or the other way round, where both are one */
} shape;

static shape shape_of(const struct ncclComm *comm, const cusim_nccl_call *call)
{
    size_t bytes = call->count * cusim_nccl_type_size(call->type), all = bytes * (size_t)comm->n_ranks;
    bool root = comm->rank == call->root;

    switch (call->kind) {
    case CUSIM_NCCL_REDUCE_SCATTER:
        return (shape){true, true, all, bytes, bytes * (size_t)comm->rank};
    case CUSIM_NCCL_ALL_GATHER:
        return (shape){true, true, bytes, all, bytes * (size_t)comm->rank};
    case CUSIM_NCCL_BROADCAST:
        return (shape){root, true, bytes, bytes, 0};
    case CUSIM_NCCL_REDUCE:
        return (shape){true, root, bytes, bytes, 0};
    case CUSIM_NCCL_SEND:
        return (shape){true, false, bytes, 0, 0};
    case CUSIM_NCCL_RECV:
        return (shape){false, true, 0, bytes, 0};
    default:
        return (shape){true, true, bytes, bytes, 0};
    }
}

static ncclResult_t check_buffers(struct ncclComm *comm, const char *what, const cusim_nccl_task *task)
{
    shape s = shape_of(comm, &task->call);
    const char *in = task->in, *out = task->out;

    if ((s.reads && s.in_bytes > 0 && !cusim_is_device_range(in, s.in_bytes, comm->device)) ||
        (s.writes && s.out_bytes > 0 && !cusim_is_device_range(out, s.out_bytes, comm->device))) {
        return cusim_nccl_refuse(comm, ncclInvalidArgument, "%s: a buffer is not %zu bytes of memory of device %d",
                                 what, s.in_bytes > s.out_bytes ? s.in_bytes : s.out_bytes, comm->device);
    }
    const char *where = task->call.kind == CUSIM_NCCL_ALL_GATHER ? out : in,
               *which = task->call.kind == CUSIM_NCCL_ALL_GATHER ? in : out;
    if (s.reads && s.writes && in < out + s.out_bytes && out < in + s.in_bytes && which != where + s.in_place) {
        return cusim_nccl_refuse(comm, ncclInvalidArgument, "%s: the buffers overlap, but not as they do in place",
                                 what);
    }
    return ncclSuccess;
}

static ncclResult_t check_call(struct ncclComm *comm, const char *what, cusim_nccl_task *task, cudaStream_t stream)
{
    ncclResult_t result = cusim_nccl_usable(comm, what);
    cusim_nccl_call *call = &task->call;

    if (result != ncclSuccess) {
        return result;
    }
    if (cusim_nccl_type_size(call->type) == 0 || call->root < 0 || call->root >= comm->n_ranks) {
        return cusim_nccl_refuse(comm, ncclInvalidArgument, "%s: type %d or rank %d is not possible", what, call->type,
                                 call->root);
    }
    if (call->reduction < 0 || call->reduction >= ncclNumOps) {
        const cusim_nccl_scale *scale = find_scale(comm, call->reduction);

        if (scale == NULL || scale->type != call->type) {
            return cusim_nccl_refuse(comm, ncclInvalidArgument, "%s: reduction %d is not possible", what,
                                     call->reduction);
        }
        task->scaled = true;
        task->device_scalar = scale->device_scalar;
        memcpy(task->scalar, scale->scalar, sizeof task->scalar);
        call->reduction = ncclNumOps;
    }
    if (cusim_stream_device(stream) != comm->device) {
        return cusim_nccl_refuse(comm, ncclInvalidUsage,
                                 "%s: the stream is of device %d, the communicator of device %d", what,
                                 cusim_stream_device(stream), comm->device);
    }
    return check_buffers(comm, what, task);
}

static ncclResult_t start(cusim_function function, const char *what, cusim_nccl_call call, const void *in, void *out,
                          struct ncclComm *comm, cudaStream_t stream)
{
    cusim_nccl_queued q = {.comm = comm, .stream = stream, .task = {.call = call, .in = in, .out = out}};
    char text[CUSIM_NCCL_TEXT];

    cusim_nccl_describe(&call, text, sizeof text);
    int code = cusim_call(function, stream, "%s", text);
    if (code != 0) {
        return cusim_nccl_group_failed((ncclResult_t)code);
    }
    cusim_lock();
    ncclResult_t result = check_call(comm, what, &q.task, stream);
    cusim_unlock();
    if (result != ncclSuccess) {
        return cusim_nccl_group_failed(result);
    }
    /* An empty collective is none; an empty message has to match all the same. */
    return call.count == 0 && call.kind < CUSIM_NCCL_SEND ? ncclSuccess : cusim_nccl_submit(&q);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, cudaStream_t stream)
{
    return start(CUSIM_FN_ncclAllReduce, __func__,
                 (cusim_nccl_call){CUSIM_NCCL_ALL_REDUCE, (int)type, (int)reduction, 0, count}, in, out, comm, stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t reduction, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return start(CUSIM_FN_ncclReduce, __func__,
                 (cusim_nccl_call){CUSIM_NCCL_REDUCE, (int)type, (int)reduction, root, count}, in, out, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                               ncclComm_t comm, cudaStream_t stream)
{
    return start(CUSIM_FN_ncclReduceScatter, __func__,
                 (cusim_nccl_call){CUSIM_NCCL_REDUCE_SCATTER, (int)type, (int)reduction, 0, count}, in, out, comm,
                 stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return start(CUSIM_FN_ncclAllGather, __func__, (cusim_nccl_call){CUSIM_NCCL_ALL_GATHER, (int)type, 0, 0, count}, in,
                 out, comm, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return start(CUSIM_FN_ncclBroadcast, __func__, (cusim_nccl_call){CUSIM_NCCL_BROADCAST, (int)type, 0, root, count},
                 in, out, comm, stream);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return start(CUSIM_FN_ncclSend, __func__, (cusim_nccl_call){CUSIM_NCCL_SEND, (int)type, 0, peer, count}, in, NULL,
                 comm, stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return start(CUSIM_FN_ncclRecv, __func__, (cusim_nccl_call){CUSIM_NCCL_RECV, (int)type, 0, peer, count}, NULL, out,
                 comm, stream);
}
