/* Events. A record is an object of its own: who waits means the record that was the last one when he said so. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* What the record calls it. */
static int number(const cusim_event *event)
{
    return event != NULL ? event->id : 0;
}

static cudaError_t create(cudaEvent_t *out, unsigned flags)
{
    if (out == NULL || (flags & ~7u) != 0)
        return cudaErrorInvalidValue;
    cusim_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        return cudaErrorMemoryAllocation;
    event->id = ++cusim.n_event_ids;
    event->flags = flags;
    event->device = cusim_device;
    *out = event;
    cusim.n_events++;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    CUSIM_ENTER(cudaEventCreate);
    return cusim_leave(create(out, 0));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    CUSIM_ENTER(cudaEventCreateWithFlags);
    return cusim_leave(create(out, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    CUSIM_ENTER(cudaEventDestroy);
    if (event == NULL)
        return cusim_leave(cudaErrorInvalidResourceHandle);
    cusim_record_drop(event->record);
    free(event->frontier);
    free(event);
    cusim.n_events--;
    return cusim_leave(cudaSuccess);
}

/* ---- record --------------------------------------------------------------------------------- */

/* In a capture: a mark in the graph under construction, no node. */
static cudaError_t record_captured(cusim_event *event, cusim_stream *stream)
{
    size_t bytes = sizeof *event->frontier * (size_t)stream->n_frontier;
    graph_node **frontier = malloc(bytes + 1);
    if (frontier == NULL)
        return cudaErrorMemoryAllocation;
    if (bytes > 0)
        memcpy(frontier, stream->frontier, bytes);
    free(event->frontier);
    event->frontier = frontier;
    event->n_frontier = stream->n_frontier;
    event->capture = stream->capture->id;
    return cudaSuccess;
}

static cudaError_t record(cusim_event *event, cusim_stream *stream, unsigned flags)
{
    if (event == NULL || stream->device != event->device)
        return cudaErrorInvalidResourceHandle;
    bool external = (flags & cudaEventRecordExternal) != 0;
    if (stream->capture != NULL && !external)
        return record_captured(event, stream);
    op *o = cusim_op_new(OP_RECORD, "event record", 0);
    if (stream->capture != NULL) { /* a node: each launch of the graph records the event */
        o->u.event.event = event;
        return cusim_queue(o, stream);
    }
    event->capture = 0;
    cusim_record_drop(event->record);
    event->record = cusim_record_new(stream);
    event->record->references++;
    o->u.event.record = event->record;
    return cusim_queue(o, stream);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaEventRecord, stream, "event=%d", number(event));
    return cusim_leave(record(event, cusim_stream_resolve(stream), 0));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaEventRecordWithFlags, stream, "event=%d flags=%u", number(event), flags);
    return cusim_leave(record(event, cusim_stream_resolve(stream), flags));
}

/* ---- wait ----------------------------------------------------------------------------------- */

static bool in_frontier(const cusim_stream *stream, const graph_node *node)
{
    for (int i = 0; i < stream->n_frontier; i++)
        if (stream->frontier[i] == node)
            return true;
    return false;
}

/* The event is a mark in a capture: the stream joins it, if it does not capture yet. */
static cudaError_t wait_captured(cusim_stream *stream, cusim_event *event, capture *in)
{
    if (stream->capture == NULL) {
        if (stream->legacy)
            return cudaErrorStreamCaptureImplicit;
        stream->capture = in;
        stream->n_frontier = 0;
    }
    if (stream->capture != in) {
        stream->capture->invalid = in->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    for (int i = 0; i < event->n_frontier; i++) {
        if (in_frontier(stream, event->frontier[i]))
            continue;
        size_t bytes = sizeof *stream->frontier * (size_t)(stream->n_frontier + 1);
        graph_node **grown = realloc(stream->frontier, bytes);
        if (grown == NULL)
            return cudaErrorMemoryAllocation;
        stream->frontier = grown;
        stream->frontier[stream->n_frontier++] = event->frontier[i];
    }
    return cudaSuccess;
}

static cudaError_t wait(cusim_stream *stream, cusim_event *event, unsigned flags)
{
    if (event == NULL)
        return cudaErrorInvalidResourceHandle;
    bool external = (flags & cudaEventWaitExternal) != 0;
    if (event->capture != 0 && !external) {
        capture *in = cusim_capture_find(event->capture);
        if (in == NULL) {
            cusim_note("a stream waits for an event that was last recorded in a capture, which is over");
            return cudaErrorCapturedEvent;
        }
        return wait_captured(stream, event, in);
    }
    op *o = NULL;
    if (stream->capture != NULL) {
        if (!external) {
            cusim_capture_invalidate(stream);
            return cudaErrorStreamCaptureIsolation;
        }
        o = cusim_op_new(OP_WAIT, "event wait", 0);
        o->u.event.event = event;
        return cusim_queue(o, stream);
    }
    if (event->record == NULL)
        return cudaSuccess;
    o = cusim_op_new(OP_WAIT, "event wait", 0);
    o->u.event.record = event->record;
    event->record->references++;
    return cusim_queue(o, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaStreamWaitEvent, stream, "event=%d flags=%u", number(event), flags);
    return cusim_leave(wait(cusim_stream_resolve(stream), event, flags));
}

/* ---- the host ------------------------------------------------------------------------------- */

/* Host calls on an event whose last record is a mark in a capture are refused, and end that capture. */
static cudaError_t captured(const cusim_event *event)
{
    if (event->capture == 0)
        return cudaSuccess;
    capture *in = cusim_capture_find(event->capture);
    if (in != NULL)
        in->invalid = true;
    return cudaErrorCapturedEvent;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    CUSIM_ENTER_STREAM(cudaEventQuery, CUSIM_NO_STREAM, "event=%d", number(event));
    if (event == NULL || captured(event) != cudaSuccess)
        return cusim_leave(event == NULL ? cudaErrorInvalidResourceHandle : cudaErrorCapturedEvent);
    event_record *r = event->record;
    if (r != NULL && !r->done && r->stream != NULL)
        cusim_poll_stream(r->stream);
    if (cusim.devices[event->device].error != cudaSuccess)
        return cusim_leave(cusim.devices[event->device].error);
    if (r != NULL && !r->done)
        return cusim_leave(cudaErrorNotReady);
    CUSIM_TS(if (r != NULL) __tsan_acquire(&r->tsan);)
    if (r != NULL && r->seconds > cusim.host_seconds)
        cusim.host_seconds = r->seconds;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    CUSIM_ENTER_STREAM(cudaEventSynchronize, CUSIM_NO_STREAM, "event=%d", number(event));
    if (event == NULL || captured(event) != cudaSuccess)
        return cusim_leave(event == NULL ? cudaErrorInvalidResourceHandle : cudaErrorCapturedEvent);
    int device = event->device;
    if (event->record != NULL)
        cusim_wait_record(event->record, device);
    return cusim_leave(cusim.devices[device].error);
}

cudaError_t cudaEventElapsedTime(float *out_ms, cudaEvent_t from, cudaEvent_t to)
{
    CUSIM_ENTER(cudaEventElapsedTime);
    if (out_ms == NULL || from == NULL || to == NULL || from->record == NULL || to->record == NULL ||
        ((from->flags | to->flags) & cudaEventDisableTiming) != 0)
        return cusim_leave(cudaErrorInvalidResourceHandle);
    if (!from->record->done || !to->record->done)
        return cusim_leave(cudaErrorNotReady);
    *out_ms = (float)((to->record->seconds - from->record->seconds) * 1e3);
    return cusim_leave(cudaSuccess);
}
