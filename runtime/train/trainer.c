#include "train/trainer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "comm/registry.h"
#include "kernels/ops.h"
#include "train/observe.h"
#include "train/precision.h"
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

/* ---- what is known without allocating ------------------------------------------------------------------------ */

/* A program's own graph and data set before anything is read from them. */
static ls_status check_given(const ls_graph *graph, const ls_dataset *data, const char *what)
{
    LS_REQUIRE(graph != NULL, LS_ERR_CONFIG, "the graph to train is NULL; ls_graph_create makes one");
    LS_REQUIRE(data != NULL, LS_ERR_CONFIG, "the %s is NULL", what);
    LS_REQUIRE(data->ops != NULL && data->ops->struct_size == sizeof *data->ops && data->ops->read != NULL,
               LS_ERR_CONFIG, "the %s needs ls_dataset.ops with struct_size and a read function", what);
    LS_REQUIRE(data->n_samples >= 1, LS_ERR_DATA, "the %s has %lld samples (ls_dataset.n_samples)", what,
               (long long)data->n_samples);
    return LS_OK;
}

ls_status lsi_trainer_check_data(const ls_graph *graph, const ls_dataset *data, const char *what)
{
    lsi_graph_io io;

    LS_TRY(check_given(graph, data, what));
    lsi_graph_get_io(graph, &io);
    int64_t takes = ls_shape_count(&io.input_shape), has = ls_shape_count(&data->input_shape);
    LS_REQUIRE(io.input_dtype == data->input_dtype && takes == has, LS_ERR_CONFIG,
               "the model takes %lld %s inputs per sample, the %s has %lld of %s", (long long)takes,
               ls_dtype_name(io.input_dtype), what, (long long)has, ls_dtype_name(data->input_dtype));
    LS_REQUIRE(io.targets_count == data->target_count, LS_ERR_CONFIG,
               "the model takes %lld targets per sample, the %s has %lld", (long long)io.targets_count, what,
               (long long)data->target_count);
    ls_dtype targets = data->real_targets ? LS_F32 : LS_I32;
    LS_REQUIRE(io.targets_dtype == targets || io.targets_count == 0, LS_ERR_CONFIG,
               "the model takes %s targets, the %s has %s (ls_dataset.real_targets)", ls_dtype_name(io.targets_dtype),
               what, ls_dtype_name(targets));
    return LS_OK;
}

ls_status lsi_trainer_compile(const ls_config *config, ls_graph *graph, ls_var loss, ls_mode mode, ls_plan **out)
{
    ls_compile_options options = {
        .struct_size = sizeof options,
        .mode = mode,
        .micro_batch = config->train.micro_batch,
        .compute = lsi_precision_compute(config),
        .loss = loss,
    };

    return ls_graph_compile(graph, &options, out);
}

/* Plans, lanes, exchange layout and sizes: everything that follows from configuration, graph and data. */
static ls_status lay_out(ls_trainer *t, ls_var loss, const lsi_trainer_options *options)
{
    const ls_config *config = t->rt->config;
    const lsi_geometry *geometry = &t->rt->geometry;

    LS_TRY(lsi_trainer_compile(config, t->graph, loss, LS_TRAIN, &t->plan));
    if (options->evaluates) {
        LS_TRY(lsi_trainer_compile(config, t->graph, loss, LS_EVAL, &t->eval_plan));
    }
    LS_TRY(lsi_trainer_check_data(t->graph, t->data, "data"));
    t->params = lsi_graph_params(t->graph);
    LS_TRY(lsi_bucket_check(t->params->n_elements, config->comm.bucket_bytes));
    LS_TRY(lsi_precision_is_fast(config)
               ? lsi_lanes_make_single(geometry->n_lanes, &t->lanes)
               : lsi_lanes_make(geometry->n_lanes, geometry->share[geometry->rank], &t->lanes));
    lsi_exchange_layout(geometry, t->rt->comm, t->params->n_elements, config->comm.bucket_bytes, &t->exchange);
    lsi_sizes_make(t->rt, t->params, t->plan, t->eval_plan, t->data, &t->lanes, &t->exchange,
                   options->snapshots, &t->sizes);
    return LS_OK;
}

ls_status lsi_trainer_sizes(ls_runtime *runtime, ls_graph *graph, ls_var loss, const ls_dataset *data,
                            const lsi_trainer_options *options, lsi_sizes *out)
{
    ls_trainer t = {.rt = runtime, .graph = graph, .data = data};
    ls_status status = check_given(graph, data, "data");

    if (status == LS_OK) {
        status = lay_out(&t, loss, options);
    }
    lsi_lanes_free(&t.lanes);
    *out = t.sizes;
    return status;
}

/* ---- slots and buckets --------------------------------------------------------------------------------------- */

static void place_slots(ls_trainer *t)
{
    lsi_geometry_places(&t->rt->geometry, t->rt->geometry.rank, t->place);
    if (lsi_precision_is_fast(t->rt->config)) {     /* all in one buffer, as one lane */
        for (int64_t j = 0; j < t->sizes.n_local; j++) {
            t->place[j].order = 0;
            t->place[j].first_in_lane = j == 0;
            t->place[j].last_in_lane = j == t->sizes.n_local - 1;
        }
    }
}

static void cut_buckets(ls_trainer *t)
{
    int64_t bytes = t->rt->config->comm.bucket_bytes, n = t->sizes.n_elements, held_at = 0;
    int64_t sums_at = t->exchange.sums;

    for (int i = 0; i < t->sizes.n_buckets; i++) {
        lsi_bucket *bucket = &t->bucket[i];

        lsi_bucket_range(n, bytes, i, &bucket->first, &bucket->count);
        lsi_exchange_owned(t->rt->comm, n, bytes, i, t->rt->geometry.rank, &bucket->owned_first, &bucket->owned_count);
        bucket->sums_at = sums_at;
        sums_at += bucket->owned_count / LSI_BLOCK;
    }
    for (int i = t->sizes.n_buckets - 1; i >= 0; i--) {
        lsi_bucket *bucket = &t->bucket[i];

        bucket->held_at = held_at;
        held_at += bucket->owned_count;
        for (int p = 0; p < t->params->n; p++) {
            bucket->n_params += lsi_param_reaches(&t->params->param[p], bucket->first, bucket->count);
        }
    }
}

/* Collective. */
static ls_status prepare_collectives(ls_trainer *t)
{
    const ls_transport *transport = t->rt->comm->transport;
    size_t element = t->sizes.element_bytes;

    for (int i = 0; i < t->sizes.n_buckets; i++) {
        lsi_bucket *bucket = &t->bucket[i];
        ls_partial partial[LSI_TREE_MAX_ROOTS];

        for (int k = 0; k < t->lanes.n_roots; k++) {
            const lsi_lane_root *root = &t->lanes.root[k];
            float *data = lsi_trainer_gradient(t, root->buffer) + bucket->first;

            partial[k] = (ls_partial){root->span.lo, root->span.hi, data};
        }
        LS_TRY(transport->prepare_reduce(t->rt->comm, partial, t->lanes.n_roots, bucket->count, partial[0].data,
                                         !t->sizes.sharded, &bucket->reduce));
        if (t->sizes.sharded) {
            char *weights = (char *)t->layer_weights.data + (size_t)bucket->first * element;

            LS_TRY(transport->prepare_gather(t->rt->comm, weights, bucket->count, element, &bucket->gather));
        }
    }
    return transport->prepare_exchange(t->rt->comm, t->exchange_mine.data, t->exchange_all.data,
                                       t->sizes.exchange_bytes, &t->exchange_collective);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

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
        .first_step = t->n_queued,
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

ls_status lsi_trainer_continue(ls_trainer *trainer, const ls_step_state *state)
{
    lsi_loader_destroy(&trainer->loader);
    for (int i = 0; i < 2; i++) {
        trainer->backend->host_flag_set(trainer->device, &trainer->control->full[i], 0);
    }
    trainer->last = (ls_step_result){.state = *state};
    trainer->first_step = trainer->n_queued = trainer->n_done = state->attempted;
    return start_loader(trainer);
}

/* A fault that names a slot must find it where it says. */
static ls_status check_faults(const ls_trainer *t)
{
    for (int i = 0; i < t->faults.n; i++) {
        const lsi_fault *fault = &t->faults.fault[i];
        bool found = fault->slot < 0;

        LS_REQUIRE(fault->rank < t->rt->geometry.world, LS_ERR_CONFIG, "fault.inject names rank %d of %d", fault->rank,
                   t->rt->geometry.world);
        if (fault->rank != t->rt->geometry.rank) {
            continue;
        }
        for (int64_t j = 0; j < t->sizes.n_local; j++) {
            found = found || t->place[j].slot == fault->slot;
        }
        LS_REQUIRE(found, LS_ERR_CONFIG, "fault.inject: slot %lld does not run on rank %d", (long long)fault->slot,
                   fault->rank);
    }
    return LS_OK;
}

static ls_status build(ls_trainer *t)
{
    size_t n_buckets = (size_t)t->sizes.n_buckets;

    LS_TRY(lsi_faults_parse(t->rt->config->fault.inject, &t->faults));
    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_local * sizeof *t->place, "slot order", (void **)&t->place));
    LS_TRY(lsi_memory_alloc(n_buckets * sizeof *t->bucket, "buckets", (void **)&t->bucket));
    LS_TRY(lsi_memory_alloc(n_buckets * sizeof *t->run, "chunks", (void **)&t->run));
    place_slots(t);
    cut_buckets(t);
    LS_TRY(check_faults(t));
    return lsi_trainer_allocate(t);
}

static void release(lsi_runtime_child *child)
{
    ls_trainer *t = (ls_trainer *)(void *)((char *)child - offsetof(ls_trainer, child));

    ls_trainer_destroy(&t);
}

/* Ranks that build different models would train something that nobody wrote down. */
static ls_status check_same_model(const ls_trainer *t)
{
    lsi_job *job = t->rt->job;
    uint64_t mine = lsi_param_identity(t->params), *all;

    LS_TRY(lsi_runtime_agree(
        t->rt, lsi_memory_alloc((size_t)job->world * sizeof *all, "models of all ranks", (void **)&all)));
    ls_status status = lsi_job_all_gather(job, &mine, sizeof mine, all);
    for (int r = 0; status == LS_OK && r < job->world; r++) {
        if (all[r] != mine) {
            status = LS_FAIL(LS_ERR_CONFIG,
                             "this rank and rank %d have built different models: names, shapes or initial values of "
                             "parameters differ",
                             r);
        }
    }
    lsi_memory_free(all);
    return lsi_runtime_agree(t->rt, status);
}

/* What a trainer is made of. */
typedef struct given {
    const ls_runtime *rt;
    ls_graph *graph;
    ls_var loss;
    ls_dataset *data;
    const lsi_trainer_options *options;
} given;

/* A lsi_sizes_trial's. */
static ls_status sizes_with(void *argument, int64_t micro_batch, lsi_sizes *out)
{
    const given *g = argument;
    ls_config config = *g->rt->config;
    ls_runtime other = *g->rt;

    config.train.micro_batch = micro_batch;
    other.config = &config;
    LS_TRY(lsi_geometry_make(&config, other.job, &other.geometry));
    ls_status status = lsi_trainer_sizes(&other, g->graph, g->loss, g->data, g->options, out);
    lsi_geometry_free(&other.geometry);
    return status;
}

/* Collective. */
static ls_status explain(ls_trainer *t, const lsi_sizes_trial *trial, ls_status mine)
{
    size_t held[LSI_MEMORY_SIDE_COUNT];

    lsi_trainer_held_bytes(t, held);
    return lsi_sizes_explain(t->rt, &t->sizes, trial, held, mine);
}

ls_status lsi_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data,
                             const lsi_trainer_options *options, ls_trainer **out)
{
    const ls_config *config = runtime->config;
    given what = {.rt = runtime, .graph = graph, .loss = loss, .data = data, .options = options};
    lsi_sizes_trial trial = {.sizes = sizes_with, .argument = &what};
    ls_trainer *t;
    int k = 0;

    LS_TRY(lsi_runtime_agree(runtime, check_given(graph, data, "data")));
    LS_TRY(lsi_runtime_agree(runtime, lsi_memory_alloc(sizeof *t, "trainer", (void **)&t)));
    t->rt = runtime;
    t->device = runtime->device;
    t->backend = runtime->backend;
    t->graph = graph;
    t->data = data;
    t->hooks = options->hooks != NULL ? *options->hooks : (lsi_step_hooks){.steps_in_flight = 1};
    t->end_step = lsi_trainer_run_steps(config, data->n_samples);
    t->schedule = configured_schedule;
    t->schedule_argument = t;
    while (ldexp(1.0, k) < (double)config->train.global_batch * (double)data->target_count) {
        k++;
    }
    t->loss_seed = (float)ldexp(1.0, -k);

    lsi_watchdog_enter(runtime->watchdog, "building the trainer");
    ls_status status = lsi_recorder_open(t);
    if (status == LS_OK) {
        lsi_overlap_open(&t->overlap, config, runtime->geometry.world, t->recorder.records);
        status = lsi_runtime_agree(runtime, lay_out(t, loss, options));
    }
    if (status == LS_OK) {
        status = check_same_model(t);
    }
    if (status == LS_OK) {
        status = lsi_sizes_check(runtime, &t->sizes, &trial);
    }
    if (status == LS_OK) {
        lsi_watchdog_enter(runtime->watchdog, "choosing algorithms for matrix products");
        status = lsi_products_prepare(runtime, t->plan, t->eval_plan, &t->work);
    }
    if (status == LS_OK) {
        lsi_watchdog_enter(runtime->watchdog, "allocating memory and initial weights");
        status = lsi_runtime_agree(runtime, explain(t, &trial, build(t)));
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(runtime, explain(t, &trial, prepare_collectives(t)));
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
    t->ranges = lsi_ranges_open();
    lsi_watchdog_enter(runtime->watchdog, "training");
    lsi_observe_begin(t);
    t->child.release = release;
    lsi_runtime_adopt(runtime, &t->child);
    *out = t;
    return LS_OK;
}

ls_status ls_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data, ls_trainer **out)
{
    lsi_trainer_options options = {.evaluates = true, .snapshots = runtime->config->checkpoint.save};

    LS_TRY(lsi_runtime_agree(runtime, !runtime->dry_run ? LS_OK
                                                        : LS_FAIL(LS_ERR_USAGE, "--dry-run: this program's loop is its "
                                                                                "own, and does not know it")));
    return lsi_trainer_create(runtime, graph, loss, data, &options, out);
}

int64_t ls_trainer_n_steps(const ls_trainer *trainer)
{
    return trainer->end_step;
}

void ls_trainer_set_schedule(ls_trainer *trainer, ls_schedule_fn schedule, void *argument)
{
    trainer->schedule = schedule;
    trainer->schedule_argument = argument;
}

void ls_trainer_destroy(ls_trainer **trainer)
{
    ls_trainer *t = *trainer;

    if (t == NULL) {
        return;
    }
    lsi_runtime_disown(t->rt, &t->child);
    if (t->compute != NULL) {
        (void)t->backend->stream_sync(t->compute);      /* the last step; a failure of it has been reported by now */
    }
    lsi_observe_end(t);
    lsi_loader_destroy(&t->loader);
    lsi_recorder_close(t);
    lsi_ranges_close(t->ranges);
    lsi_trainer_release(t);
    lsi_lanes_free(&t->lanes);
    lsi_memory_free(t->place);
    lsi_memory_free(t->bucket);
    lsi_memory_free(t->run);
    lsi_memory_free(t);
    *trainer = NULL;
}
