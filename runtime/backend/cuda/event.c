#include "backend/cuda/event.h"

#include "backend/cuda/error.h"
#include "backend/cuda/recording.h"
#include "base/memory.h"

/* Without times, which stamps give; and the host sleeps while it waits, for the loader's threads want its core. */
ls_status lsi_cuda_event_create(ls_device *device, ls_event **out)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;
    lsi_cuda_event *e;

    LS_TRY(lsi_cuda_device_enter_for(d, "cannot make an event"));
    LS_TRY(lsi_memory_alloc(sizeof *e, "event", (void **)&e));
    e->head.device = device;
    cudaError_t error = cudaEventCreateWithFlags(&e->cuda, cudaEventDisableTiming | cudaEventBlockingSync);
    if (error != cudaSuccess) {
        lsi_memory_free(e);
        return LSI_CUDA_FAIL(error, d->ordinal, "cudaEventCreateWithFlags", "cannot make an event");
    }
    d->n_events++;
    *out = &e->head;
    return LS_OK;
}

/* CUDA keeps what queued work still needs of it. */
void lsi_cuda_event_destroy(ls_event *event)
{
    lsi_cuda_event *e = (lsi_cuda_event *)event;

    if (e == NULL) {
        return;
    }
    lsi_cuda_device *d = (lsi_cuda_device *)event->device;

    (void)lsi_cuda_device_enter(d);
    (void)cudaEventDestroy(e->cuda);
    d->n_events--;
    lsi_memory_free(e);
}

ls_status lsi_cuda_event_record(ls_event *event, ls_stream *stream)
{
    lsi_cuda_event *e = (lsi_cuda_event *)event;
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;
    lsi_cuda_device *d = (lsi_cuda_device *)event->device;

    LS_TRY(lsi_cuda_stream_begin(stream, NULL));
    LS_TRY(LSI_CUDA_QUEUE(stream, cudaEventRecord(e->cuda, s->cuda), "the record of an event"));
    e->recorded = true;
    e->capture = 0;
    if (d->capture != NULL) {
        e->capture = d->n_captures;
        e->record = s->end_record = lsi_cuda_recording_mark(d);
        e->stream = s;
    }
    return LS_OK;
}

/* By this wait a stream joins the capture, if it has not yet. */
static ls_status wait_inside(lsi_cuda_queue *s, lsi_cuda_event *e, lsi_cuda_device *d)
{
    if (!e->recorded || e->capture != d->n_captures) {
        return lsi_cuda_recording_spoil(
            d, LS_FAIL(LS_ERR_INTERNAL, "stream %s waits inside a capture for an event recorded outside", s->name));
    }
    s->capture = d->n_captures;
    LS_TRY(lsi_cuda_stream_begin(&s->head, NULL));
    if (e->stream->end_record == e->record && e->stream->capture == d->n_captures) {
        e->stream->end_awaited = true;
    }
    return LSI_CUDA_QUEUE(&s->head, cudaStreamWaitEvent(s->cuda, e->cuda, 0), "the wait for an event");
}

ls_status lsi_cuda_event_wait(ls_stream *stream, ls_event *event)
{
    lsi_cuda_event *e = (lsi_cuda_event *)event;
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;
    lsi_cuda_device *d = (lsi_cuda_device *)event->device;

    if (d->capture != NULL) {
        return wait_inside(s, e, d);
    }
    LS_REQUIRE(e->capture == 0, LS_ERR_INTERNAL,
               "stream %s waits for an event recorded inside a capture; wait for one recorded on the origin stream "
               "after the replay",
               s->name);
    if (!e->recorded) {
        return LS_OK;
    }
    LS_TRY(lsi_cuda_stream_begin(stream, NULL));
    return LSI_CUDA_QUEUE(stream, cudaStreamWaitEvent(s->cuda, e->cuda, 0), "the wait for an event");
}

ls_status lsi_cuda_event_sync(ls_event *event)
{
    lsi_cuda_event *e = (lsi_cuda_event *)event;
    lsi_cuda_device *d = (lsi_cuda_device *)event->device;

    LS_TRY(lsi_cuda_device_enter_for(d, "cannot wait for an event"));
    if (d->capture != NULL) {
        return lsi_cuda_recording_spoil(d, LS_FAIL(LS_ERR_INTERNAL, "the host waits for an event inside a capture"));
    }
    LS_REQUIRE(e->capture == 0, LS_ERR_INTERNAL,
               "the host waits for an event recorded inside a capture; wait for one recorded on the origin stream "
               "after the replay");
    if (e->recorded) {
        cudaError_t error = cudaEventSynchronize(e->cuda);

        if (error != cudaSuccess) {
            lsi_cuda_device_fail_wait(d, error, "cudaEventSynchronize");
        }
    }
    return lsi_cuda_device_check(d);
}
