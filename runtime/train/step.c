/* One step, queued over three streams. It begins with the gather of the weights that the step before has updated (each
 * bucket awaited by the first layer that needs it) and ends with the update. The share moves slot by slot on *copy*
 * while *compute* works; lanes are added up as they are complete; buckets are reduced on *comm*, during the last
 * backward or after it, then the scalar exchange; the commit op decides; the optimizer obeys. The same code queues a
 * step, records it, and lets tests leave out each wait in turn. */
#include "train/step.h"

#include <string.h>

#include "kernels/ops.h"
#include "train/host.h"
#include "train/observe.h"
#include "train/optimizer.h"
#include "train/precision.h"

/* ---- small pieces -------------------------------------------------------------------------------------------- */

static ls_status await(ls_trainer *t, lsi_step_wait which, ls_stream *stream, ls_event *event)
{
    return t->hooks.left_out == which ? LS_OK : t->backend->event_wait(stream, event);
}

static ls_status stamp(ls_trainer *t, ls_stream *stream, lsi_point point)
{
    return t->backend->stamp(stream, lsi_timeline_id(t->n_queued, point, 0));
}

static ls_status stamp_at(ls_trainer *t, ls_stream *stream, lsi_point point, int64_t index)
{
    return t->backend->stamp(stream, lsi_timeline_id(t->n_queued, point, index));
}

/* Points that a trace wants; without one they tell the watchdog where a long step is. */
static ls_status trace_at(ls_trainer *t, ls_stream *stream, lsi_point point, int64_t index)
{
    return t->trace != NULL || lsi_observe_slot(t, index) ? stamp_at(t, stream, point, index) : LS_OK;
}

static double *exchange_words(ls_trainer *t)
{
    return t->exchange_mine.data;
}

static ls_slot_record *record_of(ls_trainer *t, int64_t local_slot)
{
    return (ls_slot_record *)(void *)(exchange_words(t) + t->exchange.records) + local_slot;
}

/* ---- weights on their way to the layers ------------------------------------------------------------------------ */

static ls_status queue_gather(ls_trainer *t, int i)
{
    LS_TRY(stamp_at(t, t->comm_stream, LSI_POINT_GATHER_BEGIN, i));
    LS_TRY(t->rt->comm->transport->launch(t->bucket[i].gather, t->comm_stream));
    LS_TRY(stamp_at(t, t->comm_stream, LSI_POINT_GATHER_END, i));
    return t->backend->event_record(t->bucket[i].gathered, t->comm_stream);
}

/* Gathers all buckets in the order in which the forward needs them, from the beginning of the index. */
static ls_status queue_gathers(ls_trainer *t)
{
    for (int i = t->sizes.n_buckets - 1; i >= 0; i--) {
        lsi_bucket *bucket = &t->bucket[i];

        bucket->awaited = bucket->gather == NULL;
        if (bucket->gather != NULL) {
            lsi_ranges_push(t->ranges, "bucket %d gather", i);
            ls_status status = queue_gather(t, i);

            lsi_ranges_pop(t->ranges);
            LS_TRY(status);
        }
    }
    return LS_OK;
}

/* Hook of the first slot's forward: the layer about to be queued reads this parameter. */
static ls_status await_param(void *argument, int param)
{
    ls_trainer *t = argument;

    for (int i = 0; i < t->sizes.n_buckets; i++) {
        lsi_bucket *bucket = &t->bucket[i];

        if (bucket->awaited || !lsi_param_reaches(&t->params->param[param], bucket->first, bucket->count)) {
            continue;
        }
        bucket->awaited = true;
        LS_TRY(stamp_at(t, t->compute, LSI_POINT_GATHER_WAIT_BEGIN, i));
        LS_TRY(await(t, LSI_WAIT_GATHERED, t->compute, bucket->gathered));
        LS_TRY(stamp_at(t, t->compute, LSI_POINT_GATHER_WAIT_END, i));
    }
    return LS_OK;
}

/* ---- the parts of a step ----------------------------------------------------------------------------------------- */

static ls_status queue_begin(ls_trainer *t)
{
    LS_TRY(stamp(t, t->compute, LSI_POINT_BEGIN));
    LS_TRY(t->backend->fill(t->compute, record_of(t, 0), 0, (size_t)t->sizes.n_local * sizeof(ls_slot_record)));
    LS_TRY(t->backend->event_record(t->fork, t->compute));
    LS_TRY(await(t, LSI_WAIT_FORK, t->copy, t->fork));
    LS_TRY(await(t, LSI_WAIT_UPDATED, t->comm_stream, t->fork));
    return queue_gathers(t);
}

/* Moves local slot j from the step share to the device and makes compute wait for it. */
static ls_status queue_batch(ls_trainer *t, int64_t j)
{
    const ls_backend *b = t->backend;
    const lsi_sizes *s = &t->sizes;
    int half = (int)(j & 1), parity = (int)(t->n_queued & 1);
    const char *input = t->share_input[parity].data, *targets = t->share_targets[parity].data;

    if (j == 0) {
        LS_TRY(stamp(t, t->compute, LSI_POINT_DATA_WAIT));
        if (t->hooks.left_out != LSI_WAIT_FULL) {
            LS_TRY(b->flag_wait(t->copy, &t->control->full[parity], 1));
        }
    }
    if (j >= 2) {
        LS_TRY(await(t, LSI_WAIT_USED, t->copy, t->used[half]));
    }
    LS_TRY(trace_at(t, t->copy, LSI_POINT_COPY_BEGIN, j));
    LS_TRY(b->copy(t->copy, t->batch_input[half].data, input + (size_t)j * s->input_bytes, s->input_bytes));
    LS_TRY(b->copy(t->copy, t->batch_targets[half].data, targets + (size_t)j * s->target_bytes, s->target_bytes));
    LS_TRY(trace_at(t, t->copy, LSI_POINT_COPY_END, j));
    if (j == s->n_local - 1) {
        LS_TRY(b->flag_set(t->copy, &t->control->full[parity], 0));
    }
    LS_TRY(b->event_record(t->copied[half], t->copy));
    LS_TRY(await(t, LSI_WAIT_COPIED, t->compute, t->copied[half]));
    return j == 0 ? stamp(t, t->compute, LSI_POINT_DATA_HERE) : LS_OK;
}

/* Adds up what this lane completes, on elements [first, first + count). */
static ls_status queue_lane_adds(ls_trainer *t, const lsi_lane *lane, int64_t first, int64_t count)
{
    for (int i = 0; i < lane->n_adds; i++) {
        float *from = lsi_trainer_gradient(t, lane->add[i].from) + first;
        float *into = lsi_trainer_gradient(t, lane->add[i].into) + first;

        LS_TRY(lsi_add_into(t->compute, &(lsi_add_into_args){
                                            .x = ls_view_make(from, count, LS_F32),
                                            .y = ls_view_make(into, count, LS_F32),
                                        }));
    }
    return LS_OK;
}

/* Reduces bucket i, whose gradients have been queued, and sums the squares of the chunk this rank owns. */
static ls_status queue_reduction(ls_trainer *t, int i)
{
    const lsi_bucket *bucket = &t->bucket[i];
    int64_t n_blocks = bucket->owned_count / LSI_BLOCK;

    LS_TRY(queue_lane_adds(t, &t->lanes.lane[t->lanes.n - 1], bucket->first, bucket->count));
    LS_TRY(t->backend->event_record(t->ready, t->compute));
    LS_TRY(await(t, LSI_WAIT_BUCKET, t->comm_stream, t->ready));
    LS_TRY(stamp_at(t, t->comm_stream, LSI_POINT_REDUCE_BEGIN, i));
    LS_TRY(t->rt->comm->transport->launch(bucket->reduce, t->comm_stream));
    LS_TRY(stamp_at(t, t->comm_stream, LSI_POINT_REDUCE_END, i));
    if (n_blocks == 0) {
        return LS_OK;
    }
    return lsi_block_norms(
        t->comm_stream,
        &(lsi_block_norms_args){
            .g = ls_view_make(lsi_trainer_total(t) + bucket->owned_first, bucket->owned_count, LS_F32),
            .sums = ls_view_make(exchange_words(t) + bucket->sums_at, n_blocks, LS_F64),
        });
}

static ls_status queue_bucket(ls_trainer *t, int i)
{
    lsi_ranges_push(t->ranges, "bucket %d reduce", i);
    ls_status status = queue_reduction(t, i);

    lsi_ranges_pop(t->ranges);
    return status;
}

/* Puts a fault where this rank was told to: into the loss record, or the first element of the gradient. */
static ls_status queue_faults(ls_trainer *t, int64_t local_slot, bool in_loss, ls_view where)
{
    bool last = local_slot == t->sizes.n_local - 1;

    for (int i = 0; i < t->faults.n; i++) {
        const lsi_fault *fault = &t->faults.fault[i];
        bool here = fault->slot < 0 ? last : fault->slot == t->place[local_slot].slot;

        if (fault->rank == t->rt->geometry.rank && fault->in_loss == in_loss && here) {
            LS_TRY(lsi_poke(t->compute, &(lsi_poke_args){
                                            .y = where,
                                            .state = t->state.data,
                                            .attempted = fault->step - 1,
                                            .value = fault->value,
                                        }));
        }
    }
    return LS_OK;
}

/* Hook of the backward: the gradient of this parameter is complete for the slot. */
static ls_status finish_param(void *argument, int param)
{
    ls_slot *slot = argument;
    ls_trainer *t = slot->trainer;

    if (param == 0) {
        LS_TRY(queue_faults(t, slot->index, false, ls_view_make(slot->run.gradients, 1, LS_F32)));
    }
    if (!t->overlaps || slot->index != t->sizes.n_local - 1) {
        return LS_OK;
    }
    for (int i = 0; i < t->sizes.n_buckets; i++) {
        lsi_bucket *bucket = &t->bucket[i];

        if (lsi_param_reaches(&t->params->param[param], bucket->first, bucket->count) && --bucket->n_waiting == 0) {
            LS_TRY(queue_bucket(t, i));
        }
    }
    return LS_OK;
}

static ls_status queue_exchange(ls_trainer *t)
{
    const double *header = t->control->header[t->n_queued & 1];

    LS_TRY(t->backend->copy(t->comm_stream, t->exchange_mine.data, header, LS_EXCHANGE_HEADER * sizeof(double)));
    LS_TRY(stamp(t, t->comm_stream, LSI_POINT_EXCHANGE_BEGIN));
    LS_TRY(t->rt->comm->transport->launch(t->exchange_collective, t->comm_stream));
    LS_TRY(stamp(t, t->comm_stream, LSI_POINT_EXCHANGE_END));
    LS_TRY(t->backend->event_record(t->exchanged, t->comm_stream));
    LS_TRY(await(t, LSI_WAIT_EXCHANGED, t->compute, t->exchanged));
    return stamp(t, t->compute, LSI_POINT_ARRIVED);
}

static ls_status queue_commit(ls_trainer *t)
{
    const ls_config *config = t->rt->config;
    int32_t *index = t->indices.data;
    int64_t world = t->rt->geometry.world;
    const lsi_rates *rates = &t->control->rates[t->n_queued & 1];
    ls_step_result *result = &t->control->result[t->n_queued & 1];
    bool adam = t->sizes.moments == 2;

    LS_TRY(lsi_commit(t->compute,
                      &(lsi_commit_args){
                          .values = ls_view_make(t->exchange_all.data, world * t->exchange.stride, LS_F64),
                          .block_index = ls_view_make(index, t->exchange.n_blocks, LS_I32),
                          .record_index = ls_view_make(index + t->exchange.n_blocks, t->exchange.n_slots, LS_I32),
                          .rates = ls_view_make((void *)(uintptr_t)rates, sizeof *rates / sizeof(double), LS_F64),
                          .result = ls_view_make(result, sizeof *result, LS_U8),
                          .state = t->state.data,
                          .world = world,
                          .rank_stride = t->exchange.stride,
                          .seed_inverse = 1.0 / (double)t->loss_seed,
                          .clip = config->optimizer.clip,
                          .beta1 = adam ? config->optimizer.beta1 : 0,
                          .beta2 = adam ? config->optimizer.beta2 : 0,
                          .dynamic = lsi_precision_scaling(config).dynamic,
                          .growth = config->loss_scale.growth,
                          .backoff = config->loss_scale.backoff,
                          .scale_min = config->loss_scale.min,
                          .scale_max = config->loss_scale.max,
                          .growth_interval = config->loss_scale.growth_interval,
                          .hysteresis = config->loss_scale.hysteresis,
                      }));
    return stamp(t, t->compute, LSI_POINT_COMMIT);
}

static ls_status update_run(ls_trainer *t, const lsi_state_run *held)
{
    lsi_optimizer_run run = {
        .first = held->first,
        .count = held->count,
        .weights = held->array[LSI_STATE_WEIGHTS],
        .gradients = lsi_trainer_total(t) + held->first,
        .moment = {held->array[LSI_STATE_MOMENT_0], held->array[LSI_STATE_MOMENT_1]},
        .copy_type = lsi_precision_compute(t->rt->config),
    };

    if (t->sizes.mixed) {
        run.copy = (uint16_t *)t->layer_weights.data + held->first;
    }
    return lsi_optimizer_update(t->rt->config, t->params, &run, t->state.data, t->compute);
}

/* Before a replay, and before the update of other steps: a recording waits only for what is in it. */
static ls_status await_snapshot(ls_trainer *t)
{
    bool pending = t->snapshot_pending;

    t->snapshot_pending = false;
    return pending ? await(t, LSI_WAIT_SNAPSHOT, t->compute, t->snapshot_taken) : LS_OK;
}

static ls_status queue_update(ls_trainer *t)
{
    const lsi_state_run *held;
    int n_held = lsi_trainer_held(t, &held);

    if (!t->recorder.capturing) {
        LS_TRY(await_snapshot(t));
    }
    for (int i = 0; i < n_held; i++) {
        LS_TRY(update_run(t, &held[i]));
    }
    return stamp(t, t->compute, LSI_POINT_END);
}

/* ---- the step as callers drive it -------------------------------------------------------------------------------- */

/* Of a step that is queued as it is written: everything before its slots. */
static ls_status open_step(ls_trainer *t)
{
    t->next_slot = 0;
    t->overlaps = lsi_overlap_of_step(&t->overlap, t->n_queued - t->first_step);
    for (int i = 0; i < t->sizes.n_buckets; i++) {
        t->bucket[i].n_waiting = t->bucket[i].n_params;
    }
    return queue_begin(t);
}

/* Everything before the slots of the step that is queued next. */
static ls_status begin(ls_trainer *t)
{
    LS_REQUIRE(t->n_queued < t->end_step, LS_ERR_CONFIG,
               "ls_trainer_begin of step %lld, but train.steps and train.epochs come to %lld (ls_trainer_n_steps)",
               (long long)t->n_queued + 1, (long long)t->end_step);
    while (t->n_queued - t->n_done >= t->hooks.steps_in_flight) {
        LS_TRY(lsi_host_collect(t));
    }
    lsi_host_hand_over(t);
    lsi_observe_step(t);
    if (t->rt->config->data.workers == 0) {
        LS_TRY(lsi_loader_fill(t->loader, t->n_queued));
    }
    LS_TRY(lsi_recorder_step(t, &t->replayed));
    if (t->replayed != NULL) {
        t->next_slot = t->sizes.n_local;
        return await_snapshot(t);
    }
    return open_step(t);
}

/* A profiler's range for the step ends with ls_trainer_end. */
ls_status ls_trainer_begin(ls_trainer *trainer)
{
    lsi_ranges_push(trainer->ranges, "step %lld", (long long)trainer->n_queued + 1);
    ls_status status = begin(trainer);

    if (status != LS_OK) {
        lsi_ranges_pop(trainer->ranges);
    }
    return status;
}

bool ls_trainer_next_slot(ls_trainer *trainer, ls_slot **out)
{
    ls_trainer *t = trainer;

    if (t->next_slot == t->sizes.n_local) {
        return false;
    }
    int64_t j = t->next_slot++;
    const lsi_place *place = &t->place[j];

    t->slot = (ls_slot){
        .trainer = t,
        .index = j,
        .run =
            {
                .stream = t->compute,
                .state = t->state.data,
                .weights = t->layer_weights.data,
                .gradients = lsi_trainer_gradient(t, t->lanes.lane[place->order].buffer),
                .activations = t->activations.data,
                .input = t->batch_input[j & 1].data,
                .targets = t->batch_targets[j & 1].data,
                .record = record_of(t, j),
                .first_sample = place->slot * t->rt->geometry.micro_batch,
                .seed = (uint64_t)t->rt->config->train.seed,
                .loss_seed = t->loss_seed,
                .ranges = t->ranges,
                .first_in_lane = place->first_in_lane,
            },
    };
    *out = &t->slot;
    return true;
}

static ls_status queue_forward(ls_trainer *t, ls_slot *slot)
{
    LS_TRY(queue_batch(t, slot->index));
    LS_TRY(trace_at(t, t->compute, LSI_POINT_SLOT_BEGIN, slot->index));
    slot->run.param_need = slot->index == 0 ? await_param : NULL;
    slot->run.hook_argument = t;
    LS_TRY(lsi_plan_forward(t->plan, &slot->run));
    LS_TRY(trace_at(t, t->compute, LSI_POINT_FORWARD_END, slot->index));
    return queue_faults(t, slot->index, true, ls_view_make(slot->run.record, 1, LS_F64));
}

ls_status ls_trainer_forward(ls_trainer *trainer, ls_slot *slot)
{
    lsi_ranges_push(trainer->ranges, "slot %lld forward", (long long)slot->index);
    ls_status status = queue_forward(trainer, slot);

    lsi_ranges_pop(trainer->ranges);
    return status;
}

static ls_status queue_backward(ls_trainer *t, ls_slot *slot)
{
    const lsi_place *place = &t->place[slot->index];

    slot->run.param_done = finish_param;
    slot->run.hook_argument = slot;
    LS_TRY(lsi_plan_backward(t->plan, &slot->run));
    LS_TRY(trace_at(t, t->compute, LSI_POINT_SLOT_END, slot->index));
    LS_TRY(t->backend->event_record(t->used[slot->index & 1], t->compute));
    if (slot->index == t->sizes.n_local - 1) {
        return stamp(t, t->compute, LSI_POINT_BACKWARD_END);
    }
    const lsi_lane *lane = &t->lanes.lane[place->order];
    return place->last_in_lane ? queue_lane_adds(t, lane, 0, t->sizes.n_elements) : LS_OK;
}

ls_status ls_trainer_backward(ls_trainer *trainer, ls_slot *slot)
{
    lsi_ranges_push(trainer->ranges, "slot %lld backward", (long long)slot->index);
    ls_status status = queue_backward(trainer, slot);

    lsi_ranges_pop(trainer->ranges);
    return status;
}

static ls_status queue_end(ls_trainer *t)
{
    for (int i = 0; i < t->sizes.n_buckets && !t->overlaps; i++) {
        LS_TRY(queue_bucket(t, i));
    }
    LS_TRY(queue_exchange(t));
    LS_TRY(queue_commit(t));
    if (!t->recorder.capturing) {
        LS_TRY(t->backend->event_record(t->committed[t->n_queued & 1], t->compute));
    }
    return queue_update(t);
}

ls_status lsi_step_queue(ls_trainer *trainer)
{
    ls_slot *slot;

    LS_TRY(open_step(trainer));
    while (ls_trainer_next_slot(trainer, &slot)) {
        LS_TRY(ls_trainer_forward(trainer, slot));
        LS_TRY(ls_trainer_backward(trainer, slot));
    }
    return queue_end(trainer);
}

/* The host can wait only for an event outside of the recording, so behind the whole step. */
static ls_status queue_replay(ls_trainer *t)
{
    LS_TRY(t->backend->replay(t->replayed));
    return t->backend->event_record(t->committed[t->n_queued & 1], t->compute);
}

static ls_status end(ls_trainer *t)
{
    LS_REQUIRE(t->next_slot == t->sizes.n_local, LS_ERR_INTERNAL, "ls_trainer_end with %lld slots of the step not run",
               (long long)(t->sizes.n_local - t->next_slot));
    LS_TRY(t->replayed != NULL ? queue_replay(t) : queue_end(t));
    t->n_queued++;
    return LS_OK;
}

ls_status ls_trainer_end(ls_trainer *trainer, ls_step_info *info)
{
    ls_status status = end(trainer);

    lsi_ranges_pop(trainer->ranges);
    lsi_trainer_fill_info(trainer, info);
    return status;
}

/* Makes the layers' weights whole on every rank, as the next step's beginning would. */
static ls_status queue_settling_gather(ls_trainer *t)
{
    LS_TRY(t->backend->event_record(t->fork, t->compute));
    LS_TRY(await(t, LSI_WAIT_SETTLING, t->comm_stream, t->fork));
    for (int i = 0; i < t->sizes.n_buckets; i++) {
        LS_TRY(t->rt->comm->transport->launch(t->bucket[i].gather, t->comm_stream));
    }
    LS_TRY(t->backend->event_record(t->exchanged, t->comm_stream));
    return await(t, LSI_WAIT_SETTLED, t->compute, t->exchanged);
}

ls_status lsi_trainer_collect(ls_trainer *trainer)
{
    while (trainer->n_done < trainer->n_queued) {
        LS_TRY(lsi_host_collect(trainer));
    }
    return LS_OK;
}

ls_status ls_trainer_settle(ls_trainer *trainer, ls_step_info *info)
{
    LS_TRY(lsi_trainer_collect(trainer));
    if (trainer->sizes.sharded) {
        LS_TRY(queue_settling_gather(trainer));
    }
    LS_TRY(trainer->backend->stream_sync(trainer->compute));
    lsi_observe_settled(trainer);
    if (trainer->n_done > trainer->first_step) {
        lsi_timeline_pause(&trainer->timeline, trainer->n_done - 1, trainer->trace);
    }
    if (info != NULL) {
        lsi_trainer_fill_info(trainer, info);
    }
    return LS_OK;
}
