#include "support/null_transport.h"

#include <string.h>

#include "base/memory.h"
#include "comm/shares.h"

typedef struct null_comm {
    ls_comm head;
    null_collective *prepared;
} null_comm;

static const ls_op op_launch = {
    .struct_size = sizeof(ls_op),
    .name = "launch",
    .arguments_bytes = sizeof(const null_collective *),
};

const null_collective *null_transport_launched(const null_entry *entry)
{
    const null_collective *collective = NULL;

    if (entry->kind == NULL_OP && entry->op == &op_launch) {
        memcpy(&collective, entry->arguments, sizeof collective);
    }
    return collective;
}

static void null_transport_close(ls_comm *comm)
{
    null_comm *c = (null_comm *)comm;

    while (c->prepared != NULL) {
        null_collective *first = c->prepared;

        c->prepared = first->next;
        lsi_memory_free(first);
    }
    lsi_memory_free(c);
}

static ls_status null_transport_alloc(ls_comm *comm, size_t bytes, void **out)
{
    return comm->device->backend->alloc(comm->device, LS_MEM_DEVICE, bytes, out);
}

static void null_transport_release(ls_comm *comm, size_t bytes, void *pointer)
{
    comm->device->backend->release(comm->device, LS_MEM_DEVICE, bytes, pointer);
}

/* Copies the description. */
static ls_status prepare(ls_comm *comm, const null_collective *description, ls_collective **out)
{
    null_comm *c = (null_comm *)comm;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(null_collective), "a collective", &memory));
    null_collective *collective = memory;
    *collective = *description;
    collective->head.comm = comm;
    collective->next = c->prepared;
    c->prepared = collective;
    *out = &collective->head;
    return LS_OK;
}

static ls_status prepare_reduce(ls_comm *comm, const ls_partial *partials, int n_partials, int64_t n, float *out,
                                bool gather, ls_collective **out_collective)
{
    (void)partials, (void)n_partials;
    return prepare(comm, &(null_collective){.kind = NULL_REDUCE, .data = out, .n = n, .gather = gather},
                   out_collective);
}

static ls_status prepare_gather(ls_comm *comm, void *data, int64_t n, size_t element_bytes, ls_collective **out)
{
    (void)element_bytes;
    return prepare(comm, &(null_collective){.kind = NULL_GATHER, .data = data, .n = n}, out);
}

static ls_status prepare_exchange(ls_comm *comm, const void *mine, void *all, size_t bytes, ls_collective **out)
{
    (void)all;
    return prepare(comm, &(null_collective){.kind = NULL_EXCHANGE, .data = mine, .n = (int64_t)bytes}, out);
}

static ls_status prepare_broadcast(ls_comm *comm, void *data, size_t bytes, int root, ls_collective **out)
{
    (void)root;
    return prepare(comm, &(null_collective){.kind = NULL_BROADCAST, .data = data, .n = (int64_t)bytes}, out);
}

static ls_status launch(ls_collective *collective, ls_stream *stream)
{
    return stream->device->backend->launch(stream, &op_launch, &collective);
}

static void chunk(const ls_comm *comm, int64_t n, int rank, int64_t *start, int64_t *count)
{
    lsi_shares_chunk(n, comm->world, rank, start, count);
}

static void null_transport_abort(ls_comm *comm)
{
    (void)comm;     /* nothing waits for anybody */
}

static const ls_transport null_transport = {
    .struct_size = sizeof(ls_transport),
    .name = "null",
    .close = null_transport_close,
    .alloc = null_transport_alloc,
    .release = null_transport_release,
    .prepare_reduce = prepare_reduce,
    .prepare_gather = prepare_gather,
    .prepare_exchange = prepare_exchange,
    .prepare_broadcast = prepare_broadcast,
    .launch = launch,
    .chunk = chunk,
    .abort = null_transport_abort,
};

ls_status null_transport_open(ls_device *device, int rank, int world, int n_lanes, ls_comm **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(null_comm), "the transport", &memory));
    null_comm *comm = memory;
    comm->head = (ls_comm){
        .transport = &null_transport,
        .device = device,
        .rank = rank,
        .world = world,
        .n_lanes = n_lanes,
    };
    *out = &comm->head;
    return LS_OK;
}
