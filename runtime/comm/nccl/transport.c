#include "comm/nccl/nccl.h"

#include <string.h>

#include "backend/cuda/recording.h"
#include "backend/registry.h"
#include "base/memory.h"
#include "comm/nccl_choice.h"
#include "kernels/cuda/comm.h"

enum { PIECE_BYTES = 64 << 20 };

bool lsi_nccl_is_built(void)
{
    return true;
}

/* ---- memory, preparing ------------------------------------------------------------------------------------------ */

static ls_status nccl_alloc(ls_comm *comm, size_t bytes, void **out)
{
    return comm->device->backend->alloc(comm->device, LS_MEM_DEVICE, bytes, out);
}

static void nccl_release(ls_comm *comm, size_t bytes, void *pointer)
{
    comm->device->backend->release(comm->device, LS_MEM_DEVICE, bytes, pointer);
}

static ls_status prepare(ls_comm *head, const lsi_nccl_collective *description, ls_collective **out)
{
    lsi_nccl_comm *comm = (lsi_nccl_comm *)head;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_nccl_collective), "a collective", &memory));
    lsi_nccl_collective *collective = memory;
    *collective = *description;
    collective->head.comm = head;
    collective->next = comm->prepared;
    comm->prepared = collective;
    *out = &collective->head;
    return LS_OK;
}

/* Nothing is launched while collectives are prepared, so that nothing uses the old staging. */
static ls_status grow_staging(lsi_nccl_comm *comm, size_t bytes)
{
    return lsi_buffer_grow(comm->head.device, comm->account, LS_MEM_DEVICE, LSI_MEMORY_COMM, bytes, &comm->staging);
}

static ls_status nccl_prepare_reduce(ls_comm *head, const ls_partial *partials, int n_partials, int64_t n, float *out,
                                     bool gather, ls_collective **out_collective)
{
    lsi_nccl_comm *comm = (lsi_nccl_comm *)head;
    lsi_nccl_collective collective = {
        .name = comm->fast ? "fast reduction" : "reduction",
        .bytes = (size_t)n * sizeof(float),
        .queue = comm->fast ? lsi_nccl_fast_queue : lsi_nccl_reduce_queue,
        .u.reduce = {.n = n, .out = out, .gather = gather},
    };
    lsi_nccl_reduce *reduce = &collective.u.reduce;

    LS_TRY(lsi_partials_check(head, comm->share[head->rank], comm->fast, partials, n_partials));
    for (int i = 0; i < n_partials; i++) {
        reduce->partial[i] = partials[i].data;
    }
    size_t staging = comm->fast ? lsi_nccl_fast_staging(comm->wire, n)
                                : sizeof(float) * (size_t)lsi_nccl_reduce_cut(&comm->reduction, head->rank, n,
                                                                              comm->piece_bytes, reduce);
    LS_TRY(grow_staging(comm, staging));
    return prepare(head, &collective, out_collective);
}

static ls_status nccl_prepare_gather(ls_comm *head, void *data, int64_t n, size_t element_bytes, ls_collective **out)
{
    lsi_nccl_collective collective = {
        .name = "gather",
        .bytes = (size_t)n * element_bytes,
        .queue = lsi_nccl_gather_queue,
        .u.gather = {data, n, element_bytes},
    };

    return prepare(head, &collective, out);
}

static ls_status nccl_prepare_exchange(ls_comm *head, const void *mine, void *all, size_t bytes, ls_collective **out)
{
    lsi_nccl_collective collective = {
        .name = "exchange",
        .bytes = bytes,
        .queue = lsi_nccl_exchange_queue,
        .u.exchange = {mine, all},
    };

    return prepare(head, &collective, out);
}

static ls_status nccl_prepare_broadcast(ls_comm *head, void *data, size_t bytes, int root, ls_collective **out)
{
    lsi_nccl_collective collective = {
        .name = "broadcast",
        .bytes = bytes,
        .queue = lsi_nccl_broadcast_queue,
        .u.broadcast = {data, root},
    };

    return prepare(head, &collective, out);
}

/* ---- launching ------------------------------------------------------------------------------------------------- */

static ls_status nccl_launch(ls_collective *head, ls_stream *stream)
{
    const lsi_nccl_collective *collective = (const lsi_nccl_collective *)head;
    lsi_nccl_comm *comm = (lsi_nccl_comm *)head->comm;
    lsi_cuda_device *device = (lsi_cuda_device *)stream->device;
    ls_status status = LS_OK;
    bool skip;

    LS_TRY(lsi_cuda_stream_begin(stream, &skip));
    pthread_mutex_lock(&comm->use);
    if (!skip && comm->nccl != NULL && !atomic_load(&comm->aborted)) {
        atomic_store(&comm->current, collective);
        if (device->capture != NULL) {
            atomic_store(&comm->origin, &device->capture->origin->head);
        } else {
            atomic_store(&comm->stream, stream);
        }
        status = collective->queue(comm, collective, lsi_cuda_stream(stream));
    }
    pthread_mutex_unlock(&comm->use);
    if (status == LS_OK || device->capture != NULL) {
        return status == LS_OK ? LS_OK : lsi_cuda_recording_spoil(device, status);
    }
    /* At once, because the other ranks wait for what was not queued. */
    lsi_cuda_device_fail_queue(device, status);
    return lsi_cuda_device_check(device);
}

static void nccl_chunk(const ls_comm *comm, int64_t n, int rank, int64_t *start, int64_t *count)
{
    lsi_shares_chunk(n, comm->world, rank, start, count);
}

static void nccl_abort(ls_comm *comm)
{
    lsi_nccl_give_up((lsi_nccl_comm *)comm);
}

/* ---- opening, closing ------------------------------------------------------------------------------------------ */

static void nccl_close(ls_comm *head)
{
    lsi_nccl_comm *comm = (lsi_nccl_comm *)head;

    (void)lsi_cuda_device_enter(comm->device);
    lsi_nccl_guard_stop(comm);
    lsi_nccl_leave(comm);
    while (comm->prepared != NULL) {
        lsi_nccl_collective *first = comm->prepared;

        comm->prepared = first->next;
        lsi_memory_free(first);
    }
    lsi_buffer_release(head->device, comm->account, &comm->staging);
    lsi_route_destroy(&comm->route);
    lsi_memory_free(comm->share);
    pthread_mutex_destroy(&comm->use);
    lsi_memory_free(comm);
}

static const ls_transport nccl_transport = {
    .struct_size = sizeof(ls_transport),
    .name = "nccl",
    .close = nccl_close,
    .alloc = nccl_alloc,
    .release = nccl_release,
    .prepare_reduce = nccl_prepare_reduce,
    .prepare_gather = nccl_prepare_gather,
    .prepare_exchange = nccl_prepare_exchange,
    .prepare_broadcast = nccl_prepare_broadcast,
    .launch = nccl_launch,
    .chunk = nccl_chunk,
    .abort = nccl_abort,
};

/* A single process has nothing to add: its sum is the ordered one, whatever the wire. */
static bool is_fast(const lsi_comm_options *options)
{
    return options->fast && options->job->world > 1;
}

static size_t piece_bytes(const lsi_comm_options *options)
{
    return options->piece_bytes != 0 ? options->piece_bytes : PIECE_BYTES;
}

static ls_status set_up(lsi_nccl_comm *comm, const lsi_comm_options *options)
{
    size_t share_bytes = (size_t)options->job->world * sizeof *comm->share;
    void *memory;

    LS_TRY(lsi_memory_alloc(share_bytes, "the shares", &memory));
    comm->share = memcpy(memory, options->share, share_bytes);
    lsi_reduction_make(options->n_lanes, options->job->world, options->job->node, comm->share, &comm->reduction);
    LS_TRY(lsi_route_create(&comm->reduction, options->job->rank, &comm->route));
    int operands = lsi_nccl_reduce_operands(&comm->route);
    LS_REQUIRE(comm->fast || operands <= LSI_COMM_SUM_OPERANDS, LS_ERR_CONFIG,
               "comm.transport = nccl adds up to %d partial sums in one place, and rank %d would have %d: use fewer "
               "processes, train.lanes that they divide, or comm.transport = mpi",
               LSI_COMM_SUM_OPERANDS, options->job->rank, operands);
    return LS_OK;
}

/* A failure leaves what there is to nccl_close. */
static ls_status make(const lsi_comm_options *options, lsi_nccl_comm **out)
{
    const lsi_job *job = options->job;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_nccl_comm), "the transport", &memory));
    lsi_nccl_comm *comm = memory;
    comm->head = (ls_comm){
        .transport = &nccl_transport,
        .device = options->device,
        .rank = job->rank,
        .world = job->world,
        .n_lanes = options->n_lanes,
    };
    comm->device = (const lsi_cuda_device *)options->device;
    comm->account = options->account;
    comm->timeout_seconds = options->timeout_seconds;
    comm->watchdog = options->watchdog;
    comm->on_failure = options->on_failure;
    comm->failure_argument = options->failure_argument;
    comm->piece_bytes = piece_bytes(options);
    comm->fast = is_fast(options);
    comm->wire = options->wire;
    pthread_mutex_init(&comm->use, NULL);
    *out = comm;
    return set_up(comm, options);
}

ls_status lsi_nccl_open(const lsi_comm_options *options, ls_comm **out)
{
    lsi_nccl_comm *comm = NULL;

    LS_REQUIRE(options->device->backend == &lsi_cuda_backend, LS_ERR_CONFIG,
               "comm.transport = nccl moves memory of GPUs; this run is on the %s backend: use auto or mpi",
               options->device->backend->name);
    ls_status status = lsi_nccl_meet(options->job, options->device, make(options, &comm));
    if (status == LS_OK) {
        status = lsi_nccl_join(comm, options->job);
    }
    if (status != LS_OK) {
        lsi_failure failure;

        lsi_failure_take(&failure); /* what NCCL says when it is given up is not why */
        if (comm != NULL) {
            atomic_store(&comm->aborted, true);
            nccl_close(&comm->head);
        }
        return lsi_failure_adopt(&failure);
    }
    *out = &comm->head;
    return LS_OK;
}

int64_t lsi_nccl_staging_bytes(const lsi_comm_options *options, int64_t largest_n)
{
    const lsi_job *job = options->job;
    lsi_reduction reduction;
    lsi_nccl_reduce cut;

    if (is_fast(options)) {
        return (int64_t)lsi_nccl_fast_staging(options->wire, largest_n);
    }
    lsi_reduction_make(options->n_lanes, job->world, job->node, options->share, &reduction);
    return (int64_t)sizeof(float) * lsi_nccl_reduce_cut(&reduction, job->rank, largest_n, piece_bytes(options), &cut);
}
