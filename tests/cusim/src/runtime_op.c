/* Operations: made, copied (graphs), queued, freed. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *memory)
{
    if (memory == NULL)
        cusim_die("out of host memory");
    return memory;
}

static void *duplicate(const void *data, size_t bytes)
{
    return bytes == 0 ? NULL : memcpy(need(malloc(bytes)), data, bytes);
}

op *cusim_op_new(op_kind kind, const char *name, double seconds)
{
    op *o = need(calloc(1, sizeof *o));
    o->kind = kind;
    o->seconds = seconds;
    snprintf(o->name, sizeof o->name, "%s", name);
    return o;
}

op *cusim_op_clone(const op *original)
{
    op *o = need(malloc(sizeof *o));
    *o = *original;
    if (o->kind == OP_KERNEL) {
        o->u.kernel.closure = duplicate(original->u.kernel.closure, original->u.kernel.closure_bytes);
        o->u.kernel.name = o->name;
    } else if (o->kind == OP_WORK) {
        o->u.work.argument = duplicate(original->u.work.argument, original->u.work.bytes);
    } else if (o->kind == OP_RECORD || o->kind == OP_WAIT) {
        if (o->u.event.record != NULL)
            o->u.event.record->references++;
    }
    return o;
}

void cusim_op_free(op *o)
{
    if (o->kind == OP_KERNEL)
        free((void *)(uintptr_t)o->u.kernel.closure);
    else if (o->kind == OP_WORK)
        free(o->u.work.argument);
    else if (o->kind == OP_COPY)
        free(o->u.copy.staged);
    else if (o->kind == OP_RECORD || o->kind == OP_WAIT)
        cusim_record_drop(o->u.event.record);
    else if (o->kind == OP_GRAPH && o->u.run != NULL)
        cusim_run_free(o->u.run);
    free(o->after);
    free(o);
}

event_record *cusim_record_new(cusim_stream *stream)
{
    event_record *record = need(calloc(1, sizeof *record));
    record->references = 1;
    record->stream = stream;
    return record;
}

void cusim_record_drop(event_record *record)
{
    if (record != NULL && --record->references == 0)
        free(record);
}

static void add_dependency(op *o, cusim_stream *stream)
{
    if (stream == o->stream || stream->n_done >= stream->n_queued)
        return;
    o->after = need(realloc(o->after, sizeof *o->after * (size_t)(o->n_after + 1)));
    o->after[o->n_after++] = (struct dependency){stream, stream->n_queued};
}

/* The legacy default stream and blocking streams wait for each other. */
static void add_dependencies(op *o, cusim_stream *stream)
{
    if (stream->legacy) {
        for (cusim_stream *other = cusim.streams; other != NULL; other = other->next)
            if (other->device == stream->device && (other->flags & cudaStreamNonBlocking) == 0)
                add_dependency(o, other);
    } else if ((stream->flags & cudaStreamNonBlocking) == 0 && cusim.devices[stream->device].legacy != NULL) {
        add_dependency(o, cusim.devices[stream->device].legacy);
    }
}

cudaError_t cusim_queue(op *o, cusim_stream *stream)
{
    if (stream->capture != NULL)
        return cusim_capture_add(o, stream);
    if (stream->legacy) {
        cudaError_t error = cusim_capture_legacy_use(stream->device);
        if (error != cudaSuccess) {
            cusim_op_free(o);
            return error;
        }
    }
    o->stream = stream;
    o->queued_at = cusim.host_seconds;
    add_dependencies(o, stream);
    o->sequence = ++stream->n_queued;
    cusim_record_queued(o, stream->id, -1);
    if (stream->last != NULL)
        stream->last->next = o;
    else
        stream->first = o;
    stream->last = o;
    CUSIM_TS(__tsan_release(&o->tsan);)
    if (cusim.policy == POLICY_EAGER || cusim.policy == POLICY_SLOW || cusim.policy == POLICY_FAST)
        cusim_run_some();
    return cudaSuccess;
}

cudaError_t cusim_enqueue(cudaStream_t stream, const cusim_work *work)
{
    cusim_lock();
    op *o = cusim_op_new(OP_WORK, work->name, work->seconds);
    o->u.work.poll = work->poll;
    o->u.work.argument = duplicate(work->argument, work->argument_bytes);
    o->u.work.bytes = work->argument_bytes;
    o->u.work.never_idle = work->never_idle;
    cudaError_t error = cusim_queue(o, cusim_stream_resolve(stream));
    cusim_unlock();
    return error;
}
