/* Threads: workers claim (step, slot) items in order and fill shares in ordinary memory, a ring of `prefetch` of them;
 * the stager moves complete shares, in order of steps, to the pinned share of their parity when the copy stream has
 * freed it. Stager and workers meet under one mutex; stager and copy stream through the flags alone. */
#include "data/loader.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/tsan.h"
#include "data/slot.h"

enum { FREE = 0, FULL = 1 };

typedef struct ring_share {
    char *input, *targets;
    int64_t slots_done;
} ring_share;

struct lsi_loader {
    lsi_loader_options options;     /* slot points to our copy */
    int64_t *slot;
    size_t input_bytes, target_bytes;       /* of all slots of a step */
    ring_share *ring;               /* step s uses share s % prefetch; none without workers or slots */

    pthread_mutex_t mutex;
    pthread_cond_t may_claim;       /* a ring share was freed, or stop */
    pthread_cond_t may_move;        /* a ring share is complete, or stop */
    int64_t next_step, next_slot;   /* the next item to claim */
    int64_t next_move;              /* the next step to move; steps below have left the ring */
    bool stop;

    pthread_t *worker, stager;
    int n_workers;                  /* started */
    bool has_stager;
};

/* Reads slot `k` of this rank's in `step` to its place in a share. */
static ls_status fill_slot(const lsi_loader *loader, int64_t step, int64_t k, void *input, void *targets)
{
    const lsi_loader_options *o = &loader->options;
    int64_t first = step * o->global_batch + o->slot[k] * o->micro_batch;
    size_t input_bytes = lsi_slot_input_bytes(o->data), target_bytes = lsi_slot_target_bytes(o->data);

    for (int64_t j = 0; j < o->micro_batch; j++) {
        size_t at = (size_t)(k * o->micro_batch + j);

        LS_TRY(o->data->ops->read(o->data, lsi_sampler_index(&o->sampler, first + j),
                                  (char *)input + at * input_bytes, (char *)targets + at * target_bytes));
    }
    return LS_OK;
}

static ring_share *ring_of(const lsi_loader *loader, int64_t step)
{
    return &loader->ring[step % loader->options.prefetch];
}

static void stop(lsi_loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->stop = true;
    pthread_cond_broadcast(&loader->may_claim);
    pthread_cond_broadcast(&loader->may_move);
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- workers ------------------------------------------------------------------------------------------------- */

/* Waits for the next item; false: nothing more to do. */
static bool claim(lsi_loader *loader, int64_t *step, int64_t *slot)
{
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop && loader->next_step < loader->options.end_step &&
           loader->next_step >= loader->next_move + loader->options.prefetch) {
        pthread_cond_wait(&loader->may_claim, &loader->mutex);
    }
    bool claimed = !loader->stop && loader->next_step < loader->options.end_step;

    if (claimed) {
        *step = loader->next_step;
        *slot = loader->next_slot++;
        if (loader->next_slot == loader->options.n_slots) {
            loader->next_slot = 0;
            loader->next_step++;
        }
    }
    pthread_mutex_unlock(&loader->mutex);
    return claimed;
}

static void *worker_main(void *argument)
{
    lsi_loader *loader = argument;
    int64_t step, slot;

    while (claim(loader, &step, &slot)) {
        ring_share *share = ring_of(loader, step);
        ls_status status = fill_slot(loader, step, slot, share->input, share->targets);

        if (status != LS_OK) {
            loader->options.on_failure(loader->options.failure_argument, status);
            stop(loader);
            return NULL;
        }
        pthread_mutex_lock(&loader->mutex);
        if (++share->slots_done == loader->options.n_slots) {
            pthread_cond_signal(&loader->may_move);
        }
        pthread_mutex_unlock(&loader->mutex);
    }
    return NULL;
}

/* ---- stager -------------------------------------------------------------------------------------------------- */

static bool wait_complete(lsi_loader *loader, const ring_share *share)
{
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop && share->slots_done < loader->options.n_slots) {
        pthread_cond_wait(&loader->may_move, &loader->mutex);
    }
    bool complete = !loader->stop;

    pthread_mutex_unlock(&loader->mutex);
    return complete;
}

/* False when the device was aborted or the loader ends, which frees the shares to end this wait. */
static bool wait_free(lsi_loader *loader, ls_flag *full)
{
    ls_device *device = loader->options.device;
    ls_status status = device->backend->host_flag_wait(device, full, FREE, 0);

    pthread_mutex_lock(&loader->mutex);
    bool is_free = status == LS_OK && !loader->stop;

    pthread_mutex_unlock(&loader->mutex);
    return is_free;
}

static void free_ring_share(lsi_loader *loader, ring_share *share)
{
    pthread_mutex_lock(&loader->mutex);
    share->slots_done = 0;
    loader->next_move++;
    pthread_cond_broadcast(&loader->may_claim);
    pthread_mutex_unlock(&loader->mutex);
}

static void *stager_main(void *argument)
{
    lsi_loader *loader = argument;
    const lsi_loader_options *o = &loader->options;

    for (int64_t step = o->first_step; step < o->end_step; step++) {
        const lsi_share *pinned = &o->share[step % 2];
        ring_share *share = ring_of(loader, step);

        if (!wait_complete(loader, share) || !wait_free(loader, pinned->full)) {
            break;
        }
        lsi_tsan_writes(pinned->input, loader->input_bytes);
        lsi_tsan_writes(pinned->targets, loader->target_bytes);
        memcpy(pinned->input, share->input, loader->input_bytes);
        memcpy(pinned->targets, share->targets, loader->target_bytes);
        o->device->backend->host_flag_set(o->device, pinned->full, FULL);
        free_ring_share(loader, share);
    }
    return NULL;
}

/* ---- life cycle ---------------------------------------------------------------------------------------------- */

static ls_status make_ring(lsi_loader *loader)
{
    const lsi_loader_options *o = &loader->options;
    void *memory;

    LS_TRY(lsi_memory_alloc((size_t)o->prefetch * sizeof(ring_share), "loader", &memory));
    loader->ring = memory;
    for (int i = 0; i < o->prefetch; i++) {
        LS_TRY(lsi_memory_alloc(loader->input_bytes, "prefetched samples", &memory));
        loader->ring[i].input = memory;
        LS_TRY(lsi_memory_alloc(loader->target_bytes, "prefetched targets", &memory));
        loader->ring[i].targets = memory;
    }
    return LS_OK;
}

static ls_status start_threads(lsi_loader *loader)
{
    const lsi_loader_options *o = &loader->options;
    void *memory;

    LS_TRY(lsi_memory_alloc((size_t)o->workers * sizeof(pthread_t), "loader threads", &memory));
    loader->worker = memory;
    for (int i = 0; i < o->workers; i++) {
        LS_TRY(lsi_thread_start(&loader->worker[i], "ls-data", worker_main, loader));
        loader->n_workers++;
    }
    LS_TRY(lsi_thread_start(&loader->stager, "ls-stager", stager_main, loader));
    loader->has_stager = true;
    return LS_OK;
}

static ls_status set_up(lsi_loader *loader)
{
    lsi_loader_options *o = &loader->options;
    void *memory;

    LS_TRY(lsi_memory_alloc((size_t)o->n_slots * sizeof(int64_t), "loader", &memory));
    loader->slot = memory;
    if (o->n_slots > 0) {
        memcpy(loader->slot, o->slot, (size_t)o->n_slots * sizeof(int64_t));
    }
    o->slot = loader->slot;
    loader->input_bytes = (size_t)(o->n_slots * o->micro_batch) * lsi_slot_input_bytes(o->data);
    loader->target_bytes = (size_t)(o->n_slots * o->micro_batch) * lsi_slot_target_bytes(o->data);
    loader->next_step = loader->next_move = o->first_step;
    if (o->workers == 0 || o->n_slots == 0) {
        return LS_OK;
    }
    LS_TRY(make_ring(loader));
    return start_threads(loader);
}

ls_status lsi_loader_create(const lsi_loader_options *options, lsi_loader **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_loader), "loader", &memory));
    lsi_loader *loader = memory;

    loader->options = *options;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->may_claim, NULL);
    pthread_cond_init(&loader->may_move, NULL);
    ls_status status = set_up(loader);

    if (status != LS_OK) {
        lsi_loader_destroy(&loader);
        return status;
    }
    *out = loader;
    return LS_OK;
}

ls_status lsi_loader_fill(lsi_loader *loader, int64_t step)
{
    const lsi_loader_options *o = &loader->options;
    const lsi_share *pinned = &o->share[step % 2];

    if (o->n_slots == 0) {
        return LS_OK;
    }
    lsi_tsan_writes(pinned->input, loader->input_bytes);
    lsi_tsan_writes(pinned->targets, loader->target_bytes);
    for (int64_t k = 0; k < o->n_slots; k++) {
        LS_TRY(fill_slot(loader, step, k, pinned->input, pinned->targets));
    }
    o->device->backend->host_flag_set(o->device, pinned->full, FULL);
    return LS_OK;
}

void lsi_loader_destroy(lsi_loader **loader)
{
    lsi_loader *l = *loader;

    if (l == NULL) {
        return;
    }
    stop(l);
    if (l->has_stager) {
        /* Ends its wait for a share. */
        for (int parity = 0; parity < 2; parity++) {
            l->options.device->backend->host_flag_set(l->options.device, l->options.share[parity].full, FREE);
        }
        pthread_join(l->stager, NULL);
    }
    for (int i = 0; i < l->n_workers; i++) {
        pthread_join(l->worker[i], NULL);
    }
    for (int i = 0; l->ring != NULL && i < l->options.prefetch; i++) {
        lsi_memory_free(l->ring[i].input);
        lsi_memory_free(l->ring[i].targets);
    }
    lsi_memory_free(l->ring);
    lsi_memory_free(l->worker);
    lsi_memory_free(l->slot);
    pthread_cond_destroy(&l->may_claim);
    pthread_cond_destroy(&l->may_move);
    pthread_mutex_destroy(&l->mutex);
    lsi_memory_free(l);
    *loader = NULL;
}
