/* The transport of a single process: every collective is a copy on the stream, or nothing. */
#include "comm/transports.h"

#include "base/memory.h"

typedef struct self_collective {
    ls_collective head;
    struct self_collective *next;
    void *destination;
    const void *source;
    size_t bytes;           /* 0: nothing to do */
} self_collective;

typedef struct self_comm {
    ls_comm head;
    self_collective *prepared;
} self_comm;

static void self_close(ls_comm *comm)
{
    self_comm *self = (self_comm *)comm;

    while (self->prepared != NULL) {
        self_collective *first = self->prepared;

        self->prepared = first->next;
        lsi_memory_free(first);
    }
    lsi_memory_free(self);
}

static ls_status self_alloc(ls_comm *comm, size_t bytes, void **out)
{
    return comm->device->backend->alloc(comm->device, LS_MEM_DEVICE, bytes, out);
}

static void self_release(ls_comm *comm, size_t bytes, void *pointer)
{
    comm->device->backend->release(comm->device, LS_MEM_DEVICE, bytes, pointer);
}

static ls_status prepare(ls_comm *comm, void *destination, const void *source, size_t bytes, ls_collective **out)
{
    self_comm *self = (self_comm *)comm;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(self_collective), "a collective", &memory));
    self_collective *collective = memory;
    *collective = (self_collective){
        .head = {comm},
        .next = self->prepared,
        .destination = destination,
        .source = source,
        .bytes = destination == source ? 0 : bytes,
    };
    self->prepared = collective;
    *out = &collective->head;
    return LS_OK;
}

static ls_status self_prepare_reduce(ls_comm *comm, const ls_partial *partials, int n_partials, int64_t n, float *out,
                                     bool gather, ls_collective **out_collective)
{
    (void)gather;
    LS_REQUIRE(n_partials == 1 && partials[0].lo == 0 && partials[0].hi == comm->n_lanes, LS_ERR_INTERNAL,
               "a single process must hand over the sum of all %d lanes", comm->n_lanes);
    return prepare(comm, out, partials[0].data, (size_t)n * sizeof(float), out_collective);
}

static ls_status self_prepare_gather(ls_comm *comm, void *data, int64_t n, size_t element_bytes, ls_collective **out)
{
    return prepare(comm, data, data, (size_t)n * element_bytes, out);
}

static ls_status self_prepare_exchange(ls_comm *comm, const void *mine, void *all, size_t bytes, ls_collective **out)
{
    return prepare(comm, all, mine, bytes, out);
}

static ls_status self_prepare_broadcast(ls_comm *comm, void *data, size_t bytes, int root, ls_collective **out)
{
    (void)root;
    return prepare(comm, data, data, bytes, out);
}

static ls_status self_launch(ls_collective *collective, ls_stream *stream)
{
    const self_collective *self = (const self_collective *)collective;

    if (self->bytes == 0) {
        return LS_OK;
    }
    return stream->device->backend->copy(stream, self->destination, self->source, self->bytes);
}

static void self_chunk(const ls_comm *comm, int64_t n, int rank, int64_t *start, int64_t *count)
{
    lsi_shares_chunk(n, comm->world, rank, start, count);
}

static void self_abort(ls_comm *comm)
{
    (void)comm;     /* nothing waits for anybody */
}

static const ls_transport self_transport = {
    .struct_size = sizeof(ls_transport),
    .name = "self",
    .close = self_close,
    .alloc = self_alloc,
    .release = self_release,
    .prepare_reduce = self_prepare_reduce,
    .prepare_gather = self_prepare_gather,
    .prepare_exchange = self_prepare_exchange,
    .prepare_broadcast = self_prepare_broadcast,
    .launch = self_launch,
    .chunk = self_chunk,
    .abort = self_abort,
};

ls_status lsi_self_open(const lsi_comm_options *options, ls_comm **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(self_comm), "the transport", &memory));
    self_comm *self = memory;
    self->head = (ls_comm){
        .transport = &self_transport,
        .device = options->device,
        .rank = 0,
        .world = 1,
        .n_lanes = options->n_lanes,
    };
    *out = &self->head;
    return LS_OK;
}
