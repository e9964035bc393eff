/* How a device stops: by work that failed, a helper's failure, or an abort. */
#include "backend/cuda/device.h"

#include <stdio.h>

#include "backend/cuda/error.h"
#include "backend/cuda/release.h"
#include "backend/cuda/stream.h"

bool lsi_cuda_device_stopped(const lsi_cuda_device *device)
{
    return __atomic_load_n(&device->stopped, __ATOMIC_RELAXED) != 0;
}

void lsi_cuda_device_abort(ls_device *device)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    __atomic_fetch_or(&d->stopped, LSI_CUDA_ABORTED, __ATOMIC_RELAXED);
    lsi_cuda_release_start(d);
}

void lsi_cuda_device_fail(ls_device *device, ls_status status, const char *message)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    pthread_mutex_lock(&d->mutex);
    if (d->failure.status == LS_OK) {
        d->failure.status = status;
        d->failure.file = __FILE__;
        d->failure.line = __LINE__;
        snprintf(d->failure.message, sizeof d->failure.message, "%s", message);
    }
    pthread_mutex_unlock(&d->mutex);
    __atomic_fetch_or(&d->stopped, LSI_CUDA_FAILED, __ATOMIC_RELAXED);
    lsi_cuda_release_start(d);
}

/* CUDA tells of a kernel's failure at some later call and not which one it was. */
void lsi_cuda_device_fail_wait(lsi_cuda_device *device, cudaError_t error, const char *call)
{
    char ops[256] = "";
    size_t used = 0;

    pthread_mutex_lock(&device->mutex);
    for (const lsi_cuda_queue *s = device->streams; s != NULL && used < sizeof ops; s = s->next) {
        const ls_op *op = __atomic_load_n(&s->last_op, __ATOMIC_RELAXED);

        if (op != NULL) {
            used += (size_t)snprintf(ops + used, sizeof ops - used, "%sop %s on stream %s", used > 0 ? ", " : "",
                                     op->name, s->name);
        }
    }
    pthread_mutex_unlock(&device->mutex);
    ls_status status =
        LSI_CUDA_FAIL(error, device->ordinal, call, "%s%s%s", used > 0 ? "in or before " : "before any op", ops,
                      device->sync_each_op ? "" : " (device.sync_each_op = true finds the exact op)");
    lsi_cuda_device_fail(&device->head, status, ls_failure_message());
}

/* What broke down on a stream; streams must not be asked during a capture. */
static cudaError_t find_broken(lsi_cuda_device *device)
{
    cudaError_t error = cudaSuccess;

    pthread_mutex_lock(&device->mutex);
    for (const lsi_cuda_queue *s = device->capture == NULL ? device->streams : NULL; s != NULL && error == cudaSuccess;
         s = s->next) {
        error = cudaStreamQuery(s->cuda);
        error = error == cudaErrorNotReady ? cudaSuccess : error;
    }
    pthread_mutex_unlock(&device->mutex);
    (void)cudaGetLastError();
    return error;
}

/* After work has broken down every call fails alike, and the one that is told of it is not to blame. */
void lsi_cuda_device_fail_queue(lsi_cuda_device *device, ls_status status)
{
    lsi_failure failure;

    lsi_failure_take(&failure);
    cudaError_t error = find_broken(device);
    if (error != cudaSuccess) {
        lsi_cuda_device_fail_wait(device, error, "cudaStreamQuery");
    } else {
        lsi_cuda_device_fail(&device->head, status,
                             failure.status == status ? failure.message : ls_status_text(status));
    }
}

ls_status lsi_cuda_device_check(lsi_cuda_device *device)
{
    lsi_failure failure;

    if (!lsi_cuda_device_stopped(device)) {
        ls_status status = lsi_cuda_fault_take(device->fault);

        if (status != LS_OK) {
            lsi_cuda_device_fail(&device->head, status, ls_failure_message());
        }
    }
    if (!lsi_cuda_device_stopped(device)) {
        return LS_OK;
    }
    pthread_mutex_lock(&device->mutex);
    failure = device->failure;
    pthread_mutex_unlock(&device->mutex);
    return failure.status != LS_OK ? lsi_failure_adopt(&failure) : LS_FAIL(LS_ERR_INTERNAL, "the device was aborted");
}
