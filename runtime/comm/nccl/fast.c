/* The sum in NCCL's own order: one reduce-scatter, or where chunks have unequal sizes a reduction to each owner, all of
 * them together; where everybody wants all of it, one all-reduce.
 *
 * 16 bits on the wire: values are first divided by the power of two >= the number of ranks. That is exact, and no sum
 * on the way leaves the type's range where the values themselves do not. */
#include "comm/nccl/nccl.h"

#include "kernels/cuda/comm.h"

enum { WIRE_BYTES = 2 };

size_t lsi_nccl_fast_staging(ls_dtype wire, int64_t n)
{
    return wire == LS_F32 ? 0 : (size_t)n * WIRE_BYTES;
}

/* Sums of `data`, n elements of all ranks, in `total`: this rank's chunk at its place, or everything. */
static ls_status sum_chunks(lsi_nccl_comm *comm, const char *data, char *total, int64_t n, ncclDataType_t type,
                            size_t size, cudaStream_t stream)
{
    int64_t equal = lsi_nccl_equal_chunk(comm, n), start, count;
    lsi_nccl_group group = {.comm = comm, .stream = stream};
    ls_status status = LS_OK;

    if (equal > 0) {
        char *mine = total + (size_t)(comm->head.rank * equal) * size;

        return lsi_nccl_finish(comm, ncclReduceScatter(data, mine, (size_t)equal, type, ncclSum, comm->nccl, stream),
                               "ncclReduceScatter");
    }
    for (int owner = 0; owner < comm->head.world && status == LS_OK; owner++) {
        lsi_shares_chunk(n, comm->head.world, owner, &start, &count);
        if (count > 0) {
            size_t at = (size_t)start * size;

            status = lsi_nccl_reduce_to(&group, data + at, total + at, (size_t)count, type, owner);
        }
    }
    return lsi_nccl_group_end(&group, status);
}

static ls_status sum(lsi_nccl_comm *comm, const void *data, void *total, const lsi_nccl_reduce *reduce,
                     ncclDataType_t type, size_t size, cudaStream_t stream)
{
    if (!reduce->gather) {
        return sum_chunks(comm, data, total, reduce->n, type, size, stream);
    }
    return lsi_nccl_finish(comm, ncclAllReduce(data, total, (size_t)reduce->n, type, ncclSum, comm->nccl, stream),
                           "ncclAllReduce");
}

ls_status lsi_nccl_fast_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream)
{
    const lsi_nccl_reduce *reduce = &collective->u.reduce;
    int64_t start = 0, count = reduce->n;
    float divisor = 1;
    char *wire = comm->staging.data;

    if (comm->wire == LS_F32) {
        return sum(comm, reduce->partial[0], reduce->out, reduce, ncclFloat32, sizeof(float), stream);
    }
    while (divisor < (float)comm->head.world) {
        divisor *= 2;
    }
    LS_TRY(lsi_nccl_launched(
        comm, lsi_comm_pack_launch(stream, reduce->partial[0], reduce->n, 1 / divisor, comm->wire, wire)));
    LS_TRY(sum(comm, wire, wire, reduce, comm->wire == LS_F16 ? ncclFloat16 : ncclBfloat16, WIRE_BYTES, stream));
    if (!reduce->gather) {
        lsi_shares_chunk(reduce->n, comm->head.world, comm->head.rank, &start, &count);
    }
    if (count == 0) {
        return LS_OK;
    }
    return lsi_nccl_launched(comm, lsi_comm_unpack_launch(stream, wire + (size_t)start * WIRE_BYTES, count, divisor,
                                                          comm->wire, reduce->out + start));
}
