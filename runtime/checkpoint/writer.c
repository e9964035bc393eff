#include "checkpoint/writer.h"

#include <pthread.h>

#include "base/failure.h"
#include "base/memory.h"
#include "base/thread.h"

struct lsi_writer {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    ls_status (*job)(void *argument); /* NULL: nothing to do */
    void *argument;
    bool has_failure, closing;
    lsi_failure failure;
};

static void *work(void *argument)
{
    lsi_writer *w = argument;

    pthread_mutex_lock(&w->mutex);
    while (!w->closing || w->job != NULL) {
        if (w->job == NULL) {
            pthread_cond_wait(&w->changed, &w->mutex);
            continue;
        }
        pthread_mutex_unlock(&w->mutex);
        ls_status status = w->job(w->argument);
        pthread_mutex_lock(&w->mutex);
        w->has_failure = status != LS_OK;
        if (w->has_failure) {
            lsi_failure_take(&w->failure);
        }
        w->job = NULL;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

ls_status lsi_writer_start(lsi_writer **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_writer), "checkpoint writer", &memory));
    lsi_writer *writer = memory;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    ls_status status = lsi_thread_start(&writer->thread, "checkpoint", work, writer);
    if (status != LS_OK) {
        lsi_memory_free(writer);
        return status;
    }
    *out = writer;
    return LS_OK;
}

void lsi_writer_stop(lsi_writer **writer)
{
    lsi_writer *w = *writer;

    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->mutex);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    lsi_memory_free(w);
    *writer = NULL;
}

void lsi_writer_begin(lsi_writer *writer, ls_status (*job)(void *argument), void *argument)
{
    pthread_mutex_lock(&writer->mutex);
    writer->job = job;
    writer->argument = argument;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
}

bool lsi_writer_is_busy(lsi_writer *writer)
{
    pthread_mutex_lock(&writer->mutex);
    bool busy = writer->job != NULL;
    pthread_mutex_unlock(&writer->mutex);
    return busy;
}

ls_status lsi_writer_finish(lsi_writer *writer)
{
    pthread_mutex_lock(&writer->mutex);
    while (writer->job != NULL) {
        pthread_cond_wait(&writer->changed, &writer->mutex);
    }
    bool failed = writer->has_failure;
    writer->has_failure = false;
    pthread_mutex_unlock(&writer->mutex);
    return failed ? lsi_failure_adopt(&writer->failure) : LS_OK;
}
