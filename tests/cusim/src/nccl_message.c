/* Sends and receives of one operation: all of them go on at the same time, messages between two ranks match in order.
 * A send is finished when the other side has taken the message: without that, code that forgets a group would pass here
 * and hang on GPUs. */
#include <string.h>

#include "nccl_internal.h"

static cusim_nccl_channel *channel_of(const struct ncclComm *comm, const cusim_nccl_call *call)
{
    return call->kind == CUSIM_NCCL_SEND ? &comm->control->channels[comm->rank][call->root]
                                         : &comm->control->channels[call->root][comm->rank];
}

static bool is_message(const cusim_nccl_task *task)
{
    return task->call.kind == CUSIM_NCCL_SEND || task->call.kind == CUSIM_NCCL_RECV;
}

/* Numbers the messages, so that everybody can see what this operation must get through. */
void cusim_nccl_messages_begin(cusim_nccl_operation *operation)
{
    for (int i = 0; i < operation->n_tasks; i++) {
        cusim_nccl_task *task = &operation->tasks[i];

        if (is_message(task)) {
            cusim_nccl_channel *channel = channel_of(operation->comm, &task->call);

            task->number =
                atomic_fetch_add(task->call.kind == CUSIM_NCCL_SEND ? &channel->send_goal : &channel->recv_goal, 1);
        }
    }
}

static void check_pair(const struct ncclComm *comm, const cusim_nccl_call *sent, const cusim_nccl_call *wanted,
                       uint64_t number)
{
    char send[CUSIM_NCCL_TEXT], receive[CUSIM_NCCL_TEXT];

    if (sent->count != wanted->count || sent->type != wanted->type) {
        cusim_nccl_describe(sent, send, sizeof send);
        cusim_nccl_describe(wanted, receive, sizeof receive);
        cusim_die("NCCL: message %llu from rank %d to rank %d differs: rank %d %s, rank %d %s",
                  (unsigned long long)number, wanted->root, comm->rank, wanted->root, send, comm->rank, receive);
    }
}

static bool step_send(struct ncclComm *comm, cusim_nccl_task *task, size_t *offset)
{
    cusim_nccl_channel *channel = channel_of(comm, &task->call);
    size_t bytes = task->call.count * cusim_nccl_type_size(task->call.type), at = *offset;

    *offset += (bytes + 255) / 256 * 256;
    if (!task->posted && atomic_load(&channel->posted) == task->number &&
        task->number - atomic_load(&channel->consumed) < CUSIM_NCCL_RING) {
        char *memory = cusim_nccl_segment_reach(&comm->segments[comm->rank][CUSIM_NCCL_MESSAGES], at + bytes, true);

        if (bytes > 0) {
            CUSIM_READS(task->in, bytes);
            memcpy(memory + at, task->in, bytes);
        }
        channel->ring[task->number % CUSIM_NCCL_RING].call = task->call;
        channel->ring[task->number % CUSIM_NCCL_RING].offset = at;
        atomic_store(&channel->posted, task->number + 1);
        task->posted = true;
    }
    return task->posted && atomic_load(&channel->consumed) > task->number;
}

static bool step_receive(struct ncclComm *comm, cusim_nccl_task *task)
{
    cusim_nccl_channel *channel = channel_of(comm, &task->call);
    size_t bytes = task->call.count * cusim_nccl_type_size(task->call.type);

    if (atomic_load(&channel->consumed) != task->number || atomic_load(&channel->posted) <= task->number) {
        return false;
    }
    const cusim_nccl_call *sent = &channel->ring[task->number % CUSIM_NCCL_RING].call;
    size_t at = channel->ring[task->number % CUSIM_NCCL_RING].offset;
    check_pair(comm, sent, &task->call, task->number);
    char *memory = cusim_nccl_segment_reach(&comm->segments[task->call.root][CUSIM_NCCL_MESSAGES], at + bytes, false);
    if (bytes > 0) {
        CUSIM_WRITES(task->out, bytes);
        memcpy(task->out, memory + at, bytes);
    }
    atomic_store(&channel->consumed, task->number + 1);
    return true;
}

bool cusim_nccl_messages_step(cusim_nccl_operation *operation)
{
    struct ncclComm *comm = operation->comm;
    bool all = true, progress = false;

    for (int pass = 0; pass < 2; pass++) { /* sends first: a rank may send to itself */
        size_t offset = 0;

        for (int i = 0; i < operation->n_tasks; i++) {
            cusim_nccl_task *task = &operation->tasks[i];
            bool was = task->finished;

            if (!is_message(task) || (task->call.kind == CUSIM_NCCL_SEND) == (pass == 1)) {
                continue;
            }
            if (task->call.kind == CUSIM_NCCL_SEND) {
                task->finished = step_send(comm, task, &offset);
            } else if (!was) {
                task->finished = step_receive(comm, task);
            }
            progress |= task->finished != was;
            all &= task->finished;
        }
    }
    if (progress) {
        atomic_fetch_add(&comm->control->ranks[comm->rank].changes, 1);
    }
    return all;
}
