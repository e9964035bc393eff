#include "backend/cuda/stream.h"

#include <stdio.h>

#include "backend/cuda/error.h"
#include "backend/cuda/recording.h"
#include "base/memory.h"

/* ---- creating, destroying, waiting -------------------------------------------------------------------------- */

cudaStream_t ls_cuda_stream(ls_stream *stream)
{
    return ((lsi_cuda_queue *)stream)->cuda;
}

/* CUDA numbers priorities downwards, from the least at 0. */
static ls_status make_stream(lsi_cuda_queue *s, int gpu, int priority)
{
    int least = 0, greatest = 0;

    LSI_CUDA_TRY(gpu, cudaDeviceGetStreamPriorityRange(&least, &greatest), "cannot make stream %s", s->name);
    priority = -priority < greatest ? greatest : -priority > least ? least : -priority;
    LSI_CUDA_TRY(gpu, cudaStreamCreateWithPriority(&s->cuda, cudaStreamNonBlocking, priority), "cannot make stream %s",
                 s->name);
    return LS_OK;
}

ls_status lsi_cuda_stream_create(ls_device *device, const char *name, int priority, ls_stream **out)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;
    lsi_cuda_queue *s;
    ls_status status;

    LS_TRY(lsi_cuda_device_enter_for(d, "cannot make a stream"));
    LS_TRY(lsi_memory_alloc(sizeof *s, "stream", (void **)&s));
    s->head.device = device;
    snprintf(s->name, sizeof s->name, "%s", name);
    LS_TRY_GOTO(status, no_workspace,
                lsi_cuda_memory_alloc(device, LS_MEM_DEVICE, LSI_CUDA_WORKSPACE_BYTES, &s->workspace));
    LS_TRY_GOTO(status, no_stream, make_stream(s, d->ordinal, priority));
    pthread_mutex_lock(&d->mutex);
    s->next = d->streams;
    d->streams = s;
    d->n_streams++;
    pthread_mutex_unlock(&d->mutex);
    *out = &s->head;
    return LS_OK;

no_stream:
    lsi_cuda_memory_release(device, LS_MEM_DEVICE, LSI_CUDA_WORKSPACE_BYTES, s->workspace);
no_workspace:
    lsi_memory_free(s);
    return status;
}

void lsi_cuda_stream_destroy(ls_stream *stream)
{
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;

    if (s == NULL) {
        return;
    }
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;

    (void)lsi_cuda_device_enter(d);
    cudaError_t error = cudaStreamSynchronize(s->cuda);
    if (error != cudaSuccess) {
        lsi_cuda_device_fail_wait(d, error, "cudaStreamSynchronize");
    }
    pthread_mutex_lock(&d->mutex);
    for (lsi_cuda_queue **at = &d->streams; *at != NULL; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    d->n_streams--;
    pthread_mutex_unlock(&d->mutex);
    (void)cudaStreamDestroy(s->cuda);
    lsi_cuda_memory_release(stream->device, LS_MEM_DEVICE, LSI_CUDA_WORKSPACE_BYTES, s->workspace);
    lsi_memory_free(s);
}

ls_status lsi_cuda_stream_sync(ls_stream *stream)
{
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;

    LS_TRY(lsi_cuda_device_enter_for(d, "cannot wait for a stream"));
    if (d->capture != NULL) {
        return lsi_cuda_recording_spoil(
            d, LS_FAIL(LS_ERR_INTERNAL, "the host waits for stream %s inside a capture", s->name));
    }
    cudaError_t error = cudaStreamSynchronize(s->cuda);
    if (error != cudaSuccess) {
        lsi_cuda_device_fail_wait(d, error, "cudaStreamSynchronize");
    }
    return lsi_cuda_device_check(d);
}

/* ---- queueing ------------------------------------------------------------------------------------------------- */

ls_status lsi_cuda_stream_begin(ls_stream *stream, bool *out_skip)
{
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;

    /* Outside of a capture the device has failed by that, as by all that goes wrong with queued work. */
    ls_status status = lsi_cuda_device_enter_for(d, "cannot queue work");
    if (d->capture != NULL) {
        LS_TRY(status);
        if (s->capture != d->n_captures) {
            return lsi_cuda_recording_spoil(
                d, LS_FAIL(LS_ERR_INTERNAL,
                           "work for stream %s while a capture is open that it is not part of: it joins by waiting "
                           "for an event recorded inside",
                           s->name));
        }
        s->end_record = 0;
        s->end_awaited = false;
    }
    if (out_skip != NULL) {
        *out_skip = d->capture == NULL && lsi_cuda_device_stopped(d);
    }
    return LS_OK;
}

ls_status lsi_cuda_stream_end(ls_stream *stream, cudaError_t error, const char *call, const char *what)
{
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;

    if (error == cudaSuccess) {
        return LS_OK;
    }
    const ls_op *op = __atomic_load_n(&s->last_op, __ATOMIC_RELAXED);
    ls_status status = LSI_CUDA_FAIL(error, d->ordinal, call, "%s on stream %s%s%s", what, s->name,
                                     op != NULL ? ", after op " : "", op != NULL ? op->name : "");
    if (d->capture != NULL) {
        return lsi_cuda_recording_spoil(d, status);
    }
    lsi_cuda_device_fail_queue(d, status);
    return LS_OK;
}

ls_status lsi_cuda_stream_copy(ls_stream *stream, void *destination, const void *source, size_t bytes)
{
    bool skip;

    LS_TRY(lsi_cuda_stream_begin(stream, &skip));
    if (skip || bytes == 0) {
        return LS_OK;
    }
    return LSI_CUDA_QUEUE(
        stream, cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, ((lsi_cuda_queue *)stream)->cuda),
        "a copy");
}

ls_status lsi_cuda_stream_fill(ls_stream *stream, void *destination, int byte, size_t bytes)
{
    bool skip;

    LS_TRY(lsi_cuda_stream_begin(stream, &skip));
    if (skip || bytes == 0) {
        return LS_OK;
    }
    return LSI_CUDA_QUEUE(stream, cudaMemsetAsync(destination, byte & 0xff, bytes, ((lsi_cuda_queue *)stream)->cuda),
                          "a fill");
}

/* What the op's function refuses is told where failed work is told, with the op's name. */
static ls_status launch_failed(ls_stream *stream, const ls_op *op, ls_status status)
{
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;
    lsi_failure cause;

    /* An op of a user may return a status without having said why. */
    lsi_failure_take(&cause);
    status = LS_FAIL(status, "GPU %d: op %s on stream %s: %s", d->ordinal, op->name, ((lsi_cuda_queue *)stream)->name,
                     cause.status == status ? cause.message : ls_status_text(status));
    if (d->capture != NULL) {
        return lsi_cuda_recording_spoil(d, status);
    }
    lsi_cuda_device_fail_queue(d, status);
    return LS_OK;
}

ls_status lsi_cuda_stream_launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    lsi_cuda_queue *s = (lsi_cuda_queue *)stream;
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;
    bool skip;

    LS_REQUIRE(op->cuda != NULL, LS_ERR_DEVICE, "op %s: no function for the cuda backend", op->name);
    LS_REQUIRE(op->arguments_bytes <= LS_OP_MAX_ARGUMENTS, LS_ERR_INTERNAL,
               "op %s: %zu bytes of arguments, at most %d are possible", op->name, op->arguments_bytes,
               LS_OP_MAX_ARGUMENTS);
    LS_TRY(lsi_cuda_stream_begin(stream, &skip));
    if (skip) {
        return LS_OK;
    }
    __atomic_store_n(&s->last_op, op, __ATOMIC_RELAXED);
    ls_status status = op->cuda(stream, arguments);
    if (status != LS_OK) {
        return launch_failed(stream, op, status);
    }
    if (d->sync_each_op && d->capture == NULL) {
        cudaError_t error = cudaStreamSynchronize(s->cuda);

        if (error != cudaSuccess) {
            status = LSI_CUDA_FAIL(error, d->ordinal, "cudaStreamSynchronize", "op %s on stream %s", op->name, s->name);
            lsi_cuda_device_fail(stream->device, status, ls_failure_message());
        }
    }
    return LS_OK;
}
