#include "backend/cpu/queue.h"

#include <string.h>

#include "base/memory.h"
#include "base/tsan.h"

/* About a thousand commands, which is more than a host thread gains by running ahead. */
enum { RING_BYTES = 256 * 1024, GRAIN = alignof(lsi_cpu_command) };

size_t lsi_cpu_command_room(size_t extra)
{
    return sizeof(lsi_cpu_command) + (extra + GRAIN - 1) / GRAIN * GRAIN;
}

void lsi_cpu_command_store(void *room, const lsi_cpu_command *command, const void *extra, size_t extra_bytes)
{
    lsi_cpu_command *stored = room;

    *stored = *command;
    stored->bytes = (uint32_t)lsi_cpu_command_room(extra_bytes);
    if (extra_bytes > 0) {
        memcpy(stored + 1, extra, extra_bytes);
    }
}

ls_status lsi_queue_open(lsi_queue *queue)
{
    void *ring = NULL;

    LS_TRY(lsi_memory_alloc(RING_BYTES, "queue of a stream", &ring));
    *queue = (lsi_queue){.ring = ring};
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->not_empty, NULL);
    pthread_cond_init(&queue->not_full, NULL);
    return LS_OK;
}

void lsi_queue_close(lsi_queue *queue)
{
    pthread_cond_destroy(&queue->not_full);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->mutex);
    lsi_memory_free(queue->ring);
}

void lsi_queue_give(lsi_queue *queue, const lsi_cpu_command *command, const void *extra, size_t extra_bytes)
{
    size_t need = lsi_cpu_command_room(extra_bytes);

    lsi_tsan_hide();
    pthread_mutex_lock(&queue->mutex);
    size_t to_end = RING_BYTES - queue->given % RING_BYTES;
    size_t skip = to_end < need ? to_end : 0;

    while (queue->given + skip + need - queue->taken > RING_BYTES) {
        queue->giver_sleeps = true;
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    }
    queue->giver_sleeps = false;
    if (skip > 0) {
        lsi_cpu_command *filler = (lsi_cpu_command *)(queue->ring + queue->given % RING_BYTES);

        filler->kind = LSI_CPU_COMMAND_SKIP;
        filler->bytes = (uint32_t)skip;
        queue->given += skip;
    }
    void *room = queue->ring + queue->given % RING_BYTES;
    lsi_cpu_command_store(room, command, extra, extra_bytes);
    lsi_tsan_show();
    lsi_tsan_release(room);
    lsi_tsan_hide();
    queue->given += need;
    if (queue->taker_sleeps) {
        pthread_cond_signal(&queue->not_empty);
    }
    pthread_mutex_unlock(&queue->mutex);
    lsi_tsan_show();
}

const lsi_cpu_command *lsi_queue_take(lsi_queue *queue)
{
    const lsi_cpu_command *command;

    lsi_tsan_hide();
    pthread_mutex_lock(&queue->mutex);
    queue->taken += queue->running;
    /* Half a ring at a time: waking the giver for every single command would cost more than the commands. */
    if (queue->giver_sleeps && queue->given - queue->taken <= RING_BYTES / 2) {
        pthread_cond_signal(&queue->not_full);
    }
    for (;;) {
        while (queue->given == queue->taken) {
            queue->taker_sleeps = true;
            pthread_cond_wait(&queue->not_empty, &queue->mutex);
        }
        queue->taker_sleeps = false;
        command = (const lsi_cpu_command *)(queue->ring + queue->taken % RING_BYTES);
        if (command->kind != LSI_CPU_COMMAND_SKIP) {
            break;
        }
        queue->taken += command->bytes;
    }
    queue->running = command->bytes;
    pthread_mutex_unlock(&queue->mutex);
    lsi_tsan_show();
    lsi_tsan_acquire((void *)command);
    return command;
}
