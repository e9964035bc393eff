#include "comm/nccl/nccl.h"

int64_t lsi_nccl_equal_chunk(const lsi_nccl_comm *comm, int64_t n)
{
    int64_t start, first, last;

    lsi_shares_chunk(n, comm->head.world, 0, &start, &first);
    lsi_shares_chunk(n, comm->head.world, comm->head.world - 1, &start, &last);
    return first == last ? first : 0;
}

/* ---- gather ---------------------------------------------------------------------------------------------------- */

static ls_status give_hop(lsi_nccl_comm *comm, const lsi_nccl_gather *gather, int h, lsi_nccl_group *group)
{
    const lsi_route_hop *hop = &comm->route.hop[h];
    size_t size = gather->element_bytes;
    int64_t start, count;

    for (int i = 0; i < hop->n_receive; i++) {
        lsi_shares_chunk(gather->n, comm->head.world, hop->receive[i].owner, &start, &count);
        if (count > 0) {
            LS_TRY(lsi_nccl_receive(group, gather->data + (size_t)start * size, (size_t)count * size,
                                    hop->receive[i].peer));
        }
    }
    for (int i = 0; i < hop->n_send; i++) {
        lsi_shares_chunk(gather->n, comm->head.world, hop->send[i].owner, &start, &count);
        if (count > 0) {
            LS_TRY(lsi_nccl_send(group, gather->data + (size_t)start * size, (size_t)count * size, hop->send[i].peer));
        }
    }
    return LS_OK;
}

ls_status lsi_nccl_gather_chunks(lsi_nccl_comm *comm, const lsi_nccl_gather *gather, cudaStream_t stream)
{
    size_t chunk = (size_t)lsi_nccl_equal_chunk(comm, gather->n) * gather->element_bytes;

    if (chunk > 0) {
        const char *mine = gather->data + (size_t)comm->head.rank * chunk;

        return lsi_nccl_finish(comm, ncclAllGather(mine, gather->data, chunk, ncclInt8, comm->nccl, stream),
                               "ncclAllGather");
    }
    for (int h = 0; h < comm->route.n_stages; h++) {
        lsi_nccl_group group = {.comm = comm, .stream = stream};

        LS_TRY(lsi_nccl_group_end(&group, give_hop(comm, gather, h, &group)));
    }
    return LS_OK;
}

ls_status lsi_nccl_gather_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream)
{
    return lsi_nccl_gather_chunks(comm, &collective->u.gather, stream);
}

/* ---- exchange, broadcast --------------------------------------------------------------------------------------- */

ls_status lsi_nccl_exchange_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream)
{
    const lsi_nccl_exchange *exchange = &collective->u.exchange;

    return lsi_nccl_finish(
        comm, ncclAllGather(exchange->mine, exchange->all, collective->bytes, ncclInt8, comm->nccl, stream),
        "ncclAllGather");
}

ls_status lsi_nccl_broadcast_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream)
{
    const lsi_nccl_broadcast *broadcast = &collective->u.broadcast;

    if (collective->bytes == 0) {
        return LS_OK;
    }
    return lsi_nccl_finish(comm,
                           ncclBroadcast(broadcast->data, broadcast->data, collective->bytes, ncclInt8, broadcast->root,
                                         comm->nccl, stream),
                           "ncclBroadcast");
}
