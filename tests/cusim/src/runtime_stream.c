/* Streams, and host functions on them. */
#include "runtime.h"
#include "cusim.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOWEST_PRIORITY = 0, HIGHEST_PRIORITY = -5 };

cusim_stream *cusim_stream_new(int device, unsigned flags, int priority, bool legacy)
{
    static const double weights[] = {0.02, 0.2, 1, 5, 50};
    cusim_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        cusim_die("out of host memory");
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority < HIGHEST_PRIORITY  ? HIGHEST_PRIORITY
                       : priority > LOWEST_PRIORITY ? LOWEST_PRIORITY
                                                    : priority;
    stream->legacy = legacy;
    stream->id = legacy ? 0 : ++cusim.n_stream_ids;
    stream->seconds = cusim.host_seconds;
    stream->weight = weights[cusim_random() % 5] * (1 + (double)(cusim_random() % 1000) / 1000);
    CUSIM_TS(char name[32]; snprintf(name, sizeof name, "stream %d", stream->id);
             stream->tsan_fiber = __tsan_create_fiber(0); __tsan_set_fiber_name(stream->tsan_fiber, name);)
    stream->next = cusim.streams;
    cusim.streams = stream;
    return stream;
}

cusim_stream *cusim_stream_legacy(int device)
{
    if (cusim.devices[device].legacy == NULL)
        cusim.devices[device].legacy = cusim_stream_new(device, 0, 0, true);
    return cusim.devices[device].legacy;
}

cusim_stream *cusim_stream_resolve(cudaStream_t stream)
{
    return stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread
               ? cusim_stream_legacy(cusim_device)
               : stream;
}

int cusim_stream_device(cudaStream_t stream)
{
    cusim_lock();
    int device = cusim_stream_resolve(stream)->device;
    cusim_unlock();
    return device;
}

int cusim_stream_id(cudaStream_t stream)
{
    cusim_lock();
    int id = cusim_stream_resolve(stream)->id;
    cusim_unlock();
    return id;
}

bool cusim_stream_capturing(cudaStream_t stream)
{
    cusim_lock();
    bool capturing = cusim_stream_resolve(stream)->capture != NULL;
    cusim_unlock();
    return capturing;
}

int cusim_streams_alive(void)
{
    int n = 0;
    cusim_lock();
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        n += !s->legacy;
    cusim_unlock();
    return n;
}

/* ---- the API -------------------------------------------------------------------------------- */

static cudaError_t create(cudaStream_t *out, unsigned flags, int priority)
{
    if (out == NULL || (flags & ~(unsigned)cudaStreamNonBlocking) != 0)
        return cudaErrorInvalidValue;
    *out = cusim_stream_new(cusim_device, flags, priority, false);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    CUSIM_ENTER(cudaStreamCreate);
    return cusim_leave(create(out, 0, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    CUSIM_ENTER(cudaStreamCreateWithFlags);
    return cusim_leave(create(out, flags, 0));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    CUSIM_ENTER(cudaStreamCreateWithPriority);
    return cusim_leave(create(out, flags, priority));
}

/* Nothing of the device may point to it afterwards. What is queued runs first: where the real one returns at once and
 * frees it later, a program can tell no difference. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaStreamDestroy, stream, NULL);
    cusim_stream *s = stream;
    if (s == NULL || s->legacy)
        return cusim_leave(cudaErrorInvalidResourceHandle);
    if (s->capture != NULL)
        cusim_capture_invalidate(s);
    cusim_drain_stream(s);
    cusim_stream **link = &cusim.streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    for (cusim_stream *other = cusim.streams; other != NULL; other = other->next)
        for (op *o = other->first; o != NULL; o = o->next)
            for (int i = 0; i < o->n_after; i++)
                if (o->after[i].stream == s)
                    o->after[i--] = o->after[--o->n_after];
    while (s->first != NULL) { /* a failed device leaves work undone */
        op *o = s->first;
        s->first = o->next;
        if (o->kind == OP_RECORD)
            o->u.event.record->done = true;
        cusim_op_free(o);
    }
    CUSIM_TS(__tsan_destroy_fiber(s->tsan_fiber);)
    free(s->frontier);
    free(s);
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *out)
{
    CUSIM_ENTER_STREAM(cudaStreamGetPriority, stream, NULL);
    *out = cusim_stream_resolve(stream)->priority;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *out)
{
    CUSIM_ENTER_STREAM(cudaStreamGetFlags, stream, NULL);
    *out = cusim_stream_resolve(stream)->flags;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    CUSIM_ENTER(cudaDeviceGetStreamPriorityRange);
    if (least != NULL)
        *least = LOWEST_PRIORITY;
    if (greatest != NULL)
        *greatest = HIGHEST_PRIORITY;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaStreamSynchronize, stream, NULL);
    cusim_stream *s = cusim_stream_resolve(stream);
    if (s->capture != NULL) {
        cusim_capture_invalidate(s);
        return cusim_leave(cudaErrorStreamCaptureUnsupported);
    }
    int device = s->device;
    cusim_drain_stream(s);
    return cusim_leave(cusim.devices[device].error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaStreamQuery, stream, NULL);
    cusim_stream *s = cusim_stream_resolve(stream);
    if (s->capture != NULL) {
        cusim_capture_invalidate(s);
        return cusim_leave(cudaErrorStreamCaptureUnsupported);
    }
    if (s->n_done < s->n_queued)
        cusim_poll_stream(s);
    if (cusim.devices[s->device].error != cudaSuccess)
        return cusim_leave(cusim.devices[s->device].error);
    if (s->n_done < s->n_queued)
        return cusim_leave(cudaErrorNotReady);
    CUSIM_TS(__tsan_acquire(&s->tsan);)
    if (s->seconds > cusim.host_seconds)
        cusim.host_seconds = s->seconds;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    cusim_need_progress(); /* the host may wait for what the function does */
    CUSIM_ENTER_STREAM(cudaLaunchHostFunc, stream, NULL);
    if (function == NULL)
        return cusim_leave(cudaErrorInvalidValue);
    op *o = cusim_op_new(OP_HOST, "host function", 5e-6);
    o->u.host.function = function;
    o->u.host.argument = argument;
    return cusim_leave(cusim_queue(o, cusim_stream_resolve(stream)));
}
