/* Events of the cpu backend: a counter of records that have run, held against the number of those queued. */
#ifndef LSI_BACKEND_CPU_EVENT_H
#define LSI_BACKEND_CPU_EVENT_H

#include "backend/cpu/device.h"
#include "backend/cpu/word.h"

typedef struct lsi_cpu_event {
    ls_event head;
    lsi_counter done;           /* number of the last record that ran */
    uint32_t queued;            /* number of the last record queued outside captures */
    bool recorded;              /* at all, since it was created */
    uint32_t capture;           /* number of the capture that recorded it last; 0: recorded outside */
    uint32_t edge;              /* which edge of that recording it is */
    struct lsi_cpu_event *next_free;
} lsi_cpu_event;

ls_status lsi_cpu_event_create(ls_device *device, ls_event **out);
void lsi_cpu_event_destroy(ls_event *event);
void lsi_cpu_event_free_all(lsi_cpu_device *device);
ls_status lsi_cpu_event_record(ls_event *event, ls_stream *stream);
ls_status lsi_cpu_event_wait(ls_stream *stream, ls_event *event);
ls_status lsi_cpu_event_sync(ls_event *event);

#endif
