/* What one operation does when its turn comes. Copies stop once in the middle, at a random byte. */
#include "runtime.h"

#include <string.h>

bool cusim_op_can_run(const op *o)
{
    for (int i = 0; i < o->n_after; i++)
        if (o->after[i].stream->n_done < o->after[i].sequence)
            return false;
    if (o->kind == OP_WAIT)
        return o->u.event.record == NULL || o->u.event.record->done;
    return o->kind != OP_HOST || o->u.host.state != HOST_RUNNING;
}

static void kernel(op *o, cusim_stream *stream)
{
    cusim_memory_open(stream->device);
    if (cusim_execute(&o->u.kernel) != 0)
        cusim_device_fails(stream->device, cudaErrorLaunchFailure);
}

/* The next bytes of a copy or fill, at most up to the end of a row. */
static void move_piece(op *o, size_t bytes)
{
    size_t row = o->u.copy.position / o->u.copy.row, column = o->u.copy.position % o->u.copy.row;
    char *target = o->u.copy.target + row * o->u.copy.target_pitch + column;
    CUSIM_WRITES(target, bytes);
    if (o->kind == OP_SET) {
        memset(target, o->u.copy.value, bytes);
    } else if (o->u.copy.staged != NULL) {
        memcpy(target, o->u.copy.staged + o->u.copy.position, bytes);
    } else {
        const char *source = o->u.copy.source + row * o->u.copy.source_pitch + column;
        CUSIM_READS(source, bytes);
        memcpy(target, source, bytes);
    }
    o->u.copy.position += bytes;
}

static progress move(op *o)
{
    size_t until = o->u.copy.bytes;
    if (cusim.seed != 0 && o->u.copy.position == 0 && until > 1)
        until = 1 + cusim_random() % until;
    cusim_memory_open(-1);
    while (o->u.copy.position < until) {
        size_t left = o->u.copy.row - o->u.copy.position % o->u.copy.row;
        move_piece(o, left < until - o->u.copy.position ? left : until - o->u.copy.position);
    }
    return o->u.copy.position == o->u.copy.bytes ? PROGRESS_DONE : PROGRESS_SOME;
}

static progress work(op *o, cusim_stream *stream, bool first)
{
    cusim_memory_open(-1);
    int answer = o->u.work.poll(o->u.work.argument, first);
    if (answer < 0)
        cusim_device_fails(stream->device, (cudaError_t)-answer);
    if (answer == CUSIM_AGAIN)
        return o->u.work.never_idle ? PROGRESS_SOME : PROGRESS_NONE;
    return PROGRESS_DONE;
}

/* The word is shared with host threads: ordered by it, and by it alone. */
static uint32_t load_word(const uint32_t *word)
{
#ifdef CUSIM_TSAN
    return __tsan_atomic32_load(word, __ATOMIC_ACQUIRE);
#else
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

static void write_value(op *o)
{
    /* Once: a host thread may answer between two stores, and the second one would take its answer away. */
#ifdef CUSIM_TSAN
    __tsan_atomic32_store(o->u.value.word, o->u.value.value, __ATOMIC_RELEASE);
#else
    __atomic_store_n(o->u.value.word, o->u.value.value, __ATOMIC_RELEASE);
#endif
}

static progress wait_value(op *o)
{
    uint32_t seen = load_word(o->u.value.word), wanted = o->u.value.value;
    bool there;
    switch (o->u.value.flags & 3) {
    case 0:
        there = (int32_t)(seen - wanted) >= 0;
        break; /* CU_STREAM_WAIT_VALUE_GEQ: cyclic */
    case 1:
        there = seen == wanted;
        break; /* EQ */
    case 2:
        there = (seen & wanted) != 0;
        break; /* AND */
    default:
        there = (~(seen | wanted)) != 0;
        break; /* NOR */
    }
    return there ? PROGRESS_DONE : PROGRESS_NONE;
}

static progress host_function(op *o, cusim_stream *stream)
{
    if (o->u.host.state == HOST_DONE)
        return PROGRESS_DONE;
    o->u.host.state = HOST_RUNNING;
    void *fiber = NULL;
    CUSIM_TS(fiber = __tsan_get_current_fiber();)
    (void)stream;
    cusim_run_host_function(o, fiber);
    return PROGRESS_SOME;
}

progress cusim_perform(op *o, cusim_stream *stream)
{
    bool first = !o->started;
    o->started = true;
    if (o->fail_with != cudaSuccess)
        cusim_device_fails(stream->device, o->fail_with);
    /* After a fault nothing runs on the device, but nobody may wait for ever. */
    bool dead = cusim.devices[stream->device].error != cudaSuccess;
    if (dead && o->kind != OP_RECORD && o->kind != OP_FREE && !(o->kind == OP_HOST && !first))
        return PROGRESS_DONE;
    switch (o->kind) {
    case OP_KERNEL:
        kernel(o, stream);
        return PROGRESS_DONE;
    case OP_COPY:
    case OP_SET:
        return move(o);
    case OP_RECORD:
        CUSIM_TS(__tsan_release(&o->u.event.record->tsan);)
        o->u.event.record->done = true;
        o->u.event.record->seconds = cusim.now;
        return PROGRESS_DONE;
    case OP_WAIT:
        CUSIM_TS(if (o->u.event.record != NULL) __tsan_acquire(&o->u.event.record->tsan);)
        return PROGRESS_DONE;
    case OP_HOST:
        return host_function(o, stream);
    case OP_WORK:
        return work(o, stream, first);
    case OP_FREE:
        cusim_memory_release(o->u.freed);
        return PROGRESS_DONE;
    case OP_GRAPH:
        return cusim_perform_graph(o, stream);
    case OP_WRITE_VALUE:
        write_value(o);
        return PROGRESS_DONE;
    case OP_WAIT_VALUE:
        return wait_value(o);
    case OP_NOTHING:
        return PROGRESS_DONE;
    }
    return PROGRESS_DONE;
}
