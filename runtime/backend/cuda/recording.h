/* Captured work: a CUDA graph, made by capturing the streams in the calling thread. */
#ifndef LSI_BACKEND_CUDA_RECORDING_H
#define LSI_BACKEND_CUDA_RECORDING_H

#include "backend/cuda/stream.h"

typedef struct lsi_cuda_recording {
    ls_recording head;
    lsi_cuda_queue *origin;
    cudaGraphExec_t executable;
    uint32_t n_records; /* of events, so far */
    bool broken;        /* a call inside the capture failed */
} lsi_cuda_recording;

/* For calls while a capture is open. The number of a record, from 1. */
uint32_t lsi_cuda_recording_mark(lsi_cuda_device *device);
/* Makes the open capture worthless, because a call inside it failed, and passes the status on. */
ls_status lsi_cuda_recording_spoil(lsi_cuda_device *device, ls_status status);

/* What a driver cannot capture it tells when it is asked to; a device that waits for every op would find none. */
ls_recordable lsi_cuda_recording_possible(ls_device *device, const char **out_why);
ls_status lsi_cuda_recording_begin(ls_stream *origin);
ls_status lsi_cuda_recording_end(ls_stream *origin, ls_recording **out);
ls_status lsi_cuda_recording_replay(ls_recording *recording);
void lsi_cuda_recording_destroy(ls_recording *recording);

#endif
