#include "comm/transport_shm.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/tsan.h"
#include "comm/evaluate.h"

/* ---- on the stream ------------------------------------------------------------------------------------------- */

typedef struct shm_arguments {
    lsi_shm_collective *collective;
} shm_arguments;

static ls_status meet(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective)
{
    lsi_shm_times *times = &comm->times[collective->kind];
    double called = lsi_clock_seconds();

    LS_TRY(lsi_meeting_begin(&comm->meeting, &collective->task));
    double ready = lsi_clock_seconds();
    uint64_t bytes = collective->run(comm, run, collective);
    double worked = lsi_clock_seconds();
    LS_TRY(lsi_meeting_end(&comm->meeting));
    *times = (lsi_shm_times){
        .n = times->n + 1,
        .bytes = times->bytes + bytes,
        .ready = times->ready + ready - called,
        .work = times->work + worked - ready,
        .done = times->done + lsi_clock_seconds() - worked,
    };
    return LS_OK;
}

static ls_status run_collective(const ls_cpu_run *run, const void *arguments)
{
    const lsi_shm_collective *collective = ((const shm_arguments *)arguments)->collective;
    lsi_shm_comm *comm = (lsi_shm_comm *)collective->head.comm;

    if (atomic_load_explicit(&comm->aborted, memory_order_relaxed)) {
        return LS_OK;
    }
    lsi_tsan_show();            /* the stream hides what an op does; this one has no views that would say it */
    collective->declare(comm, collective);
    lsi_tsan_hide();
    ls_status status = meet(comm, run, collective);
    if (status != LS_OK && !atomic_exchange(&comm->aborted, true)) {
        comm->on_failure(comm->failure_argument, status);
    }
    return LS_OK;
}

static const ls_op collective_op = {
    .struct_size = sizeof(ls_op),
    .name = "collective",
    .arguments_bytes = sizeof(shm_arguments),
    .cpu = run_collective,
};

static ls_status shm_launch(ls_collective *collective, ls_stream *stream)
{
    return ls_op_launch(stream, &collective_op, &(shm_arguments){(lsi_shm_collective *)collective});
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Copies the description; its place in the order of preparation is its id on all ranks. */
static ls_status prepare(lsi_shm_comm *comm, const lsi_shm_collective *description, ls_collective **out)
{
    void *memory, *prepared = comm->prepared;

    LS_TRY(lsi_memory_resize(&prepared, (comm->n_prepared + 1) * sizeof(lsi_shm_collective *), "collectives"));
    comm->prepared = prepared;
    LS_TRY(lsi_memory_alloc(sizeof(lsi_shm_collective), "a collective", &memory));
    lsi_shm_collective *collective = memory;
    *collective = *description;
    collective->head.comm = &comm->head;
    collective->task.id = comm->n_prepared;
    comm->prepared[comm->n_prepared++] = collective;
    *out = &collective->head;
    return LS_OK;
}

static ls_status shm_prepare_reduce(ls_comm *head, const ls_partial *partials, int n_partials, int64_t n, float *out,
                                    bool gather, ls_collective **out_collective)
{
    lsi_shm_comm *comm = (lsi_shm_comm *)head;
    size_t bytes = (size_t)n * sizeof(float);
    lsi_shm_collective collective = {
        .n = n,
        .element_bytes = sizeof(float),
        .gather = gather,
        .target = out,
        .kind = LSI_SHM_REDUCE,
        .run = lsi_shm_reduce_run,
        .declare = lsi_shm_reduce_declare,
        .task = lsi_meeting_task_make(comm->fast ? "fast reduction" : "reduction", bytes),
    };

    LS_TRY(lsi_partials_check(head, comm->share[head->rank], comm->fast, partials, n_partials));
    for (int i = 0; i < n_partials; i++) {
        collective.source[i] = partials[i].data;
        LS_TRY(lsi_meeting_task_add_source(comm->arena, partials[i].data, bytes, &collective.task));
    }
    LS_TRY(lsi_meeting_task_set_target(comm->arena, out, bytes, &collective.task));
    return prepare(comm, &collective, out_collective);
}

static ls_status shm_prepare_gather(ls_comm *head, void *data, int64_t n, size_t element_bytes, ls_collective **out)
{
    lsi_shm_comm *comm = (lsi_shm_comm *)head;
    size_t bytes = (size_t)n * element_bytes;
    lsi_shm_collective collective = {
        .n = n,
        .element_bytes = element_bytes,
        .target = data,
        .kind = LSI_SHM_GATHER,
        .run = lsi_shm_gather_run,
        .declare = lsi_shm_gather_declare,
        .task = lsi_meeting_task_make("gather", bytes),
    };

    LS_TRY(lsi_meeting_task_set_target(comm->arena, data, bytes, &collective.task));
    return prepare(comm, &collective, out);
}

static ls_status shm_prepare_exchange(ls_comm *head, const void *mine, void *all, size_t bytes, ls_collective **out)
{
    lsi_shm_comm *comm = (lsi_shm_comm *)head;
    lsi_shm_collective collective = {
        .source = {mine},
        .target = all,
        .kind = LSI_SHM_EXCHANGE,
        .run = lsi_shm_exchange_run,
        .declare = lsi_shm_exchange_declare,
        .task = lsi_meeting_task_make("exchange", bytes),
    };

    LS_TRY(lsi_meeting_task_add_source(comm->arena, mine, bytes, &collective.task));
    return prepare(comm, &collective, out);
}

static ls_status shm_prepare_broadcast(ls_comm *head, void *data, size_t bytes, int root, ls_collective **out)
{
    lsi_shm_comm *comm = (lsi_shm_comm *)head;
    lsi_shm_collective collective = {
        .target = data,
        .root = root,
        .kind = LSI_SHM_BROADCAST,
        .run = lsi_shm_broadcast_run,
        .declare = lsi_shm_broadcast_declare,
        .task = lsi_meeting_task_make("broadcast", bytes),
    };

    LS_TRY(lsi_meeting_task_set_target(comm->arena, data, bytes, &collective.task));
    return prepare(comm, &collective, out);
}

/* ---- the transport ------------------------------------------------------------------------------------------- */

/* On rank 0. */
static void tell_times(const lsi_shm_comm *comm)
{
    static const char *const names[] = {
#define ROW(name, text) text,
        LSI_SHM_KINDS(ROW)
#undef ROW
    };

    for (int kind = 0; kind < LSI_SHM_KIND_COUNT; kind++) {
        const lsi_shm_times *t = &comm->times[kind];

        if (t->n > 0) {
            lsi_log_debug("shm: %llu %s: %.4f s until all were ready, %.4f s at work (%.3f GB, %.1f GB/s), %.4f s "
                          "until all were done",
                          (unsigned long long)t->n, names[kind], t->ready, t->work, (double)t->bytes * 1e-9,
                          t->work > 0 ? (double)t->bytes / t->work * 1e-9 : 0.0, t->done);
        }
    }
}

static void shm_close(ls_comm *head)
{
    lsi_shm_comm *comm = (lsi_shm_comm *)head;

    tell_times(comm);
    for (uint32_t i = 0; i < comm->n_prepared; i++) {
        lsi_memory_free(comm->prepared[i]);
    }
    lsi_memory_free(comm->prepared);
    if (comm->arena != NULL) {
        lsi_memory_account_remove(comm->account, LSI_MEMORY_COMM, lsi_meeting_head_bytes());
    }
    lsi_arena_close(&comm->arena);
    lsi_memory_free(comm->result);
    lsi_memory_free(comm->operand);
    lsi_memory_free(comm->step);
    lsi_memory_free(comm->term);
    lsi_memory_free(comm->share);
    lsi_memory_free(comm);
}

static ls_status shm_alloc(ls_comm *comm, size_t bytes, void **out)
{
    return lsi_arena_alloc(((lsi_shm_comm *)comm)->arena, bytes, out);
}

static void shm_release(ls_comm *comm, size_t bytes, void *pointer)
{
    (void)bytes;
    lsi_arena_release(((lsi_shm_comm *)comm)->arena, pointer);
}

static void shm_chunk(const ls_comm *comm, int64_t n, int rank, int64_t *start, int64_t *count)
{
    lsi_shares_chunk(n, comm->world, rank, start, count);
}

static void shm_abort(ls_comm *comm)
{
    atomic_store(&((lsi_shm_comm *)comm)->aborted, true);
}

static const ls_transport shm_transport = {
    .struct_size = sizeof(ls_transport),
    .name = "shm",
    .close = shm_close,
    .alloc = shm_alloc,
    .release = shm_release,
    .prepare_reduce = shm_prepare_reduce,
    .prepare_gather = shm_prepare_gather,
    .prepare_exchange = shm_prepare_exchange,
    .prepare_broadcast = shm_prepare_broadcast,
    .launch = shm_launch,
    .chunk = shm_chunk,
    .abort = shm_abort,
};

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* Fills `term` and `span`, ascending in the tree; both NULL: counts only. A fast sum is a tree over the ranks. */
static int list_terms(const lsi_shm_comm *comm, lsi_shm_term *term, lsi_span *span)
{
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    int n = 0;

    for (int r = 0; r < comm->head.world; r++) {
        int n_roots = 1;

        roots[0] = (lsi_span){r, r + 1};
        if (!comm->fast) {
            n_roots = lsi_tree_roots(comm->head.n_lanes, comm->share[r].lo, comm->share[r].hi, roots);
        }
        for (int k = 0; k < n_roots && term != NULL; k++) {
            term[n + k] = (lsi_shm_term){.rank = r, .source = k};
            span[n + k] = roots[k];
        }
        n += n_roots;
    }
    return n;
}

static ls_status plan_sum(lsi_shm_comm *comm)
{
    lsi_span all = {0, comm->fast ? comm->head.world : comm->head.n_lanes}, *span;
    size_t n = (size_t)list_terms(comm, NULL, NULL);
    void *memory;

    comm->n_terms = (int)n;
    LS_TRY(lsi_memory_alloc(n * sizeof *comm->term, "the reduction plan", &memory));
    comm->term = memory;
    LS_TRY(lsi_memory_alloc(2 * n * sizeof *comm->step, "the reduction plan", &memory));
    comm->step = memory;
    LS_TRY(lsi_memory_alloc(n * sizeof *comm->operand, "the reduction plan", &memory));
    comm->operand = memory;
    LS_TRY(lsi_memory_alloc((size_t)comm->head.world * sizeof *comm->result, "the reduction plan", &memory));
    comm->result = memory;
    LS_TRY(lsi_memory_alloc(n * sizeof *span, "the reduction plan", &memory));
    span = memory;
    list_terms(comm, comm->term, span);
    lsi_evaluate_plan(all, span, comm->step);
    lsi_memory_free(span);
    return LS_OK;
}

static ls_status set_up(lsi_shm_comm *comm, const lsi_comm_options *options)
{
    size_t share_bytes = (size_t)options->job->world * sizeof *comm->share;
    void *memory;

    LS_TRY(lsi_memory_alloc(share_bytes, "the shares", &memory));
    comm->share = memcpy(memory, options->share, share_bytes);
    LS_TRY(plan_sum(comm));
    lsi_meeting_open(comm->arena, options->timeout_seconds, options->watchdog, &comm->aborted, &comm->meeting);
    return LS_OK;
}

ls_status lsi_shm_open(const lsi_comm_options *options, ls_comm **out)
{
    lsi_job *job = options->job;
    lsi_arena *arena;
    void *memory;

    /* First, so that a rank that fails below has not left the others waiting in it. */
    LS_TRY(lsi_arena_open(job, options->device, lsi_meeting_head_bytes(), options->timeout_seconds, &arena));
    ls_status status = lsi_memory_alloc(sizeof(lsi_shm_comm), "the transport", &memory);
    if (status != LS_OK) {
        lsi_arena_close(&arena);
        return status;
    }
    lsi_shm_comm *comm = memory;
    comm->head = (ls_comm){
        .transport = &shm_transport,
        .device = options->device,
        .rank = job->rank,
        .world = job->world,
        .n_lanes = options->n_lanes,
    };
    comm->account = options->account;
    comm->on_failure = options->on_failure;
    comm->failure_argument = options->failure_argument;
    comm->fast = options->fast && job->world > 1;
    comm->arena = arena;
    lsi_memory_account_add(comm->account, LSI_MEMORY_COMM, lsi_meeting_head_bytes());
    status = set_up(comm, options);
    if (status != LS_OK) {
        shm_close(&comm->head);
        return status;
    }
    *out = &comm->head;
    return LS_OK;
}

int64_t lsi_shm_staging_bytes(void)
{
    return (int64_t)lsi_meeting_head_bytes();
}
