/* An operation as it runs: its messages, then its collectives one after another. A collective posts this rank's part
 * and is finished when the parts it needs are there; a root that only sends, or a rank that only gives, does not wait
 * for the others, so that code cannot lean on a rendezvous that NCCL does not promise. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_internal.h"

size_t cusim_nccl_operation_bytes(int n_tasks)
{
    return sizeof(cusim_nccl_operation) + (size_t)n_tasks * sizeof(cusim_nccl_task);
}

/* ---- what others may see --------------------------------------------------------------------- */
static void publish(struct ncclComm *comm, cusim_nccl_activity activity, const cusim_nccl_call *call)
{
    cusim_nccl_rank *self = &comm->control->ranks[comm->rank];

    if (call != NULL) {
        cusim_nccl_describe(call, self->text, sizeof self->text);
    }
    atomic_store(&self->activity, activity);
    atomic_fetch_add(&self->changes, 1);
}

static void publish_messages(cusim_nccl_operation *operation)
{
    cusim_nccl_rank *self = &operation->comm->control->ranks[operation->comm->rank];
    size_t length = 0;

    self->text[0] = '\0';
    for (int i = 0; i < operation->n_tasks; i++) {
        static const char between[] = " + ";

        if (operation->tasks[i].call.kind < CUSIM_NCCL_SEND || length + sizeof between >= sizeof self->text) {
            continue;
        }
        if (length > 0) {
            memcpy(self->text + length, between, sizeof between);
            length += sizeof between - 1;
        }
        cusim_nccl_describe(&operation->tasks[i].call, self->text + length, sizeof self->text - length);
        length = strlen(self->text);
    }
    publish(operation->comm, CUSIM_NCCL_IN_MESSAGES, NULL);
}

/* ---- collectives ----------------------------------------------------------------------------- */
static bool gives(const struct ncclComm *comm, const cusim_nccl_call *call)
{
    return call->kind != CUSIM_NCCL_BROADCAST || comm->rank == call->root;
}

/* Bits of the ranks whose parts this rank needs. */
static uint64_t needed_ranks(const struct ncclComm *comm, const cusim_nccl_call *call)
{
    uint64_t all = comm->n_ranks < 64 ? ((uint64_t)1 << comm->n_ranks) - 1 : ~(uint64_t)0;

    switch (call->kind) {
    case CUSIM_NCCL_BROADCAST:
        return (uint64_t)1 << call->root;
    case CUSIM_NCCL_REDUCE:
        return comm->rank == call->root ? all : (uint64_t)1 << comm->rank;
    default:
        return all;
    }
}

static size_t bytes_given(const struct ncclComm *comm, const cusim_nccl_call *call)
{
    size_t bytes = call->count * cusim_nccl_type_size(call->type);

    return call->kind == CUSIM_NCCL_REDUCE_SCATTER ? bytes * (size_t)comm->n_ranks : bytes;
}

static void post(struct ncclComm *comm, cusim_nccl_task *task)
{
    cusim_nccl_rank *self = &comm->control->ranks[comm->rank];
    size_t bytes = bytes_given(comm, &task->call), half = task->number & 1;

    if (gives(comm, &task->call)) {
        char *memory = cusim_nccl_segment_reach(&comm->segments[comm->rank][half], bytes, true);

        CUSIM_READS(task->in, bytes);
        memcpy(memory, task->in, bytes);
        if (task->scaled) {
            size_t size = cusim_nccl_type_size(task->call.type);
            const void *scalar = task->scalar;

            if (task->device_scalar != NULL) {
                CUSIM_READS(task->device_scalar, size);
                scalar = task->device_scalar;
            }
            cusim_nccl_multiply(memory, bytes / size, task->call.type, scalar);
        }
    }
    self->calls[half] = task->call;
    atomic_store(&self->posted, task->number + 1);
    atomic_fetch_add(&self->changes, 1);
}

static void check_agreement(struct ncclComm *comm, const cusim_nccl_task *task, int other)
{
    const cusim_nccl_call *theirs = &comm->control->ranks[other].calls[task->number & 1], *mine = &task->call;
    char a[CUSIM_NCCL_TEXT], b[CUSIM_NCCL_TEXT];

    if (theirs->kind != mine->kind || theirs->type != mine->type || theirs->reduction != mine->reduction ||
        theirs->root != mine->root || theirs->count != mine->count) {
        cusim_nccl_describe(mine, a, sizeof a);
        cusim_nccl_describe(theirs, b, sizeof b);
        cusim_die("NCCL: collective %llu differs: rank %d %s, rank %d %s", (unsigned long long)task->number, comm->rank,
                  a, other, b);
    }
}

static const char *part(struct ncclComm *comm, const cusim_nccl_task *task, int rank)
{
    return cusim_nccl_segment_reach(&comm->segments[rank][task->number & 1], bytes_given(comm, &task->call),
                                    rank == comm->rank);
}

/* Adds up the ranks' parts beginning at one that changes with the collective, the same on every rank. */
static void reduce_parts(struct ncclComm *comm, const cusim_nccl_task *task, size_t offset)
{
    size_t count = task->call.count, bytes = count * cusim_nccl_type_size(task->call.type);
    int first = (int)(task->number * 7 % (uint64_t)comm->n_ranks);

    memcpy(task->out, part(comm, task, first) + offset, bytes);
    for (int i = 1; i < comm->n_ranks; i++) {
        cusim_nccl_reduce(task->out, part(comm, task, (first + i) % comm->n_ranks) + offset, count, task->call.type,
                          task->call.reduction);
    }
    if (task->call.reduction == ncclAvg) {
        cusim_nccl_divide(task->out, count, task->call.type, comm->n_ranks);
    }
}

static void take(struct ncclComm *comm, const cusim_nccl_task *task)
{
    const cusim_nccl_call *call = &task->call;
    size_t bytes = call->count * cusim_nccl_type_size(call->type);

    if (call->kind == CUSIM_NCCL_REDUCE && comm->rank != call->root) {
        return;
    }
    CUSIM_WRITES(task->out, call->kind == CUSIM_NCCL_ALL_GATHER ? bytes * (size_t)comm->n_ranks : bytes);
    switch (call->kind) {
    case CUSIM_NCCL_ALL_GATHER:
        for (int i = 0; i < comm->n_ranks; i++) {
            memcpy((char *)task->out + (size_t)i * bytes, part(comm, task, i), bytes);
        }
        break;
    case CUSIM_NCCL_BROADCAST:
        memcpy(task->out, part(comm, task, call->root), bytes);
        break;
    default:
        reduce_parts(comm, task, call->kind == CUSIM_NCCL_REDUCE_SCATTER ? (size_t)comm->rank * bytes : 0);
        break;
    }
}

static bool step_collective(struct ncclComm *comm, cusim_nccl_task *task, bool *begun)
{
    cusim_nccl_rank *ranks = comm->control->ranks, *self = &ranks[comm->rank];
    uint64_t needs = needed_ranks(comm, &task->call);

    if (!*begun) {
        *begun = true;
        task->number = comm->n_collectives++;
        atomic_store(&self->collective, task->number);
        atomic_store(&self->needs, needs);
        publish(comm, CUSIM_NCCL_IN_COLLECTIVE, &task->call);
    }
    if (!task->posted) {
        /* The memory for its parts held those of the collective before the last one. */
        for (int i = 0; i < comm->n_ranks; i++) {
            if (task->number >= 2 && atomic_load(&ranks[i].finished) < task->number - 1) {
                return false;
            }
        }
        post(comm, task);
        task->posted = true;
    }
    for (int i = 0; i < comm->n_ranks; i++) {
        if (needs >> i & 1 && atomic_load(&ranks[i].posted) <= task->number) {
            return false;
        }
    }
    for (int i = 0; i < comm->n_ranks; i++) {
        if (needs >> i & 1) {
            check_agreement(comm, task, i);
        }
    }
    take(comm, task);
    atomic_store(&self->finished, task->number + 1);
    return true;
}

/* ---- the operation --------------------------------------------------------------------------- */
/* CUSIM_NCCL_HANG and CUSIM_NCCL_KILL are "rank:n": that rank's operation n (from 0) of a communicator never goes on,
 * or ends its process as SIGKILL does. */
static bool injected(const cusim_nccl_operation *operation, const char *variable)
{
    const char *value = getenv(variable);
    int rank;
    unsigned long long n;

    return value != NULL && sscanf(value, "%d:%llu", &rank, &n) == 2 && rank == operation->comm->rank &&
           n == operation->turn;
}

static void begin(cusim_nccl_operation *operation)
{
    struct ncclComm *comm = operation->comm;

    if (injected(operation, "CUSIM_NCCL_KILL")) {
        cusim_note("injected: rank %d is killed in operation %llu", comm->rank, (unsigned long long)operation->turn);
        raise(SIGKILL);
    }
    if (injected(operation, "CUSIM_NCCL_HANG")) {
        cusim_note("injected: rank %d hangs in operation %llu", comm->rank, (unsigned long long)operation->turn);
        comm->hung = true;
        return;
    }
    for (int i = 0; i < operation->n_tasks; i++) {
        if (operation->tasks[i].call.kind >= CUSIM_NCCL_SEND) {
            cusim_nccl_messages_begin(operation);
            publish_messages(operation);
            break;
        }
    }
}

int cusim_nccl_poll(void *argument, bool first)
{
    cusim_nccl_operation *operation = argument;
    struct ncclComm *comm = operation->comm;

    if (comm->aborted) {
        return CUSIM_DONE;
    }
    if (comm->stage == CUSIM_NCCL_OVER) {
        cusim_die("NCCL: an operation runs whose communicator has been destroyed");
    }
    if (first && operation->turn == CUSIM_NCCL_TURN_WHEN_RUN) {
        operation->turn = comm->next_turn++;
    }
    if (comm->turn != operation->turn || comm->hung) {
        return CUSIM_AGAIN;
    }
    if (!operation->begun) {
        operation->begun = true;
        operation->waiting_since = cusim_nccl_clock();
        begin(operation);
    }
    bool done = !comm->hung && cusim_nccl_messages_step(operation);
    for (int i = 0; i < operation->n_tasks && done; i++) {
        cusim_nccl_task *task = &operation->tasks[i];

        if (task->call.kind < CUSIM_NCCL_SEND && !task->finished) {
            done = task->finished = step_collective(comm, task, &task->begun);
        }
    }
    if (!done) {
        cusim_nccl_deadlock_look(operation);
        return CUSIM_AGAIN;
    }
    publish(comm, CUSIM_NCCL_IDLE, NULL);
    comm->turn++;
    comm->suspected_since = 0;
    return CUSIM_DONE;
}
