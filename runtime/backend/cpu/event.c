#include "backend/cpu/event.h"

#include "backend/cpu/recording.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/word.h"
#include "base/memory.h"

/* Destroyed events are kept for the next create and freed with the device: work that is still queued may set or await
 * them, and since the counters go on from life to life it does no harm. */
ls_status lsi_cpu_event_create(ls_device *device, ls_event **out)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;
    lsi_cpu_event *event = d->free_events;

    if (event != NULL) {
        d->free_events = event->next_free;
        event->recorded = false;
        event->capture = 0;
    } else {
        void *memory = NULL;

        LS_TRY(lsi_memory_alloc(sizeof(lsi_cpu_event), "event", &memory));
        event = memory;
        event->head.device = device;
    }
    d->n_events++;
    *out = &event->head;
    return LS_OK;
}

void lsi_cpu_event_destroy(ls_event *event)
{
    if (event == NULL) {
        return;
    }
    lsi_cpu_event *e = (lsi_cpu_event *)event;
    lsi_cpu_device *d = (lsi_cpu_device *)event->device;

    e->next_free = d->free_events;
    d->free_events = e;
    d->n_events--;
}

void lsi_cpu_event_free_all(lsi_cpu_device *device)
{
    while (device->free_events != NULL) {
        lsi_cpu_event *event = device->free_events;

        device->free_events = event->next_free;
        lsi_memory_free(event);
    }
}

ls_status lsi_cpu_event_record(ls_event *event, ls_stream *stream)
{
    lsi_cpu_event *e = (lsi_cpu_event *)event;
    lsi_cpu_device *d = (lsi_cpu_device *)event->device;

    if (d->capture != NULL) {
        LS_TRY(lsi_cpu_recording_mark((lsi_cpu_stream *)stream, &e->edge));
        e->capture = d->capture->number;
    } else {
        lsi_cpu_command set = {.kind = LSI_CPU_COMMAND_COUNTER_SET, .value = e->queued + 1, .of.counter = &e->done};

        LS_TRY(lsi_cpu_stream_submit(stream, &set, NULL, 0));
        e->queued++;
        e->capture = 0;
    }
    e->recorded = true;
    return LS_OK;
}

ls_status lsi_cpu_event_wait(ls_stream *stream, ls_event *event)
{
    lsi_cpu_event *e = (lsi_cpu_event *)event;
    lsi_cpu_stream *s = (lsi_cpu_stream *)stream;
    lsi_cpu_device *d = (lsi_cpu_device *)event->device;
    lsi_cpu_command wait = {.kind = LSI_CPU_COMMAND_COUNTER_WAIT, .value = e->queued, .of.counter = &e->done};

    if (d->capture != NULL) {
        if (!e->recorded || e->capture != d->capture->number) {
            return lsi_cpu_recording_spoil(
                d, LS_FAIL(LS_ERR_INTERNAL, "stream %s waits inside a capture for an event recorded outside", s->name));
        }
        return lsi_cpu_recording_join(s, e->edge);
    }
    LS_REQUIRE(e->capture == 0, LS_ERR_INTERNAL,
               "stream %s waits for an event recorded inside a capture; wait for one recorded on the origin stream "
               "after the replay",
               s->name);
    return e->recorded ? lsi_cpu_stream_submit(stream, &wait, NULL, 0) : LS_OK;
}

ls_status lsi_cpu_event_sync(ls_event *event)
{
    lsi_cpu_event *e = (lsi_cpu_event *)event;
    lsi_cpu_device *d = (lsi_cpu_device *)event->device;

    if (d->capture != NULL) {
        return lsi_cpu_recording_spoil(d, LS_FAIL(LS_ERR_INTERNAL, "the host waits for an event inside a capture"));
    }
    LS_REQUIRE(e->capture == 0, LS_ERR_INTERNAL,
               "the host waits for an event recorded inside a capture; wait for one recorded on the origin stream "
               "after the replay");
    if (e->recorded) {
        lsi_counter_wait(&e->done, e->queued);
    }
    return lsi_cpu_device_check(d);
}
