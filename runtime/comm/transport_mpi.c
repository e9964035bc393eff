#include "comm/transport_mpi.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/tsan.h"

enum { PIECE_BYTES = 4 << 20, REQUEST_BYTES = 64 };

static const uint32_t no_request = 0, quit_request = UINT32_MAX;     /* others: id + 1 of a collective */

/* ---- the thread ---------------------------------------------------------------------------------------------- */

static ls_status run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    if (!collective->meets) {
        return collective->run(comm, collective);
    }
    LS_TRY(lsi_meeting_begin(&comm->meeting, &collective->task));
    LS_TRY(collective->run(comm, collective));
    return lsi_meeting_end(&comm->meeting);
}

static void serve_one(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    if (atomic_load_explicit(&comm->aborted, memory_order_relaxed)) {
        return;
    }
    collective->declare(comm, collective);
    lsi_tsan_hide();    /* the order that MPI's locks and messages happen to give is nothing a stream may rely on */
    comm->current = collective;
    ls_status status = run(comm, collective);
    lsi_tsan_show();
    if (status != LS_OK) {
        comm->in_flight = true;
        if (!atomic_exchange(&comm->aborted, true)) {
            comm->on_failure(comm->failure_argument, status);
        }
    }
}

static void *serve(void *argument)
{
    lsi_mpi_comm *comm = argument;
    ls_device *device = comm->head.device;
    ls_flag *flag = comm->request.data;
    uint32_t request;

    while (device->backend->host_flag_wait_change(device, flag, no_request, 0, &request) == LS_OK &&
           request != quit_request) {
        serve_one(comm, comm->prepared[request - 1]);
        device->backend->host_flag_set(device, flag, no_request);
        if (atomic_load(&comm->closing)) {      /* the line before may have wiped out the request to quit */
            break;
        }
    }
    return NULL;
}

/* ---- the transport ------------------------------------------------------------------------------------------- */

static void mpi_close(ls_comm *head)
{
    lsi_mpi_comm *comm = (lsi_mpi_comm *)head;
    ls_device *device = comm->head.device;

    if (comm->has_thread) {
        atomic_store(&comm->closing, true);
        device->backend->host_flag_set(device, comm->request.data, quit_request);
        pthread_join(comm->thread, NULL);
    }
    for (uint32_t i = 0; i < comm->n_prepared; i++) {
        lsi_memory_free(comm->prepared[i]);
    }
    lsi_memory_free(comm->prepared);
    lsi_buffer_release(device, comm->account, &comm->request);
    /* Messages of an unfinished collective may still arrive: the process is about to leave, what they need stays. */
    if (!comm->in_flight) {
        lsi_buffer_release(device, comm->account, &comm->staging);
        lsi_buffer_release(device, comm->account, &comm->mirror);
        lsi_memory_free(comm->message_memory);
        lsi_fast_close(comm);
        MPI_Comm_free(&comm->communicator);
        if (comm->arena != NULL) {
            lsi_memory_account_remove(comm->account, LSI_MEMORY_COMM, lsi_meeting_head_bytes());
        }
        lsi_arena_close(&comm->arena);
    }
    lsi_route_destroy(&comm->route);
    lsi_memory_free(comm->operand);
    lsi_memory_free(comm->share);
    lsi_memory_free(comm);
}

static ls_memory memory_kind(const ls_comm *comm)
{
    return ((const lsi_mpi_comm *)comm)->staged ? LS_MEM_DEVICE : LS_MEM_PINNED;
}

static ls_status mpi_alloc(ls_comm *comm, size_t bytes, void **out)
{
    lsi_arena *arena = ((lsi_mpi_comm *)comm)->arena;

    if (arena != NULL) {
        return lsi_arena_alloc(arena, bytes, out);
    }
    return comm->device->backend->alloc(comm->device, memory_kind(comm), bytes, out);
}

static void mpi_release(ls_comm *comm, size_t bytes, void *pointer)
{
    lsi_arena *arena = ((lsi_mpi_comm *)comm)->arena;

    if (arena != NULL) {
        lsi_arena_release(arena, pointer);
        return;
    }
    comm->device->backend->release(comm->device, memory_kind(comm), bytes, pointer);
}

/* Copies the description; its place in the order of preparation is its id on all ranks. */
static ls_status prepare(lsi_mpi_comm *comm, const lsi_mpi_collective *description, ls_collective **out)
{
    void *memory, *prepared = comm->prepared;

    LS_TRY(lsi_memory_resize(&prepared, (comm->n_prepared + 1) * sizeof(lsi_mpi_collective *), "collectives"));
    comm->prepared = prepared;
    LS_TRY(lsi_memory_alloc(sizeof(lsi_mpi_collective), "a collective", &memory));
    lsi_mpi_collective *collective = memory;
    *collective = *description;
    collective->head.comm = &comm->head;
    collective->id = collective->task.id = comm->n_prepared;
    comm->prepared[comm->n_prepared++] = collective;
    *out = &collective->head;
    return LS_OK;
}

/* Nothing is launched while collectives are prepared, so the thread does not use the old staging. */
static ls_status grow_staging(lsi_mpi_comm *comm, size_t bytes)
{
    return lsi_buffer_grow(comm->head.device, comm->account, LS_MEM_PINNED, LSI_MEMORY_COMM, bytes, &comm->staging);
}

/* Where the other ranks of the node find what they read and write. */
static ls_status tell_node(const lsi_mpi_comm *comm, const ls_partial *partials, int n_partials, const void *target,
                           lsi_mpi_collective *collective)
{
    collective->task = lsi_meeting_task_make(collective->name, collective->bytes);
    for (int i = 0; i < n_partials; i++) {
        LS_TRY(lsi_meeting_task_add_source(comm->arena, partials[i].data, collective->bytes, &collective->task));
    }
    return lsi_meeting_task_set_target(comm->arena, target, collective->bytes, &collective->task);
}

static ls_status mpi_prepare_reduce(ls_comm *head, const ls_partial *partials, int n_partials, int64_t n, float *out,
                                    bool gather, ls_collective **out_collective)
{
    lsi_mpi_comm *comm = (lsi_mpi_comm *)head;
    lsi_mpi_collective collective = {
        .name = comm->fast ? "fast reduction" : "reduction",
        .bytes = (size_t)n * sizeof(float),
        .meets = comm->arena != NULL && !comm->fast,
        .run = comm->fast ? lsi_fast_run : lsi_reduce_run,
        .declare = lsi_reduce_declare,
        .u.reduce = {.n_partials = n_partials, .gather = gather, .out = lsi_chunks_make(comm, out, n, sizeof *out)},
    };
    lsi_mpi_staging *staging = &collective.u.reduce.staging;

    LS_TRY(lsi_partials_check(head, comm->share[head->rank], comm->fast, partials, n_partials));
    for (int i = 0; i < n_partials; i++) {
        collective.u.reduce.partial[i] = partials[i].data;
    }
    if (comm->fast) {
        lsi_fast_staging(head->world, comm->wire, n, comm->piece_bytes, staging);
    } else {
        lsi_reduce_staging(&comm->reduction, head->rank, n, comm->piece_bytes, comm->arena != NULL, staging);
    }
    LS_TRY(grow_staging(comm, staging->bytes));
    if (collective.meets) {
        LS_TRY(tell_node(comm, partials, n_partials, out, &collective));
    }
    if (comm->staged) {
        LS_TRY(lsi_stage_reduce(comm, partials, n_partials, n, out, gather, &collective.stage));
    }
    return prepare(comm, &collective, out_collective);
}

static ls_status mpi_prepare_gather(ls_comm *head, void *data, int64_t n, size_t element_bytes, ls_collective **out)
{
    lsi_mpi_comm *comm = (lsi_mpi_comm *)head;
    lsi_mpi_collective collective = {
        .name = "gather",
        .bytes = (size_t)n * element_bytes,
        .meets = comm->arena != NULL,
        .run = lsi_gather_run,
        .declare = lsi_gather_declare,
        .u.gather = lsi_chunks_make(comm, data, n, element_bytes),
    };

    if (collective.meets) {
        LS_TRY(tell_node(comm, NULL, 0, data, &collective));
    }
    if (comm->staged) {
        LS_TRY(lsi_stage_gather(comm, data, n, element_bytes, &collective.stage));
    }
    return prepare(comm, &collective, out);
}

static ls_status mpi_prepare_exchange(ls_comm *head, const void *mine, void *all, size_t bytes, ls_collective **out)
{
    lsi_mpi_comm *comm = (lsi_mpi_comm *)head;
    lsi_mpi_collective collective = {
        .name = "exchange",
        .bytes = bytes,
        .run = lsi_exchange_run,
        .declare = lsi_exchange_declare,
        .u.exchange = {.mine = mine, .all = all},
    };

    LS_REQUIRE(bytes <= INT32_MAX, LS_ERR_INTERNAL, "an exchange of %zu bytes per rank; a message holds 2^31 - 1",
               bytes);
    if (comm->staged) {
        LS_TRY(lsi_stage_exchange(comm, mine, all, bytes, &collective.stage));
    }
    return prepare(comm, &collective, out);
}

static ls_status mpi_prepare_broadcast(ls_comm *head, void *data, size_t bytes, int root, ls_collective **out)
{
    lsi_mpi_comm *comm = (lsi_mpi_comm *)head;
    lsi_mpi_collective collective = {
        .name = "broadcast",
        .bytes = bytes,
        .run = lsi_broadcast_run,
        .declare = lsi_broadcast_declare,
        .u.broadcast = {.data = data, .root = root},
    };

    if (comm->staged) {
        LS_TRY(lsi_stage_broadcast(comm, data, bytes, root, &collective.stage));
    }
    return prepare(comm, &collective, out);
}

/* Flags are set and awaited also after an abort, as captured launches do; without data nothing is copied back. */
static ls_status mpi_launch(ls_collective *head, ls_stream *stream)
{
    lsi_mpi_collective *collective = (lsi_mpi_collective *)head;
    lsi_mpi_comm *comm = (lsi_mpi_comm *)head->comm;
    const ls_backend *backend = stream->device->backend;
    ls_flag *flag = comm->request.data;
    bool copies = comm->staged && !atomic_load(&comm->aborted);

    if (copies) {
        LS_TRY(lsi_stage_in(comm, collective, stream));
    }
    LS_TRY(backend->flag_set(stream, flag, collective->id + 1));
    LS_TRY(backend->flag_wait(stream, flag, no_request));
    return copies ? lsi_stage_out(comm, collective, stream) : LS_OK;
}

static void mpi_chunk(const ls_comm *comm, int64_t n, int rank, int64_t *start, int64_t *count)
{
    lsi_shares_chunk(n, comm->world, rank, start, count);
}

static void mpi_abort(ls_comm *comm)
{
    atomic_store(&((lsi_mpi_comm *)comm)->aborted, true);
}

static const char not_recorded[] = "comm.transport = mpi exchanges through a thread of the host";

#define TRANSPORT(word)                             \
    {                                               \
        .struct_size = sizeof(ls_transport),        \
        .name = (word),                             \
        .not_recorded = not_recorded,               \
        .close = mpi_close,                         \
        .alloc = mpi_alloc,                         \
        .release = mpi_release,                     \
        .prepare_reduce = mpi_prepare_reduce,       \
        .prepare_gather = mpi_prepare_gather,       \
        .prepare_exchange = mpi_prepare_exchange,   \
        .prepare_broadcast = mpi_prepare_broadcast, \
        .launch = mpi_launch,                       \
        .chunk = mpi_chunk,                         \
        .abort = mpi_abort,                         \
    }

static const ls_transport mpi_transport = TRANSPORT("mpi"), mpi_between_nodes = TRANSPORT("shm");

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* Every set of messages that can be under way at once, as long as the route makes it. */
static ls_status make_messages(lsi_mpi_comm *comm)
{
    const lsi_route *route = &comm->route;
    int neighbours = 2 * (comm->head.world - 1);
    struct {
        lsi_messages *messages;
        int n;
    } sets[4 * LSI_REDUCTION_MAX_STAGES + 6];
    size_t n_sets = 0, n_all = 0;

    for (int parity = 0; parity < 2; parity++) {
        for (int s = 0; s < LSI_REDUCTION_MAX_STAGES; s++) {
            const lsi_route_stage *stage = &route->stage[s];
            const lsi_route_hop *hop = &route->hop[s];

            sets[n_sets].messages = &comm->stage[s][parity];
            sets[n_sets++].n = stage->n_receive + stage->n_send;
            sets[n_sets].messages = &comm->hop[s][parity];
            sets[n_sets++].n = hop->n_receive + hop->n_send;
        }
        sets[n_sets].messages = &comm->sum[parity];
        sets[n_sets++].n = comm->fast ? comm->head.world : 0;
        sets[n_sets].messages = &comm->arriving[parity];
        sets[n_sets++].n = 1;
    }
    sets[n_sets].messages = &comm->exchange;
    sets[n_sets++].n = neighbours;
    sets[n_sets].messages = &comm->forwarding;
    sets[n_sets++].n = LSI_MPI_MAX_CHILDREN;
    for (size_t i = 0; i < n_sets; i++) {
        n_all += (size_t)sets[i].n;
    }
    LS_TRY(lsi_memory_alloc(n_all * (sizeof(MPI_Request) + sizeof(int)), "messages", &comm->message_memory));
    MPI_Request *request = comm->message_memory;
    int *peer = (int *)(void *)(request + n_all);
    for (size_t i = 0; i < n_sets; i++) {
        *sets[i].messages = (lsi_messages){.request = request, .peer = peer};
        request += sets[i].n;
        peer += sets[i].n;
    }
    return LS_OK;
}

static ls_status set_up(lsi_mpi_comm *comm, const lsi_comm_options *options)
{
    ls_device *device = options->device;
    size_t share_bytes = (size_t)options->job->world * sizeof *comm->share;
    int n_operands = 1;
    void *memory;

    LS_TRY(lsi_messages_check(MPI_Comm_set_errhandler(comm->communicator, MPI_ERRORS_RETURN),
                              "MPI_Comm_set_errhandler"));
    LS_TRY(lsi_memory_alloc(share_bytes, "the shares", &memory));
    comm->share = memcpy(memory, options->share, share_bytes);
    lsi_reduction_make(options->n_lanes, options->job->world, options->job->node, comm->share, &comm->reduction);
    LS_TRY(lsi_route_create(&comm->reduction, options->job->rank, &comm->route));
    for (int s = 0; s < comm->route.n_stages; s++) {
        n_operands = comm->route.stage[s].n_operands > n_operands ? comm->route.stage[s].n_operands : n_operands;
    }
    LS_TRY(lsi_memory_alloc((size_t)n_operands * sizeof *comm->operand, "operands", &memory));
    comm->operand = memory;
    LS_TRY(make_messages(comm));
    if (comm->fast) {
        LS_TRY(lsi_fast_open(comm));
    }
    LS_TRY(lsi_buffer_alloc(device, comm->account, LS_MEM_PINNED, LSI_MEMORY_COMM, REQUEST_BYTES, &comm->request));
    device->backend->host_flag_set(device, comm->request.data, no_request);
    LS_TRY(lsi_thread_start(&comm->thread, "ls-mpi", serve, comm));
    comm->has_thread = true;
    return LS_OK;
}

/* A single process has nothing to add: its sum is the ordered one, whatever the wire. */
static bool is_fast(const lsi_comm_options *options)
{
    return options->fast && options->job->world > 1;
}

/* Takes the arena (NULL: none), also when it fails. */
static ls_status open_mpi(const lsi_comm_options *options, lsi_arena *arena, ls_comm **out)
{
    const lsi_job *job = options->job;
    MPI_Comm communicator;
    void *memory;

    /* First, so that a rank that fails below has not left the others waiting in it. */
    ls_status status =
        lsi_messages_check(MPI_Comm_dup(*(MPI_Comm *)job->communicator, &communicator), "MPI_Comm_dup");
    if (status == LS_OK) {
        status = lsi_memory_alloc(sizeof(lsi_mpi_comm), "the transport", &memory);
        if (status != LS_OK) {
            MPI_Comm_free(&communicator);
        }
    }
    if (status != LS_OK) {
        lsi_arena_close(&arena);
        return status;
    }
    lsi_mpi_comm *comm = memory;
    size_t piece_bytes = options->piece_bytes != 0 ? options->piece_bytes : PIECE_BYTES;
    comm->head = (ls_comm){
        .transport = arena != NULL ? &mpi_between_nodes : &mpi_transport,
        .device = options->device,
        .rank = job->rank,
        .world = job->world,
        .n_lanes = options->n_lanes,
    };
    comm->account = options->account;
    comm->timeout_seconds = options->timeout_seconds;
    comm->watchdog = options->watchdog;
    comm->on_failure = options->on_failure;
    comm->failure_argument = options->failure_argument;
    comm->piece_bytes = piece_bytes;
    comm->fast = is_fast(options);
    comm->wire = options->wire;
    comm->staged = !options->device->backend->host_memory;
    comm->add = MPI_OP_NULL;
    comm->communicator = communicator;
    comm->arena = arena;
    if (arena != NULL) {
        lsi_memory_account_add(comm->account, LSI_MEMORY_COMM, lsi_meeting_head_bytes());
        lsi_meeting_open(arena, comm->timeout_seconds, comm->watchdog, &comm->aborted, &comm->meeting);
    }
    status = set_up(comm, options);
    if (status != LS_OK) {
        mpi_close(&comm->head);
        return status;
    }
    *out = &comm->head;
    return LS_OK;
}

ls_status lsi_mpi_open(const lsi_comm_options *options, ls_comm **out)
{
    LS_REQUIRE(options->job->communicator != NULL, LS_ERR_CONFIG,
               "comm.transport = mpi needs a job started with MPI");
    return open_mpi(options, NULL, out);
}

ls_status lsi_mpi_between_nodes_open(const lsi_comm_options *options, ls_comm **out)
{
    lsi_arena *arena;

    LS_TRY(lsi_arena_open(options->job, options->device, lsi_meeting_head_bytes(), options->timeout_seconds, &arena));
    return open_mpi(options, arena, out);
}

int64_t lsi_mpi_staging_bytes(const lsi_comm_options *options, int64_t largest_n, size_t exchange_bytes)
{
    bool is_shared = strcmp(options->transport, mpi_between_nodes.name) == 0;
    const lsi_job *job = options->job;
    size_t piece_bytes = options->piece_bytes != 0 ? options->piece_bytes : PIECE_BYTES, mirror = 0;
    lsi_span share = options->share[job->rank];
    lsi_reduction reduction;
    lsi_mpi_staging staging;

    if (is_fast(options)) {
        lsi_fast_staging(job->world, options->wire, largest_n, piece_bytes, &staging);
    } else {
        lsi_reduction_make(options->n_lanes, job->world, job->node, options->share, &reduction);
        lsi_reduce_staging(&reduction, job->rank, largest_n, piece_bytes, is_shared, &staging);
    }
    if (!options->device->backend->host_memory) {
        int n_partials = is_fast(options) ? 1 : lsi_tree_roots(options->n_lanes, share.lo, share.hi, NULL);

        mirror = lsi_stage_bytes(job->world, n_partials, largest_n, exchange_bytes);
    }
    return REQUEST_BYTES + (int64_t)(staging.bytes + mirror + (is_shared ? lsi_meeting_head_bytes() : 0));
}
