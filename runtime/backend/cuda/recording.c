#include "backend/cuda/recording.h"

#include "backend/cuda/error.h"
#include "base/memory.h"

ls_recordable lsi_cuda_recording_possible(ls_device *device, const char **out_why)
{
    bool waits = ((const lsi_cuda_device *)device)->sync_each_op;

    *out_why = waits ? "device.sync_each_op = true waits after every op" : NULL;
    return waits ? LS_RECORD_NEVER : LS_RECORD_GLADLY;
}

uint32_t lsi_cuda_recording_mark(lsi_cuda_device *device)
{
    return ++device->capture->n_records;
}

ls_status lsi_cuda_recording_spoil(lsi_cuda_device *device, ls_status status)
{
    device->capture->broken = true;
    return status;
}

static void set_capture(lsi_cuda_device *device, lsi_cuda_recording *recording)
{
    pthread_mutex_lock(&device->mutex);
    device->capture = recording;
    pthread_mutex_unlock(&device->mutex);
}

/* Thread-local: what other threads do meanwhile (loader, writer of checkpoints, watchdog) is none of the capture's. */
ls_status lsi_cuda_recording_begin(ls_stream *origin)
{
    lsi_cuda_device *d = (lsi_cuda_device *)origin->device;
    lsi_cuda_queue *s = (lsi_cuda_queue *)origin;
    lsi_cuda_recording *recording;

    LS_REQUIRE(d->capture == NULL, LS_ERR_INTERNAL, "stream %s: a capture is already open", s->name);
    LS_TRY(lsi_cuda_device_enter_for(d, "cannot begin a capture"));
    LS_TRY(lsi_memory_alloc(sizeof *recording, "recording", (void **)&recording));
    recording->head.device = origin->device;
    recording->origin = s;
    set_capture(d, recording); /* from here on no other thread asks the streams how they are */
    cudaError_t error = cudaStreamBeginCapture(s->cuda, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) {
        set_capture(d, NULL);
        lsi_memory_free(recording);
        return LSI_CUDA_FAIL(error, d->ordinal, "cudaStreamBeginCapture", "cannot begin a capture on stream %s",
                             s->name);
    }
    s->capture = ++d->n_captures;
    s->end_record = 0;
    d->n_recordings++;
    return LS_OK;
}

/* Every stream but the origin began with a wait, or it would not be here, and must end with a record that is awaited.
 * Then one event on the origin covers all of a replay. */
static ls_status check_closed(const lsi_cuda_device *d, const lsi_cuda_recording *recording)
{
    LS_REQUIRE(!recording->broken, LS_ERR_INTERNAL, "the capture is not whole: a call inside it failed");
    for (const lsi_cuda_queue *s = d->streams; s != NULL; s = s->next) {
        LS_REQUIRE(s == recording->origin || s->capture != d->n_captures || (s->end_record != 0 && s->end_awaited),
                   LS_ERR_INTERNAL, "stream %s does not end the capture with a record that another stream waits for",
                   s->name);
    }
    return LS_OK;
}

static ls_status instantiate(lsi_cuda_recording *recording, cudaError_t ended, cudaGraph_t graph)
{
    int gpu = ((const lsi_cuda_device *)recording->head.device)->ordinal;

    if (ended != cudaSuccess) {
        return LSI_CUDA_FAIL(ended, gpu, "cudaStreamEndCapture", "cannot end the capture on stream %s",
                             recording->origin->name);
    }
    LSI_CUDA_TRY(gpu, cudaGraphInstantiateWithFlags(&recording->executable, graph, 0),
                 "cannot make an executable of the captured work");
    return LS_OK;
}

ls_status lsi_cuda_recording_end(ls_stream *origin, ls_recording **out)
{
    lsi_cuda_device *d = (lsi_cuda_device *)origin->device;
    lsi_cuda_queue *s = (lsi_cuda_queue *)origin;
    lsi_cuda_recording *recording = d->capture;
    cudaGraph_t graph = NULL;

    LS_REQUIRE(recording != NULL && recording->origin == s, LS_ERR_INTERNAL,
               "stream %s ends a capture that it did not begin", s->name);
    ls_status status = lsi_cuda_device_enter_for(d, "cannot end a capture");
    if (status == LS_OK) {
        status = check_closed(d, recording);
    }
    /* Also when it is worthless: this takes the streams out of the capture. */
    cudaError_t ended = cudaStreamEndCapture(s->cuda, &graph);
    set_capture(d, NULL);
    if (status == LS_OK) {
        status = instantiate(recording, ended, graph);
    }
    (void)cudaGetLastError();
    if (graph != NULL) {
        (void)cudaGraphDestroy(graph);
    }
    if (status != LS_OK) {
        lsi_cuda_recording_destroy(&recording->head);
        return status;
    }
    *out = &recording->head;
    return LS_OK;
}

ls_status lsi_cuda_recording_replay(ls_recording *recording)
{
    lsi_cuda_recording *r = (lsi_cuda_recording *)recording;
    lsi_cuda_device *d = (lsi_cuda_device *)recording->device;
    bool skip;

    if (d->capture != NULL) {
        return lsi_cuda_recording_spoil(d, LS_FAIL(LS_ERR_INTERNAL, "a replay inside a capture"));
    }
    LS_TRY(lsi_cuda_stream_begin(&r->origin->head, &skip));
    return skip ? LS_OK : LSI_CUDA_QUEUE(&r->origin->head, cudaGraphLaunch(r->executable, r->origin->cuda), "a replay");
}

void lsi_cuda_recording_destroy(ls_recording *recording)
{
    lsi_cuda_recording *r = (lsi_cuda_recording *)recording;

    if (r == NULL) {
        return;
    }
    lsi_cuda_device *d = (lsi_cuda_device *)recording->device;

    (void)lsi_cuda_device_enter(d);
    if (r->executable != NULL) {
        (void)cudaGraphExecDestroy(r->executable);
    }
    d->n_recordings--;
    lsi_memory_free(r);
}
