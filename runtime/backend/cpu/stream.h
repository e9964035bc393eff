/* Streams of the cpu backend: a thread that runs the commands of a queue in order. */
#ifndef LSI_BACKEND_CPU_STREAM_H
#define LSI_BACKEND_CPU_STREAM_H

#include "backend/cpu/device.h"
#include "backend/cpu/queue.h"

typedef struct lsi_cpu_stream {
    ls_stream head;
    char name[16];
    struct ls_cpu_run run;
    lsi_queue queue;
    pthread_t thread;
    lsi_counter synced;                 /* what stream_sync waits for */
    uint32_t n_syncs;                   /* its last value */
    struct lsi_cpu_lane *lane;          /* in the open capture; NULL: not part of it */
} lsi_cpu_stream;

/* Queues the command, or records it while a capture is open. */
LS_MUST_USE ls_status lsi_cpu_stream_submit(ls_stream *stream, const lsi_cpu_command *command, const void *extra,
                                            size_t extra_bytes);

ls_status lsi_cpu_stream_create(ls_device *device, const char *name, int priority, ls_stream **out);
void lsi_cpu_stream_destroy(ls_stream *stream);
ls_status lsi_cpu_stream_sync(ls_stream *stream);

#endif
