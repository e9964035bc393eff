#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "comm/registry.h"
#include "train/optimizer.h"
#include "train/schedule.h"

int64_t lsi_trainer_run_steps(const ls_config *config, int64_t n_samples)
{
    int64_t steps = config->train.steps;

    if (config->train.epochs > 0) {
        double samples = config->train.epochs * (double)n_samples;
        int64_t by_epochs = (int64_t)ceil(samples / (double)config->train.global_batch);

        steps = steps == 0 || by_epochs < steps ? by_epochs : steps;
    }
    return steps;
}

static double configured_schedule(void *argument, int64_t applied)
{
    const ls_trainer *t = argument;

    return lsi_schedule_rate(t->rt->config, t->end_step, applied);
}

/* ---- what is known without allocating -------------------------------------------------------------------------- */

static ls_status check_io(const ls_graph *graph, const ls_dataset *data)
{
    lsi_graph_io io;

    lsi_graph_get_io(graph, &io);
    LS_REQUIRE(io.input_dtype == data->input_dtype &&
                   ls_shape_count(&io.input_shape) == ls_shape_count(&data->input_shape),
               LS_ERR_CONFIG, "the model takes %lld %s inputs per sample, the data has %lld of %s",
               (long long)ls_shape_count(&io.input_shape), ls_dtype_name(io.input_dtype),
               (long long)ls_shape_count(&data->input_shape), ls_dtype_name(data->input_dtype));
    LS_REQUIRE(io.targets_count == data->target_count, LS_ERR_CONFIG,
               "the model takes %lld targets per sample, the data has %lld", (long long)io.targets_count,
               (long long)data->target_count);
    return LS_OK;
}

static ls_status compile(const ls_config *config, ls_graph *graph, ls_var loss, ls_mode mode, ls_plan **out)
{
    ls_compile_options options = {
        .struct_size = sizeof options,
        .mode = mode,
        .micro_batch = config->train.micro_batch,
        .loss = loss,
    };

    return ls_graph_compile(graph, &options, out);
}

/* Plans, lanes, exchange layout and sizes: everything that follows from configuration, graph and data. */
static ls_status lay_out(ls_trainer *t, ls_var loss, bool with_evaluation)
{
    const ls_config *config = t->rt->config;
    const lsi_geometry *geometry = &t->rt->geometry;

    LS_TRY(compile(config, t->graph, loss, LS_TRAIN, &t->plan));
    if (with_evaluation) {
        LS_TRY(compile(config, t->graph, loss, LS_EVAL, &t->eval_plan));
    }
    LS_TRY(check_io(t->graph, t->data));
    t->params = lsi_graph_params(t->graph);
    LS_TRY(lsi_bucket_check(t->params->n_elements, config->comm.bucket_bytes));
    LS_TRY(lsi_lanes_make(geometry->n_lanes, geometry->share[geometry->rank], &t->lanes));
    lsi_exchange_layout(geometry, t->rt->comm, t->params->n_elements, config->comm.bucket_bytes, &t->exchange);
    lsi_sizes_make(t->rt, t->params, t->plan, t->eval_plan, t->data, &t->lanes, &t->exchange, &t->sizes);
    return LS_OK;
}

ls_status lsi_trainer_sizes(ls_runtime *runtime, ls_graph *graph, ls_var loss, const ls_dataset *data,
                            bool with_evaluation, lsi_sizes *out)
{
    ls_trainer t = {.rt = runtime, .graph = graph, .data = data};
    ls_status status = lay_out(&t, loss, with_evaluation);

    lsi_lanes_free(&t.lanes);
    *out = t.sizes;
    return status;
}

/* ---- memory, streams, events ----------------------------------------------------------------------------------- */

static ls_status alloc(ls_trainer *t, ls_memory kind, lsi_memory_class c, size_t bytes, lsi_buffer *out)
{
    return lsi_buffer_alloc(t->device, &t->rt->account, kind, c, bytes, out);
}

/* Transport memory, counted by class; freed by index in destroy. */
static ls_status alloc_comm(ls_trainer *t, lsi_memory_class c, size_t bytes, void **out)
{
    LS_TRY(t->rt->comm->transport->alloc(t->rt->comm, bytes, out));
    lsi_memory_account_add(&t->rt->account, c, bytes);
    return LS_OK;
}

static void release_comm(ls_trainer *t, lsi_memory_class c, size_t bytes, void *pointer)
{
    if (pointer != NULL) {
        t->rt->comm->transport->release(t->rt->comm, bytes, pointer);
        lsi_memory_account_remove(&t->rt->account, c, bytes);
    }
}

static ls_status alloc_batches(ls_trainer *t)
{
    const lsi_sizes *s = &t->sizes;

    for (int i = 0; i < 2; i++) {
        size_t n = (size_t)s->n_local;

        LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_BATCH, s->input_bytes, &t->batch_input[i]));
        LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_BATCH, s->target_bytes, &t->batch_targets[i]));
        LS_TRY(alloc(t, LS_MEM_PINNED, LSI_MEMORY_BATCH, n * s->input_bytes, &t->share_input[i]));
        LS_TRY(alloc(t, LS_MEM_PINNED, LSI_MEMORY_BATCH, n * s->target_bytes, &t->share_targets[i]));
        if (t->eval_plan != NULL) {
            LS_TRY(alloc(t, LS_MEM_PINNED, LSI_MEMORY_BATCH, s->input_bytes, &t->eval_input[i]));
            LS_TRY(alloc(t, LS_MEM_PINNED, LSI_MEMORY_BATCH, s->target_bytes, &t->eval_targets[i]));
        }
    }
    return LS_OK;
}

static ls_status alloc_control(ls_trainer *t)
{
    size_t indices = (size_t)(t->exchange.n_blocks + t->exchange.n_slots) * sizeof(int32_t);

    LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_CONTROL, sizeof(ls_step_state), &t->state));
    LS_TRY(alloc(t, LS_MEM_PINNED, LSI_MEMORY_CONTROL, sizeof(lsi_control), &t->control_memory));
    LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_CONTROL, indices, &t->indices));
    t->control = t->control_memory.data;
    memset(t->control, 0, sizeof *t->control);
    return LS_OK;
}

static ls_status alloc_gradients(ls_trainer *t)
{
    size_t flat = (size_t)t->sizes.n_elements * sizeof(float);
    size_t mine = (size_t)t->exchange.stride * sizeof(double);

    for (int i = 0; i < t->lanes.n_buffers; i++) {
        LS_TRY(alloc_comm(t, LSI_MEMORY_GRADIENTS, flat, (void **)&t->gradient[i]));
    }
    LS_TRY(alloc_comm(t, LSI_MEMORY_CONTROL, mine, (void **)&t->exchange_mine));
    return alloc_comm(t, LSI_MEMORY_CONTROL, mine * (size_t)t->rt->geometry.world, (void **)&t->exchange_all);
}

static ls_status make_streams(ls_trainer *t)
{
    const ls_backend *b = t->backend;

    LS_TRY(b->stream_create(t->device, "compute", 0, &t->compute));
    LS_TRY(b->stream_create(t->device, "copy", 0, &t->copy));
    LS_TRY(b->stream_create(t->device, "comm", 1, &t->comm_stream));
    ls_event **events[] = {&t->fork, &t->copied[0], &t->copied[1], &t->used[0], &t->used[1],
                           &t->ready, &t->exchanged, &t->committed[0], &t->committed[1]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        LS_TRY(b->event_create(t->device, events[i]));
    }
    return LS_OK;
}

/* ---- initial contents ------------------------------------------------------------------------------------------ */

static ls_status upload(ls_trainer *t, void *device_memory, const void *host, size_t bytes)
{
    LS_TRY(t->backend->copy(t->compute, device_memory, host, bytes));
    return t->backend->stream_sync(t->compute);
}

static ls_status init_weights(ls_trainer *t)
{
    size_t flat = (size_t)t->sizes.n_elements * sizeof(float);
    float *host;

    LS_TRY(lsi_memory_alloc(flat, "initial weights", (void **)&host));
    lsi_param_init(t->params, (uint64_t)t->rt->config->train.seed, host);
    ls_status status = upload(t, t->weights.data, host, flat);
    lsi_memory_free(host);
    return status;
}

static ls_status init_indices(ls_trainer *t)
{
    size_t bytes = (size_t)(t->exchange.n_blocks + t->exchange.n_slots) * sizeof(int32_t);
    int32_t *host;

    LS_TRY(lsi_memory_alloc(bytes, "exchange indices", (void **)&host));
    ls_status status = lsi_exchange_index(&t->exchange, &t->rt->geometry, t->rt->comm, t->sizes.n_elements,
                                          t->rt->config->comm.bucket_bytes, host, host + t->exchange.n_blocks);
    if (status == LS_OK) {
        status = upload(t, t->indices.data, host, bytes);
    }
    lsi_memory_free(host);
    return status;
}

static ls_status init_contents(ls_trainer *t)
{
    ls_step_state state = {
        .beta1_power = 1,
        .beta2_power = 1,
        .unscale = 1,
        .clip_factor = 1,
        .loss_scale = 1,
    };
    size_t flat = (size_t)t->sizes.n_elements * sizeof(float);

    LS_TRY(upload(t, t->state.data, &state, sizeof state));
    LS_TRY(init_indices(t));
    for (int i = 0; i < t->sizes.moments; i++) {
        LS_TRY(t->backend->fill(t->compute, t->moment[i].data, 0, flat));
    }
    /* Gaps between parameters are never written: their gradients must be zero from the start. */
    for (int i = 0; i < t->lanes.n_buffers; i++) {
        LS_TRY(t->backend->fill(t->compute, t->gradient[i], 0, flat));
    }
    LS_TRY(t->backend->fill(t->compute, t->exchange_mine, 0, (size_t)t->exchange.stride * sizeof(double)));
    return t->backend->stream_sync(t->compute);
}

/* ---- collectives and loader ------------------------------------------------------------------------------------ */

/* Collective. */
static ls_status prepare_collectives(ls_trainer *t)
{
    const ls_transport *transport = t->rt->comm->transport;
    int64_t bucket_bytes = t->rt->config->comm.bucket_bytes;

    for (int i = 0; i < t->sizes.n_buckets; i++) {
        lsi_bucket *bucket = &t->bucket[i];
        ls_partial partial[LSI_TREE_MAX_ROOTS];

        lsi_bucket_range(t->sizes.n_elements, bucket_bytes, i, &bucket->first, &bucket->count);
        lsi_exchange_owned(t->rt->comm, t->sizes.n_elements, bucket_bytes, i, t->rt->geometry.rank,
                           &bucket->owned_first, &bucket->owned_count);
        for (int k = 0; k < t->lanes.n_roots; k++) {
            const lsi_lane_root *root = &t->lanes.root[k];

            partial[k] = (ls_partial){root->span.lo, root->span.hi, t->gradient[root->buffer] + bucket->first};
        }
        LS_TRY(transport->prepare_reduce(t->rt->comm, partial, t->lanes.n_roots, bucket->count, partial[0].data, true,
                                         &bucket->reduce));
    }
    return transport->prepare_exchange(t->rt->comm, t->exchange_mine, t->exchange_all,
                                       (size_t)t->exchange.stride * sizeof(double), &t->exchange_collective);
}

static ls_status start_loader(ls_trainer *t)
{
    const ls_config *config = t->rt->config;
    int64_t *slots;

    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_local * sizeof *slots, "slot order", (void **)&slots));
    for (int64_t j = 0; j < t->sizes.n_local; j++) {
        slots[j] = t->place[j].slot;
    }
    lsi_loader_options options = {
        .device = t->device,
        .data = t->data,
        .sampler = {.n = t->data->n_samples, .seed = (uint64_t)config->train.seed, .shuffle = config->data.shuffle},
        .global_batch = config->train.global_batch,
        .micro_batch = config->train.micro_batch,
        .slot = slots,
        .n_slots = t->sizes.n_local,
        .workers = (int)config->data.workers,
        .prefetch = (int)config->data.prefetch,
        .end_step = t->end_step,
        .on_failure = lsi_runtime_abort,
        .failure_argument = t->rt,
    };
    for (int i = 0; i < 2; i++) {
        options.share[i] = (lsi_share){t->share_input[i].data, t->share_targets[i].data, &t->control->full[i]};
    }
    ls_status status = lsi_loader_create(&options, &t->loader);
    lsi_memory_free(slots);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static ls_status allocate(ls_trainer *t)
{
    size_t flat = (size_t)t->sizes.n_elements * sizeof(float);

    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_local * sizeof *t->place, "slot order", (void **)&t->place));
    lsi_geometry_places(&t->rt->geometry, t->rt->geometry.rank, t->place);
    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_buckets * sizeof *t->bucket, "buckets", (void **)&t->bucket));
    LS_TRY(make_streams(t));
    LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_WEIGHTS, flat, &t->weights));
    /* First, while the host copy of the weights is the only other large block. */
    LS_TRY(init_weights(t));
    for (int i = 0; i < t->sizes.moments; i++) {
        LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_OPTIMIZER, flat, &t->moment[i]));
    }
    LS_TRY(alloc(t, LS_MEM_DEVICE, LSI_MEMORY_ACTIVATIONS, t->sizes.activation_bytes, &t->activations));
    LS_TRY(alloc_batches(t));
    LS_TRY(alloc_control(t));
    LS_TRY(alloc_gradients(t));
    return init_contents(t);
}

ls_status lsi_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data, bool with_evaluation,
                             const lsi_step_hooks *hooks, ls_trainer **out)
{
    const ls_config *config = runtime->config;
    ls_trainer *t;
    int k = 0;

    LS_TRY(lsi_runtime_agree(runtime, lsi_memory_alloc(sizeof *t, "trainer", (void **)&t)));
    t->rt = runtime;
    t->device = runtime->device;
    t->backend = runtime->backend;
    t->graph = graph;
    t->data = data;
    t->hooks = hooks != NULL ? *hooks : (lsi_step_hooks){.steps_in_flight = 1};
    t->use_recordings = strcmp(config->device.graphs, "on") == 0;
    t->end_step = lsi_trainer_run_steps(config, data->n_samples);
    t->schedule = configured_schedule;
    t->schedule_argument = t;
    while (ldexp(1.0, k) < (double)config->train.global_batch * (double)data->target_count) {
        k++;
    }
    t->loss_seed = (float)ldexp(1.0, -k);

    ls_status status = lsi_runtime_agree(runtime, lay_out(t, loss, with_evaluation));
    if (status == LS_OK) {
        status = lsi_sizes_check(runtime, &t->sizes);
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(runtime, allocate(t));
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(runtime, prepare_collectives(t));
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(runtime, start_loader(t));
    }
    if (status != LS_OK) {
        ls_trainer_destroy(&t);
        return status;
    }
    t->next_slot = t->sizes.n_local;
    lsi_timeline_open(&t->timeline, t->device);
    *out = t;
    return LS_OK;
}

ls_status ls_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data, ls_trainer **out)
{
    return lsi_trainer_create(runtime, graph, loss, data, false, NULL, out);
}

void ls_trainer_set_schedule(ls_trainer *trainer, ls_schedule_fn schedule, void *argument)
{
    trainer->schedule = schedule;
    trainer->schedule_argument = argument;
}

static void release_buffers(ls_trainer *t)
{
    lsi_buffer *buffers[] = {&t->weights, &t->moment[0], &t->moment[1], &t->activations, &t->state, &t->control_memory,
                             &t->indices, &t->batch_input[0], &t->batch_input[1], &t->batch_targets[0],
                             &t->batch_targets[1], &t->share_input[0], &t->share_input[1], &t->share_targets[0],
                             &t->share_targets[1], &t->eval_input[0], &t->eval_input[1], &t->eval_targets[0],
                             &t->eval_targets[1]};
    size_t flat = (size_t)t->sizes.n_elements * sizeof(float), mine = (size_t)t->exchange.stride * sizeof(double);

    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        lsi_buffer_release(t->device, &t->rt->account, buffers[i]);
    }
    for (int i = 0; i < t->lanes.n_buffers; i++) {
        release_comm(t, LSI_MEMORY_GRADIENTS, flat, t->gradient[i]);
    }
    release_comm(t, LSI_MEMORY_CONTROL, mine, t->exchange_mine);
    release_comm(t, LSI_MEMORY_CONTROL, mine * (size_t)t->rt->geometry.world, t->exchange_all);
}

void ls_trainer_destroy(ls_trainer **trainer)
{
    ls_trainer *t = *trainer;

    if (t == NULL) {
        return;
    }
    const ls_backend *b = t->backend;
    ls_stream *streams[] = {t->compute, t->copy, t->comm_stream};
    ls_event *events[] = {t->fork, t->copied[0], t->copied[1], t->used[0], t->used[1],
                          t->ready, t->exchanged, t->committed[0], t->committed[1]};

    if (t->compute != NULL) {
        (void)b->stream_sync(t->compute);   /* the last step; a failure of it has been reported by now */
    }
    lsi_loader_destroy(&t->loader);
    for (int i = 0; i < 2; i++) {
        if (t->recording[i] != NULL) {
            b->recording_destroy(t->recording[i]);
        }
    }
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        if (streams[i] != NULL) {
            b->stream_destroy(streams[i]);
        }
    }
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (events[i] != NULL) {
            b->event_destroy(events[i]);
        }
    }
    release_buffers(t);
    lsi_lanes_free(&t->lanes);
    lsi_memory_free(t->place);
    lsi_memory_free(t->bucket);
    lsi_memory_free(t);
    *trainer = NULL;
}

/* ---- reading and writing --------------------------------------------------------------------------------------- */

static ls_status read_part(void *argument, int64_t first, int64_t count, float *host)
{
    ls_trainer *t = argument;
    const float *weights = t->weights.data;

    LS_TRY(t->backend->copy(t->compute, host, weights + first, (size_t)count * sizeof(float)));
    return t->backend->stream_sync(t->compute);
}

ls_status lsi_trainer_read_weights(ls_trainer *trainer, float *host)
{
    return read_part(trainer, 0, trainer->sizes.n_elements, host);
}

ls_status lsi_trainer_write_weights(ls_trainer *trainer, const float *host)
{
    return upload(trainer, trainer->weights.data, host, (size_t)trainer->sizes.n_elements * sizeof(float));
}

ls_status lsi_trainer_read_gradients(ls_trainer *trainer, float *host)
{
    int64_t n = trainer->sizes.n_elements;
    const float *total = trainer->gradient[trainer->lanes.root[0].buffer];

    LS_TRY(trainer->backend->copy(trainer->compute, host, total, (size_t)n * sizeof(float)));
    LS_TRY(trainer->backend->stream_sync(trainer->compute));
    for (int64_t i = 0; i < n; i++) {
        host[i] = (float)((double)host[i] * trainer->last.state.unscale);
    }
    return LS_OK;
}

ls_status lsi_trainer_weights_hash(ls_trainer *trainer, char out[33])
{
    return lsi_param_hash(trainer->params, read_part, trainer, out);
}
