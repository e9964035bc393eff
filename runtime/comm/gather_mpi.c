/* The way from each chunk's owner to everybody: owner -> a speaker of every other node -> the rest of each node. */
#include "comm/transport_mpi.h"

#include <string.h>

#include "base/tsan.h"

lsi_mpi_chunks lsi_chunks_make(const lsi_mpi_comm *comm, void *data, int64_t n, size_t element_bytes)
{
    int64_t piece = (int64_t)(comm->piece_bytes / element_bytes), start, largest;

    lsi_shares_chunk(n, comm->head.world, 0, &start, &largest);     /* the first chunk is the largest */
    return (lsi_mpi_chunks){
        .data = data,
        .element_bytes = element_bytes,
        .n = n,
        .piece = piece,
        .n_rounds = (largest + piece - 1) / piece,
        .is_shared = comm->arena != NULL,
    };
}

int64_t lsi_chunks_part(const lsi_mpi_comm *comm, const lsi_mpi_chunks *chunks, int owner, int64_t round, int64_t *at)
{
    int64_t start, count;

    lsi_shares_chunk(chunks->n, comm->head.world, owner, &start, &count);
    *at = start + round * chunks->piece;
    int64_t left = start + count - *at;
    return left < 0 ? 0 : left < chunks->piece ? left : chunks->piece;
}

void *lsi_chunks_data(const lsi_mpi_chunks *chunks, int owner, int64_t round, int64_t at)
{
    int64_t index = chunks->width == 0 ? at : (round % 2 * chunks->n_slots + owner) * chunks->width;

    return chunks->data + (size_t)index * chunks->element_bytes;
}

/* The last hop in shared memory: what has arrived here goes into the results of the node's other ranks. */
static void write_to_peers(const lsi_mpi_comm *comm, const lsi_mpi_chunks *chunks, const lsi_route_hop *hop,
                           int64_t round)
{
    int64_t at;

    for (int i = 0; i < hop->n_send; i++) {
        const lsi_route_message *m = &hop->send[i];
        size_t bytes = (size_t)lsi_chunks_part(comm, chunks, m->owner, round, &at) * chunks->element_bytes;
        char *theirs = lsi_meeting_target(&comm->meeting, lsi_arena_index(comm->arena, m->peer));

        memcpy(theirs + (size_t)at * chunks->element_bytes, lsi_chunks_data(chunks, m->owner, round, at), bytes);
    }
}

ls_status lsi_hop_post(lsi_mpi_comm *comm, const lsi_mpi_chunks *chunks, int h, int64_t round)
{
    const lsi_route_hop *hop = &comm->route.hop[h];
    lsi_messages *messages = &comm->hop[h][round % 2];
    int64_t at;

    if (chunks->is_shared && h > 0) {       /* the hop inside the nodes */
        write_to_peers(comm, chunks, hop, round);
        return LS_OK;
    }
    for (int i = 0; i < hop->n_receive; i++) {          /* all receives before any send: nothing arrives unexpected */
        const lsi_route_message *m = &hop->receive[i];
        size_t bytes = (size_t)lsi_chunks_part(comm, chunks, m->owner, round, &at) * chunks->element_bytes;

        if (bytes > 0) {
            void *data = lsi_chunks_data(chunks, m->owner, round, at);
            LS_TRY(lsi_messages_receive(comm, messages, data, bytes, m->peer, LSI_TAG_HOP + h));
        }
    }
    for (int i = 0; i < hop->n_send; i++) {
        const lsi_route_message *m = &hop->send[i];
        size_t bytes = (size_t)lsi_chunks_part(comm, chunks, m->owner, round, &at) * chunks->element_bytes;

        if (bytes > 0) {
            const void *data = lsi_chunks_data(chunks, m->owner, round, at);
            LS_TRY(lsi_messages_send(comm, messages, data, bytes, m->peer, LSI_TAG_HOP + h));
        }
    }
    return LS_OK;
}

ls_status lsi_hop_wait(lsi_mpi_comm *comm, int h, int64_t round)
{
    return lsi_messages_wait(comm, &comm->hop[h][round % 2], "gathering the chunks");
}

/* Step i begins hop 0 of round i while hop 1 of round i - 1 is under way. */
ls_status lsi_gather_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_chunks *chunks = &collective->u.gather;
    int n_hops = comm->route.n_stages;

    for (int64_t step = 0; step < chunks->n_rounds + n_hops; step++) {
        for (int h = 0; h <= n_hops; h++) {
            int64_t round = step - h;

            if (round < 0 || round >= chunks->n_rounds) {
                continue;
            }
            if (h > 0) {
                LS_TRY(lsi_hop_wait(comm, h - 1, round));
            }
            if (h < n_hops) {
                LS_TRY(lsi_hop_post(comm, chunks, h, round));
            }
        }
    }
    return LS_OK;
}

void lsi_gather_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_chunks *chunks = &collective->u.gather;
    size_t size = chunks->element_bytes;
    int64_t start, count;

    lsi_shares_chunk(chunks->n, comm->head.world, comm->head.rank, &start, &count);
    int64_t end = start + count;
    lsi_tsan_reads(chunks->data + (size_t)start * size, (size_t)count * size);
    lsi_tsan_writes(chunks->data, (size_t)start * size);
    lsi_tsan_writes(chunks->data + (size_t)end * size, (size_t)(chunks->n - end) * size);
}
