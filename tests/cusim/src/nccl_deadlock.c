/* Who waits for whom. Rank A waits for rank B when what A does now cannot end before what B does now has ended: B must
 * get to something later. That is read from what has been posted and consumed, never from what a rank last knew of
 * itself, so it cannot be out of date; a circle that no rank leaves for a while is a deadlock, and real NCCL would hang
 * in it silently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_internal.h"

double cusim_nccl_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

const char *cusim_nccl_kind_name(int kind)
{
    static const char *const names[] = {"AllReduce", "Reduce", "ReduceScatter", "AllGather",
                                        "Broadcast", "Send",   "Recv"};

    return kind >= 0 && kind <= CUSIM_NCCL_RECV ? names[kind] : "?";
}

void cusim_nccl_describe(const cusim_nccl_call *call, char *out, size_t size)
{
    static const char *const types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                        "uint64", "float16", "float32", "float64", "bfloat16"};
    static const char *const reductions[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
    const char *type = call->type >= 0 && call->type < (int)(sizeof types / sizeof types[0]) ? types[call->type] : "?";
    int reduction = call->reduction < ncclNumOps ? call->reduction : ncclNumOps;

    switch (call->kind) {
    case CUSIM_NCCL_SEND:
        snprintf(out, size, "Send(count %zu, %s, to %d)", call->count, type, call->root);
        break;
    case CUSIM_NCCL_RECV:
        snprintf(out, size, "Recv(count %zu, %s, from %d)", call->count, type, call->root);
        break;
    case CUSIM_NCCL_ALL_GATHER:
        snprintf(out, size, "AllGather(count %zu, %s)", call->count, type);
        break;
    case CUSIM_NCCL_BROADCAST:
        snprintf(out, size, "Broadcast(count %zu, %s, root %d)", call->count, type, call->root);
        break;
    case CUSIM_NCCL_REDUCE:
        snprintf(out, size, "Reduce(count %zu, %s, %s, root %d)", call->count, type, reductions[reduction], call->root);
        break;
    default:
        snprintf(out, size, "%s(count %zu, %s, %s)", cusim_nccl_kind_name(call->kind), call->count, type,
                 reductions[reduction]);
        break;
    }
}

/* ---- the circle ------------------------------------------------------------------------------ */
static bool send_pending(const cusim_nccl_control *control, int from, int to)
{
    const cusim_nccl_channel *channel = &control->channels[from][to];

    return atomic_load(&channel->consumed) < atomic_load(&channel->send_goal);
}

/* Does `to` in what it does now take the next message of `from`? */
static bool receive_pending(const cusim_nccl_control *control, int from, int to)
{
    const cusim_nccl_channel *channel = &control->channels[from][to];

    return atomic_load(&channel->consumed) < atomic_load(&channel->recv_goal);
}

static bool waits_for(const cusim_nccl_control *control, int a, int b)
{
    const cusim_nccl_rank *mine = &control->ranks[a], *theirs = &control->ranks[b];
    int activity = atomic_load(&theirs->activity);

    if (activity == CUSIM_NCCL_IDLE) {
        return false; /* its program may yet queue what is missing */
    }
    switch (atomic_load(&mine->activity)) {
    case CUSIM_NCCL_IN_COLLECTIVE: {
        uint64_t number = atomic_load(&mine->collective);

        return atomic_load(&mine->needs) >> b & 1 && atomic_load(&theirs->posted) <= number &&
               !(activity == CUSIM_NCCL_IN_COLLECTIVE && atomic_load(&theirs->collective) == number);
    }
    case CUSIM_NCCL_IN_MESSAGES:
        return (send_pending(control, a, b) &&
                !(activity == CUSIM_NCCL_IN_MESSAGES && receive_pending(control, a, b))) ||
               (receive_pending(control, b, a) && !(activity == CUSIM_NCCL_IN_MESSAGES && send_pending(control, b, a)));
    default:
        return false;
    }
}

/* A circle of waits through `rank`, as ranks in order; 0: none. */
static int find_circle(const struct ncclComm *comm, int rank, int path[CUSIM_NCCL_RANKS], int length, uint64_t seen)
{
    path[length++] = rank;
    for (int other = 0; other < comm->n_ranks; other++) {
        if (!waits_for(comm->control, rank, other)) {
            continue;
        }
        if (other == path[0]) {
            return length;
        }
        if (!(seen >> other & 1)) {
            int found = find_circle(comm, other, path, length, seen | (uint64_t)1 << other);

            if (found > 0) {
                return found;
            }
            seen |= (uint64_t)1 << other;
        }
    }
    return 0;
}

static uint64_t changes_of(const struct ncclComm *comm, const int *path, int length)
{
    uint64_t sum = 1;

    for (int i = 0; i < length; i++) {
        sum = sum * 31 + atomic_load(&comm->control->ranks[path[i]].changes) + (uint64_t)path[i];
    }
    return sum;
}

__attribute__((noreturn)) static void die_of(const struct ncclComm *comm, const int *path, int length)
{
    char text[4096];
    size_t n = 0;

    for (int i = 0; i < length && n < sizeof text; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%srank %d in %s waits for rank %d", i > 0 ? "; " : "",
                              path[i], comm->control->ranks[path[i]].text, path[(i + 1) % length]);
    }
    cusim_die("NCCL: deadlock: %s (sends and receives that depend on each other belong in one group)", text);
}

static void tell_slow(struct ncclComm *comm)
{
    for (int i = 0; i < comm->n_ranks; i++) {
        const cusim_nccl_rank *rank = &comm->control->ranks[i];
        bool idle = atomic_load(&rank->activity) == CUSIM_NCCL_IDLE;

        cusim_note("NCCL: rank %d waits for long; rank %d %s%s", comm->rank, i,
                   idle ? "has nothing under way" : "is in ", idle ? "" : rank->text);
    }
}

void cusim_nccl_deadlock_look(cusim_nccl_operation *operation)
{
    static const double first_look = 0.05, sure = 0.2, slow = 20;
    struct ncclComm *comm = operation->comm;
    int path[CUSIM_NCCL_RANKS];

    /* Few waits last; those that do not cost nothing but this count. */
    if (++operation->idle_polls % 16 != 0) {
        return;
    }
    double now = cusim_nccl_clock();
    if (now - operation->waiting_since < first_look) {
        return;
    }
    if (now - operation->waiting_since > slow && !comm->slow_told) {
        comm->slow_told = true;
        tell_slow(comm);
    }
    int length = find_circle(comm, comm->rank, path, 0, (uint64_t)1 << comm->rank);
    uint64_t changes = changes_of(comm, path, length);
    if (length == 0) {
        comm->suspected_since = 0;
    } else if (comm->suspected_since == 0 || changes != comm->suspected_changes) {
        comm->suspected_since = now;
        comm->suspected_changes = changes;
    } else if (now - comm->suspected_since > sure) {
        die_of(comm, path, length);
    }
}
