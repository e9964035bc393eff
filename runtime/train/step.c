/* One step, queued over three streams. DESIGN's order: the share moves slot by slot on *copy* while *compute* works;
 * lanes are added up as they are complete; buckets are reduced on *comm* after the last backward, then the scalar
 * exchange; the commit op decides; the optimizer obeys. The same code queues a step, records it, and lets tests leave
 * out each wait in turn. */
#include "train/trainer.h"

#include <math.h>

#include "kernels/ops.h"
#include "train/optimizer.h"

/* ---- small pieces ---------------------------------------------------------------------------------------------- */

static ls_status await(ls_trainer *t, lsi_step_wait which, ls_stream *stream, ls_event *event)
{
    return t->hooks.left_out == which ? LS_OK : t->backend->event_wait(stream, event);
}

static ls_status stamp(ls_trainer *t, ls_stream *stream, lsi_point point)
{
    return t->backend->stamp(stream, lsi_timeline_id(t->n_queued, point));
}

static ls_slot_record *record_of(ls_trainer *t, int64_t local_slot)
{
    return (ls_slot_record *)(void *)(t->exchange_mine + t->exchange.records) + local_slot;
}

/* ---- the host's one wait ----------------------------------------------------------------------------------------- */

/* Waits for the oldest step that is not known to be committed and takes its result. */
static ls_status collect(ls_trainer *t)
{
    int64_t step = t->n_done;

    if (t->hooks.left_out != LSI_WAIT_HOST) {
        LS_TRY(t->backend->event_sync(t->committed[step & 1]));
    }
    t->last = t->control->result[step & 1];
    lsi_timeline_read(&t->timeline, step, &t->times);
    t->n_done++;
    if (t->hooks.left_out == LSI_WAIT_HOST) {
        return LS_OK;
    }
    LS_REQUIRE(t->last.state.attempted == step + 1, LS_ERR_INTERNAL, "step %lld left the result of step %lld",
               (long long)(step + 1), (long long)t->last.state.attempted);
    LS_REQUIRE(t->last.runs_wrong == 0, LS_ERR_INTERNAL, "%.0f slots of step %lld did not run exactly once",
               t->last.runs_wrong, (long long)(step + 1));
    if (t->last.state.in_a_row >= t->rt->config->loss_scale.give_up_after) {
        /* Every rank reads the same state and gets here in the same step. */
        return lsi_runtime_agree(
            t->rt,
            LS_FAIL(LS_ERR_NUMERIC,
                    "step %lld: the gradient was not finite %lld times in a row (loss_scale.give_up_after); lower "
                    "optimizer.lr, or look for bad values in the data",
                    (long long)(step + 1), (long long)t->last.state.in_a_row));
    }
    return LS_OK;
}

static void fill_info(const ls_trainer *t, ls_step_info *info)
{
    const ls_step_state *state = &t->last.state;

    *info = (ls_step_info){
        .struct_size = sizeof *info,
        .step = t->n_done,
        .applied = state->applied,
        .skipped = state->skip != 0,
        .loss = state->loss,
        .grad_norm = state->grad_norm,
        .learning_rate = (double)state->learning_rate,
        .loss_scale = (double)state->loss_scale,
        .step_seconds = t->times.step,
        .data_wait_seconds = t->times.data_wait,
        .compute_seconds = t->times.compute,
        .comm_seconds = t->times.comm,
        .comm_exposed_seconds = t->times.comm_exposed,
    };
}

/* What the host tells the step: possible learning rates, and its times of the last step it knows. */
static void hand_over(ls_trainer *t)
{
    int parity = (int)(t->n_queued & 1);
    lsi_rates *rates = &t->control->rates[parity];
    double *header = t->control->header[parity];

    rates->base = (double)t->last.state.applied;
    for (int i = 0; i < (int)(sizeof rates->rate / sizeof rates->rate[0]); i++) {
        rates->rate[i] = t->schedule(t->schedule_argument, t->last.state.applied + i);
    }
    header[LS_EXCHANGE_STEP_SECONDS] = t->times.step;
    header[LS_EXCHANGE_DATA_WAIT] = t->times.data_wait;
    header[LS_EXCHANGE_COMPUTE] = t->times.compute;
    header[LS_EXCHANGE_COMM] = t->times.comm;
    header[LS_EXCHANGE_COMM_EXPOSED] = t->times.comm_exposed;
}

/* ---- the parts of a step ----------------------------------------------------------------------------------------- */

static ls_status queue_begin(ls_trainer *t)
{
    LS_TRY(stamp(t, t->compute, LSI_POINT_BEGIN));
    LS_TRY(t->backend->fill(t->compute, record_of(t, 0), 0, (size_t)t->sizes.n_local * sizeof(ls_slot_record)));
    LS_TRY(t->backend->event_record(t->fork, t->compute));
    return await(t, LSI_WAIT_FORK, t->copy, t->fork);
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
    LS_TRY(b->copy(t->copy, t->batch_input[half].data, input + (size_t)j * s->input_bytes, s->input_bytes));
    LS_TRY(b->copy(t->copy, t->batch_targets[half].data, targets + (size_t)j * s->target_bytes, s->target_bytes));
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
        float *from = t->gradient[lane->add[i].from] + first, *into = t->gradient[lane->add[i].into] + first;

        LS_TRY(lsi_add_into(t->compute, &(lsi_add_into_args){
                                            .x = ls_view_make(from, count, LS_F32),
                                            .y = ls_view_make(into, count, LS_F32),
                                        }));
    }
    return LS_OK;
}

/* Reduces bucket i once its gradients are ready, and sums the squares of the chunk this rank owns. */
static ls_status queue_bucket(ls_trainer *t, int i, int64_t *sums_at)
{
    const lsi_bucket *bucket = &t->bucket[i];
    int64_t n_blocks = bucket->owned_count / LSI_BLOCK;

    LS_TRY(queue_lane_adds(t, &t->lanes.lane[t->lanes.n - 1], bucket->first, bucket->count));
    LS_TRY(t->backend->event_record(t->ready, t->compute));
    LS_TRY(await(t, LSI_WAIT_BUCKET, t->comm_stream, t->ready));
    LS_TRY(stamp(t, t->comm_stream, LSI_POINT_COMM_BEGIN));
    LS_TRY(t->rt->comm->transport->launch(bucket->reduce, t->comm_stream));
    LS_TRY(stamp(t, t->comm_stream, LSI_POINT_COMM_END));
    if (n_blocks > 0) {
        float *total = t->gradient[t->lanes.root[0].buffer] + bucket->owned_first;

        LS_TRY(lsi_block_norms(t->comm_stream, &(lsi_block_norms_args){
                                                   .g = ls_view_make(total, bucket->owned_count, LS_F32),
                                                   .sums = ls_view_make(t->exchange_mine + *sums_at, n_blocks, LS_F64),
                                               }));
    }
    *sums_at += n_blocks;
    return LS_OK;
}

static ls_status queue_exchange(ls_trainer *t)
{
    const double *header = t->control->header[t->n_queued & 1];

    LS_TRY(t->backend->copy(t->comm_stream, t->exchange_mine, header, LS_EXCHANGE_HEADER * sizeof(double)));
    LS_TRY(stamp(t, t->comm_stream, LSI_POINT_COMM_BEGIN));
    LS_TRY(t->rt->comm->transport->launch(t->exchange_collective, t->comm_stream));
    LS_TRY(stamp(t, t->comm_stream, LSI_POINT_COMM_END));
    LS_TRY(t->backend->event_record(t->exchanged, t->comm_stream));
    return await(t, LSI_WAIT_EXCHANGED, t->compute, t->exchanged);
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
                          .values = ls_view_make(t->exchange_all, world * t->exchange.stride, LS_F64),
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
                      }));
    return stamp(t, t->compute, LSI_POINT_COMMIT);
}

static ls_status queue_update(ls_trainer *t)
{
    lsi_optimizer_memory memory = {
        .weights = t->weights.data,
        .gradients = t->gradient[t->lanes.root[0].buffer],
        .moment = {t->moment[0].data, t->moment[1].data},
    };

    LS_TRY(lsi_optimizer_update(t->rt->config, t->params, &memory, t->state.data, t->compute, 0, t->sizes.n_elements));
    return stamp(t, t->compute, LSI_POINT_END);
}

/* ---- the step as callers drive it -------------------------------------------------------------------------------- */

ls_status ls_trainer_begin(ls_trainer *trainer)
{
    ls_trainer *t = trainer;
    int parity = (int)(t->n_queued & 1);

    while (t->n_queued - t->n_done >= t->hooks.steps_in_flight) {
        LS_TRY(collect(t));
    }
    hand_over(t);
    if (t->rt->config->data.workers == 0) {
        LS_TRY(lsi_loader_fill(t->loader, t->n_queued));
    }
    if (t->recording[parity] != NULL) {
        t->next_slot = t->sizes.n_local;
        return LS_OK;
    }
    t->next_slot = 0;
    /* Two steps run as they are queued first: kernels that compile themselves do it there. */
    t->capturing = t->use_recordings && t->n_queued >= 2;
    if (t->capturing) {
        LS_TRY(t->backend->capture_begin(t->compute));
    }
    return queue_begin(t);
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
                .weights = t->weights.data,
                .gradients = t->gradient[t->lanes.lane[place->order].buffer],
                .activations = t->activations.data,
                .input = t->batch_input[j & 1].data,
                .targets = t->batch_targets[j & 1].data,
                .record = record_of(t, j),
                .first_sample = place->slot * t->rt->geometry.micro_batch,
                .seed = (uint64_t)t->rt->config->train.seed,
                .loss_seed = t->loss_seed,
                .first_in_lane = place->first_in_lane,
            },
    };
    *out = &t->slot;
    return true;
}

ls_status ls_trainer_forward(ls_trainer *trainer, ls_slot *slot)
{
    LS_TRY(queue_batch(trainer, slot->index));
    return lsi_plan_forward(trainer->plan, &slot->run);
}

ls_status ls_trainer_backward(ls_trainer *trainer, ls_slot *slot)
{
    ls_trainer *t = trainer;
    const lsi_place *place = &t->place[slot->index];

    LS_TRY(lsi_plan_backward(t->plan, &slot->run));
    LS_TRY(t->backend->event_record(t->used[slot->index & 1], t->compute));
    if (slot->index == t->sizes.n_local - 1) {
        return stamp(t, t->compute, LSI_POINT_BACKWARD_END);
    }
    return place->last_in_lane ? queue_lane_adds(t, &t->lanes.lane[place->order], 0, t->sizes.n_elements) : LS_OK;
}

static ls_status queue_end(ls_trainer *t)
{
    int64_t sums_at = t->exchange.sums;

    for (int i = 0; i < t->sizes.n_buckets; i++) {
        LS_TRY(queue_bucket(t, i, &sums_at));
    }
    LS_TRY(queue_exchange(t));
    LS_TRY(queue_commit(t));
    if (!t->capturing) {
        LS_TRY(t->backend->event_record(t->committed[t->n_queued & 1], t->compute));
    }
    return queue_update(t);
}

ls_status ls_trainer_end(ls_trainer *trainer, ls_step_info *info)
{
    ls_trainer *t = trainer;
    int parity = (int)(t->n_queued & 1);
    bool replays = t->recording[parity] != NULL;

    LS_REQUIRE(t->next_slot == t->sizes.n_local, LS_ERR_INTERNAL, "ls_trainer_end with %lld slots of the step not run",
               (long long)(t->sizes.n_local - t->next_slot));
    if (!replays) {
        LS_TRY(queue_end(t));
    }
    if (t->capturing) {
        t->capturing = false;
        LS_TRY(t->backend->capture_end(t->compute, &t->recording[parity]));
    }
    if (t->recording[parity] != NULL) {
        LS_TRY(t->backend->replay(t->recording[parity]));
        LS_TRY(t->backend->event_record(t->committed[parity], t->compute));
    }
    t->n_queued++;
    fill_info(t, info);
    return LS_OK;
}

ls_status ls_trainer_settle(ls_trainer *trainer, ls_step_info *info)
{
    while (trainer->n_done < trainer->n_queued) {
        LS_TRY(collect(trainer));
    }
    LS_TRY(trainer->backend->stream_sync(trainer->compute));
    if (info != NULL) {
        fill_info(trainer, info);
    }
    return LS_OK;
}
