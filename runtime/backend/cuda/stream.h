/* Streams of the cuda backend, and what every call that queues work on one has in common. */
#ifndef LSI_BACKEND_CUDA_STREAM_H
#define LSI_BACKEND_CUDA_STREAM_H

#include "backend/cuda/device.h"

typedef struct lsi_cuda_queue {
    ls_stream head;
    char name[16];
    cudaStream_t cuda;
    void *workspace;
    const ls_op *last_op; /* launched or captured last: for messages */
    uint32_t capture;     /* number of the capture it has joined last */
    uint32_t end_record;  /* in the open capture: number of the record that is its last command, else 0 */
    bool end_awaited;     /* and whether another captured stream waits for that record */
    struct lsi_cuda_queue *next;
} lsi_cuda_queue;

ls_status lsi_cuda_stream_create(ls_device *device, const char *name, int priority, ls_stream **out);
void lsi_cuda_stream_destroy(ls_stream *stream);
ls_status lsi_cuda_stream_sync(ls_stream *stream);

ls_status lsi_cuda_stream_copy(ls_stream *stream, void *destination, const void *source, size_t bytes);
ls_status lsi_cuda_stream_fill(ls_stream *stream, void *destination, int byte, size_t bytes);
ls_status lsi_cuda_stream_launch(ls_stream *stream, const ls_op *op, const void *arguments);

/* Before a call that queues work: enters the device and refuses a stream that is not part of the open capture. Of work
 * that a failure or an abort skips, *out_skip is true: there is nothing to do, and the call succeeds. NULL: of work
 * that others wait for, which is never skipped. */
LS_MUST_USE ls_status lsi_cuda_stream_begin(ls_stream *stream, bool *out_skip);
/* After it, with what `call` of CUDA gave. Outside of captures an error is kept for the next wait, as all that goes
 * wrong with queued work; inside it makes the capture worthless and is returned. */
LS_MUST_USE ls_status lsi_cuda_stream_end(ls_stream *stream, cudaError_t error, const char *call, const char *what);
#define LSI_CUDA_QUEUE(stream, expression, what) lsi_cuda_stream_end((stream), (expression), #expression, (what))

#endif
