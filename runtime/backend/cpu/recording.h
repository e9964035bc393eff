/* Captured work: per stream a lane of commands, between streams edges that count launches and so need no reset. */
#ifndef LSI_BACKEND_CPU_RECORDING_H
#define LSI_BACKEND_CPU_RECORDING_H

#include "backend/cpu/queue.h"
#include "backend/cpu/stream.h"

typedef struct lsi_cpu_lane {
    struct lsi_cpu_recording *recording;
    lsi_cpu_stream *stream;
    unsigned char *commands;
    size_t used, room;          /* bytes */
    size_t last;                /* where the last command starts */
    struct lsi_cpu_lane *next;
} lsi_cpu_lane;

typedef struct lsi_cpu_edge {
    lsi_counter passed;         /* number of the last launch that has come past the record */
    bool awaited;               /* whether a captured stream waits for it */
} lsi_cpu_edge;

typedef struct lsi_cpu_recording {
    ls_recording head;
    uint32_t number;            /* of the capture, from 1 */
    uint32_t n_launches;
    lsi_cpu_lane *lanes;        /* the origin's first */
    lsi_cpu_edge *edges;
    size_t n_edges, edges_room; /* room in bytes */
    bool broken;                /* a call inside the capture failed */
} lsi_cpu_recording;

/* For calls while a capture is open. */
LS_MUST_USE ls_status lsi_cpu_recording_append(lsi_cpu_stream *stream, const lsi_cpu_command *command,
                                               const void *extra, size_t extra_bytes);
/* A record on the stream: its edge. */
LS_MUST_USE ls_status lsi_cpu_recording_mark(lsi_cpu_stream *stream, uint32_t *out_edge);
/* A wait for an edge, by which a stream joins the capture. */
LS_MUST_USE ls_status lsi_cpu_recording_join(lsi_cpu_stream *stream, uint32_t edge);
/* Makes the open capture worthless, because a call inside it failed, and passes the status on. */
ls_status lsi_cpu_recording_spoil(lsi_cpu_device *device, ls_status status);

ls_status lsi_cpu_recording_begin(ls_stream *origin);
ls_status lsi_cpu_recording_end(ls_stream *origin, ls_recording **out);
ls_status lsi_cpu_recording_replay(ls_recording *recording);
void lsi_cpu_recording_destroy(ls_recording *recording);

#endif
