/* Streams, events and memory of a trainer: made and released by the same lists. */
#include <string.h>

#include "base/memory.h"
#include "train/precision.h"
#include "train/trainer.h"

float *lsi_trainer_gradient(const ls_trainer *trainer, int buffer)
{
    return trainer->gradient[buffer].data;
}

float *lsi_trainer_total(const ls_trainer *trainer)
{
    return lsi_trainer_gradient(trainer, trainer->lanes.root[0].buffer);
}

/* ---- streams and events -------------------------------------------------------------------------------------- */

enum { N_STREAMS = 4, N_EVENTS = 10 };

static const struct {
    const char *name;
    int priority;
} stream_kinds[N_STREAMS] = {{"compute", 0}, {"copy", 0}, {"comm", 1}, {"snapshot", 0}};

int lsi_trainer_n_streams(const lsi_sizes *sizes)
{
    return N_STREAMS - !sizes->snapshots;
}

static void list_streams(ls_trainer *t, ls_stream **out[N_STREAMS])
{
    ls_stream **streams[N_STREAMS] = {&t->compute, &t->copy, &t->comm_stream, &t->snapshot_stream};

    memcpy(out, streams, sizeof streams);
}

static void list_events(ls_trainer *t, ls_event **out[N_EVENTS])
{
    ls_event **events[N_EVENTS] = {&t->fork,  &t->copied[0], &t->copied[1],    &t->used[0],     &t->used[1],
                                   &t->ready, &t->exchanged, &t->committed[0], &t->committed[1], &t->snapshot_taken};

    memcpy(out, events, sizeof events);
}

static ls_status make_streams(ls_trainer *t)
{
    const ls_backend *b = t->backend;
    ls_stream **streams[N_STREAMS];
    ls_event **events[N_EVENTS];

    list_streams(t, streams);
    list_events(t, events);
    for (int i = 0; i < lsi_trainer_n_streams(&t->sizes); i++) {
        LS_TRY(lsi_buffer_stream_create(t->device, &t->rt->account, stream_kinds[i].name, stream_kinds[i].priority,
                                        streams[i]));
    }
    for (int i = 0; i < N_EVENTS; i++) {
        LS_TRY(b->event_create(t->device, events[i]));
    }
    for (int i = 0; i < t->sizes.n_buckets; i++) {
        LS_TRY(b->event_create(t->device, &t->bucket[i].gathered));
    }
    return LS_OK;
}

static void release_streams(ls_trainer *t)
{
    const ls_backend *b = t->backend;
    ls_stream **streams[N_STREAMS];
    ls_event **events[N_EVENTS];

    list_streams(t, streams);
    list_events(t, events);
    for (int i = 0; i < N_STREAMS; i++) {
        lsi_buffer_stream_destroy(&t->rt->account, *streams[i]);
    }
    for (int i = 0; i < N_EVENTS; i++) {
        if (*events[i] != NULL) {
            b->event_destroy(*events[i]);
        }
    }
    for (int i = 0; t->bucket != NULL && i < t->sizes.n_buckets; i++) {
        if (t->bucket[i].gathered != NULL) {
            b->event_destroy(t->bucket[i].gathered);
        }
    }
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static lsi_buffer *buffer_of(ls_trainer *t, const lsi_memory_part *part)
{
    return (lsi_buffer *)(void *)((char *)t + part->buffer_at);
}

static ls_status alloc_part(ls_trainer *t, const lsi_memory_part *part)
{
    lsi_buffer *buffer = buffer_of(t, part);

    if (!part->from_transport) {
        return lsi_buffer_alloc(t->device, &t->rt->account, part->kind, part->c, part->bytes, buffer);
    }
    ls_status status = t->rt->comm->transport->alloc(t->rt->comm, part->bytes, &buffer->data);
    if (status == LS_ERR_MEMORY) {
        return lsi_buffer_refused(t->device, &t->rt->account, part->c, part->bytes);
    }
    LS_TRY(status);
    buffer->bytes = part->bytes;
    lsi_memory_account_add(&t->rt->account, part->c, part->bytes);
    return LS_OK;
}

static void release_part(ls_trainer *t, const lsi_memory_part *part)
{
    lsi_buffer *buffer = buffer_of(t, part);

    if (!part->from_transport) {
        lsi_buffer_release(t->device, &t->rt->account, buffer);
    } else if (buffer->data != NULL) {
        t->rt->comm->transport->release(t->rt->comm, part->bytes, buffer->data);
        lsi_memory_account_remove(&t->rt->account, part->c, part->bytes);
        *buffer = (lsi_buffer){0};
    }
}

/* ---- initial contents ---------------------------------------------------------------------------------------- */

/* This rank's chunks, ascending: buckets run from the end of the index to its beginning. */
static void list_runs(ls_trainer *t)
{
    float *masters = t->sizes.mixed ? t->masters.data : t->layer_weights.data;
    bool compact = t->sizes.sharded;

    t->n_runs = 0;
    for (int i = t->sizes.n_buckets - 1; i >= 0; i--) {
        const lsi_bucket *bucket = &t->bucket[i];
        int64_t at = compact ? bucket->held_at : bucket->owned_first;
        lsi_state_run *run = &t->run[t->n_runs];

        if (bucket->owned_count == 0) {
            continue;
        }
        *run = (lsi_state_run){.first = bucket->owned_first, .count = bucket->owned_count};
        run->array[LSI_STATE_WEIGHTS] = masters + (t->sizes.mixed ? at : bucket->owned_first);
        for (int m = 0; m < t->sizes.moments; m++) {
            run->array[LSI_STATE_MOMENT_0 + m] = (float *)t->moment[m].data + at;
        }
        t->n_runs++;
    }
    if (!compact) {
        t->everything = (lsi_state_run){
            .count = t->sizes.n_elements,
            .array = {masters, t->moment[0].data, t->moment[1].data},
        };
    }
}

static ls_status init_indices(ls_trainer *t)
{
    int32_t *host;

    LS_TRY(lsi_memory_alloc(t->sizes.index_bytes, "exchange indices", (void **)&host));
    ls_status status = lsi_exchange_index(&t->exchange, &t->rt->geometry, t->rt->comm, t->sizes.n_elements,
                                          t->rt->config->comm.bucket_bytes, host, host + t->exchange.n_blocks);
    if (status == LS_OK) {
        status = t->backend->copy(t->compute, t->indices.data, host, t->sizes.index_bytes);
    }
    if (status == LS_OK) {
        status = t->backend->stream_sync(t->compute);
    }
    lsi_memory_free(host);
    return status;
}

static ls_status init_state(ls_trainer *t)
{
    ls_step_state state = {
        .beta1_power = 1,
        .beta2_power = 1,
        .unscale = 1,
        .clip_factor = 1,
        .loss_scale = (float)lsi_precision_scaling(t->rt->config).initial,
        .hysteresis_left = t->rt->config->loss_scale.hysteresis,
    };

    t->last.state = state;
    LS_TRY(t->backend->copy(t->compute, t->state.data, &state, sizeof state));
    return t->backend->stream_sync(t->compute);
}

static ls_status init_contents(ls_trainer *t)
{
    t->control = t->control_memory.data;
    memset(t->control, 0, sizeof *t->control);
    list_runs(t);
    LS_TRY(lsi_trainer_init_weights(t));
    LS_TRY(init_state(t));
    LS_TRY(init_indices(t));
    /* Gaps between parameters are never written: their gradients must be zero from the start. */
    for (int i = 0; i < t->lanes.n_buffers; i++) {
        LS_TRY(t->backend->fill(t->compute, t->gradient[i].data, 0, t->gradient[i].bytes));
    }
    LS_TRY(t->backend->fill(t->compute, t->exchange_mine.data, 0, t->exchange_mine.bytes));
    return t->backend->stream_sync(t->compute);
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

ls_status lsi_trainer_allocate(ls_trainer *trainer)
{
    lsi_memory_part part[LSI_MEMORY_MAX_PARTS];
    int n = lsi_memory_parts(&trainer->sizes, part);

    LS_TRY(make_streams(trainer));
    for (int i = 0; i < n; i++) {
        LS_TRY(alloc_part(trainer, &part[i]));
    }
    return init_contents(trainer);
}

void lsi_trainer_held_bytes(const ls_trainer *trainer, size_t out[LSI_MEMORY_SIDE_COUNT])
{
    lsi_memory_part part[LSI_MEMORY_MAX_PARTS];
    int n = lsi_memory_parts(&trainer->sizes, part);
    bool one_pool = trainer->backend->host_memory;

    memset(out, 0, LSI_MEMORY_SIDE_COUNT * sizeof *out);
    for (int i = 0; i < n; i++) {
        const lsi_buffer *buffer = buffer_of((ls_trainer *)(uintptr_t)trainer, &part[i]);
        bool pinned = !one_pool && !part[i].from_transport && part[i].kind == LS_MEM_PINNED;

        out[pinned ? LSI_MEMORY_SIDE_HOST : LSI_MEMORY_SIDE_DEVICE] += buffer->data != NULL ? part[i].bytes : 0;
    }
    out[LSI_MEMORY_SIDE_DEVICE] += trainer->rt->account.live[LSI_MEMORY_SCRATCH];
}

void lsi_trainer_release(ls_trainer *trainer)
{
    lsi_memory_part part[LSI_MEMORY_MAX_PARTS];
    int n = lsi_memory_parts(&trainer->sizes, part);

    release_streams(trainer);
    for (int i = 0; i < n; i++) {
        release_part(trainer, &part[i]);
    }
}
