/* Events of the cuda backend. Which capture an event was recorded in is kept here, so that a wait across the edge of a
 * capture is refused with names before CUDA gives the whole capture up. */
#ifndef LSI_BACKEND_CUDA_EVENT_H
#define LSI_BACKEND_CUDA_EVENT_H

#include "backend/cuda/stream.h"

typedef struct lsi_cuda_event {
    ls_event head;
    cudaEvent_t cuda;
    bool recorded;          /* at all, since it was created */
    uint32_t capture;       /* number of the capture that recorded it last; 0: recorded outside */
    uint32_t record;        /* number of the record in that capture */
    lsi_cuda_queue *stream; /* where */
} lsi_cuda_event;

ls_status lsi_cuda_event_create(ls_device *device, ls_event **out);
void lsi_cuda_event_destroy(ls_event *event);
ls_status lsi_cuda_event_record(ls_event *event, ls_stream *stream);
ls_status lsi_cuda_event_wait(ls_stream *stream, ls_event *event);
ls_status lsi_cuda_event_sync(ls_event *event);

#endif
