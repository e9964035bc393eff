#include "backend/cuda/release.h"

#include <unistd.h>

#include "backend/cuda/stream.h"
#include "base/memory.h"
#include "base/thread.h"

enum { DWELL_MICROSECONDS = 200 }; /* how long a value stands: a waiting GPU looks far more often */

typedef struct awaited {
    ls_flag *flag;
    uint32_t value;
} awaited;

typedef struct lsi_cuda_release {
    awaited *awaited; /* under the device's mutex, as all of this */
    size_t n_awaited, next;
    bool started, ending;
    pthread_t thread;
} lsi_cuda_release;

/* Queries are not allowed on a stream that is being captured, and nothing runs there that could wait. */
static bool any_stream_has_work(const lsi_cuda_device *device)
{
    if (device->capture != NULL) {
        return false;
    }
    for (const lsi_cuda_queue *s = device->streams; s != NULL; s = s->next) {
        if (cudaStreamQuery(s->cuda) == cudaErrorNotReady) {
            (void)cudaGetLastError();
            return true;
        }
    }
    return false;
}

static void *release_main(void *argument)
{
    lsi_cuda_device *device = argument;
    lsi_cuda_release *r = device->release;
    bool ending = false;

    (void)lsi_cuda_device_enter(device);
    while (!ending) {
        pthread_mutex_lock(&device->mutex);
        if (r->n_awaited > 0 && any_stream_has_work(device)) {
            const awaited *a = &r->awaited[r->next++ % r->n_awaited];

            __atomic_store_n(&a->flag->word, a->value, __ATOMIC_RELEASE);
        }
        ending = r->ending;
        pthread_mutex_unlock(&device->mutex);
        usleep(DWELL_MICROSECONDS);
    }
    return NULL;
}

ls_status lsi_cuda_release_open(lsi_cuda_device *device)
{
    return lsi_memory_alloc(sizeof *device->release, "waits for flags", (void **)&device->release);
}

void lsi_cuda_release_close(lsi_cuda_device *device)
{
    lsi_cuda_release *r = device->release;

    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&device->mutex);
    r->ending = true;
    bool started = r->started;
    pthread_mutex_unlock(&device->mutex);
    if (started) {
        pthread_join(r->thread, NULL);
    }
    lsi_memory_free(r->awaited);
    lsi_memory_free(r);
    device->release = NULL;
}

ls_status lsi_cuda_release_note(lsi_cuda_device *device, ls_flag *flag, uint32_t value)
{
    lsi_cuda_release *r = device->release;
    ls_status status = LS_OK;
    size_t i = 0;

    pthread_mutex_lock(&device->mutex);
    while (i < r->n_awaited && (r->awaited[i].flag != flag || r->awaited[i].value != value)) {
        i++;
    }
    if (i == r->n_awaited) {
        void *list = r->awaited;

        status = lsi_memory_resize(&list, (i + 1) * sizeof *r->awaited, "waits for flags");
        if (status == LS_OK) {
            r->awaited = list;
            r->awaited[r->n_awaited++] = (awaited){flag, value};
        }
    }
    pthread_mutex_unlock(&device->mutex);
    return status;
}

void lsi_cuda_release_forget(lsi_cuda_device *device, const void *memory, size_t bytes)
{
    lsi_cuda_release *r = device->release;
    size_t kept = 0;

    pthread_mutex_lock(&device->mutex);
    for (size_t i = 0; i < r->n_awaited; i++) {
        uintptr_t at = (uintptr_t)r->awaited[i].flag;

        if (at < (uintptr_t)memory || at >= (uintptr_t)memory + bytes) {
            r->awaited[kept++] = r->awaited[i];
        }
    }
    r->n_awaited = kept;
    pthread_mutex_unlock(&device->mutex);
}

void lsi_cuda_release_start(lsi_cuda_device *device)
{
    lsi_cuda_release *r = device->release;

    pthread_mutex_lock(&device->mutex);
    if (!r->started && !r->ending) {
        /* Without the thread waits for flags stay as they are; the watchdog still ends the process. */
        r->started = lsi_thread_start(&r->thread, "release", release_main, device) == LS_OK;
    }
    pthread_mutex_unlock(&device->mutex);
}
