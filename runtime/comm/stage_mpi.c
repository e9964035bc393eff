/* The way through the host, for devices whose memory MPI cannot reach: what a collective works on lies in a mirror in
 * pinned memory. A launch copies what this rank contributes there, lets the thread work, and copies back what has
 * arrived. Collectives run one after the other, so that they share the mirror; it grows while they are prepared, and
 * each finds its places when it is launched. */
#include "comm/transport_mpi.h"

enum { LINE_BYTES = 64 };

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* A total may take the place of a partial, as in the sum itself. */
static size_t reduce_bytes(int n_partials, int64_t n)
{
    return whole_lines((size_t)n * sizeof(float)) * (size_t)(n_partials > 0 ? n_partials : 1);
}

static size_t exchange_bytes(int world, size_t bytes)
{
    return whole_lines((size_t)world * bytes) + whole_lines(bytes);
}

size_t lsi_stage_bytes(int world, int n_partials, int64_t n, size_t bytes_exchanged)
{
    size_t reduce = reduce_bytes(n_partials, n), exchange = exchange_bytes(world, bytes_exchanged);

    return reduce > exchange ? reduce : exchange;
}

/* ---- preparing ------------------------------------------------------------------------------------------------- */

static ls_status grow(lsi_mpi_comm *comm, size_t bytes)
{
    if (bytes <= comm->mirror.bytes) {
        return LS_OK;
    }
    lsi_buffer_release(comm->head.device, comm->account, &comm->mirror);
    return lsi_buffer_alloc(comm->head.device, comm->account, LS_MEM_PINNED, LSI_MEMORY_COMM, bytes, &comm->mirror);
}

/* Everything of `data` but [start, start + count). */
static void add_others(lsi_mpi_stage *stage, char *data, size_t start, size_t count, size_t bytes)
{
    stage->out[stage->n_out++] = (lsi_mpi_copy){data, 0, start};
    stage->out[stage->n_out++] = (lsi_mpi_copy){data + start + count, start + count, bytes - start - count};
}

ls_status lsi_stage_reduce(lsi_mpi_comm *comm, const ls_partial *partials, int n_partials, int64_t n, float *out,
                           bool gather, lsi_mpi_stage *stage)
{
    size_t bytes = (size_t)n * sizeof(float);
    int64_t start = 0, count = n;

    for (int i = 0; i < n_partials; i++) {
        stage->in[stage->n_in++] = (lsi_mpi_copy){(char *)partials[i].data, (size_t)i * whole_lines(bytes), bytes};
    }
    if (!gather) {
        lsi_shares_chunk(n, comm->head.world, comm->head.rank, &start, &count);
    }
    stage->out[stage->n_out++] =
        (lsi_mpi_copy){(char *)(out + start), (size_t)start * sizeof(float), (size_t)count * sizeof(float)};
    return grow(comm, reduce_bytes(n_partials, n));
}

ls_status lsi_stage_gather(lsi_mpi_comm *comm, void *data, int64_t n, size_t element_bytes, lsi_mpi_stage *stage)
{
    int64_t first, length;
    char *bytes = data;

    lsi_shares_chunk(n, comm->head.world, comm->head.rank, &first, &length);
    size_t start = (size_t)first * element_bytes, count = (size_t)length * element_bytes;
    stage->in[stage->n_in++] = (lsi_mpi_copy){bytes + start, start, count};
    add_others(stage, bytes, start, count, (size_t)n * element_bytes);
    return grow(comm, (size_t)n * element_bytes);
}

ls_status lsi_stage_exchange(lsi_mpi_comm *comm, const void *mine, void *all, size_t bytes, lsi_mpi_stage *stage)
{
    size_t whole = (size_t)comm->head.world * bytes, at = (size_t)comm->head.rank * bytes;
    bool in_place = (const char *)mine == (char *)all + at;

    stage->in[stage->n_in++] = (lsi_mpi_copy){(char *)(uintptr_t)mine, in_place ? at : whole_lines(whole), bytes};
    stage->out[stage->n_out++] = (lsi_mpi_copy){all, 0, whole};
    return grow(comm, exchange_bytes(comm->head.world, bytes));
}

ls_status lsi_stage_broadcast(lsi_mpi_comm *comm, void *data, size_t bytes, int root, lsi_mpi_stage *stage)
{
    if (comm->head.rank == root) {
        stage->in[stage->n_in++] = (lsi_mpi_copy){data, 0, bytes};
    } else {
        stage->out[stage->n_out++] = (lsi_mpi_copy){data, 0, bytes};
    }
    return grow(comm, bytes);
}

/* ---- launching ------------------------------------------------------------------------------------------------- */

/* The thread may be at an earlier launch of the collective: what has not changed is not written. */
static void bind(lsi_mpi_comm *comm, lsi_mpi_collective *collective)
{
    lsi_mpi_stage *stage = &collective->stage;
    char *mirror = comm->mirror.data;

    if (stage->mirror == mirror) {
        return;
    }
    stage->mirror = mirror;
    if (collective->run == lsi_gather_run) {
        collective->u.gather.data = mirror;
    } else if (collective->run == lsi_exchange_run) {
        collective->u.exchange.mine = mirror + stage->in[0].at;
        collective->u.exchange.all = mirror;
    } else if (collective->run == lsi_broadcast_run) {
        collective->u.broadcast.data = mirror;
    } else {
        for (int i = 0; i < stage->n_in; i++) {
            collective->u.reduce.partial[i] = (const float *)(const void *)(mirror + stage->in[i].at);
        }
        collective->u.reduce.out.data = mirror;
    }
}

ls_status lsi_stage_in(lsi_mpi_comm *comm, lsi_mpi_collective *collective, ls_stream *stream)
{
    const ls_backend *backend = comm->head.device->backend;
    const lsi_mpi_stage *stage = &collective->stage;

    bind(comm, collective);
    for (int i = 0; i < stage->n_in; i++) {
        LS_TRY(backend->copy(stream, stage->mirror + stage->in[i].at, stage->in[i].device, stage->in[i].bytes));
    }
    return LS_OK;
}

ls_status lsi_stage_out(lsi_mpi_comm *comm, const lsi_mpi_collective *collective, ls_stream *stream)
{
    const ls_backend *backend = comm->head.device->backend;
    const lsi_mpi_stage *stage = &collective->stage;

    for (int i = 0; i < stage->n_out; i++) {
        LS_TRY(backend->copy(stream, stage->out[i].device, stage->mirror + stage->out[i].at, stage->out[i].bytes));
    }
    return LS_OK;
}
