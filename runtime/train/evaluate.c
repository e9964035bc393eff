/* Mean loss over a held-out set. */
#include "train/trainer.h"

#include <math.h>

#include "base/memory.h"
#include "data/slot.h"
#include "job/stop.h"

/* Slots of one evaluation and this rank's run of them. */
typedef struct part {
    int64_t n_slots, first, count, most;
} part;

static part cut(const ls_trainer *t, const ls_dataset *data, int64_t max_slots)
{
    int64_t micro = t->rt->geometry.micro_batch, world = t->rt->geometry.world, rank = t->rt->geometry.rank;
    part p = {.n_slots = (data->n_samples + micro - 1) / micro};

    if (max_slots > 0 && max_slots < p.n_slots) {
        p.n_slots = max_slots;
    }
    p.first = p.n_slots * rank / world;
    p.count = p.n_slots * (rank + 1) / world - p.first;
    p.most = (p.n_slots + world - 1) / world;
    return p;
}

static int64_t samples_of(const ls_trainer *t, const ls_dataset *data, int64_t slot)
{
    int64_t micro = t->rt->geometry.micro_batch, left = data->n_samples - slot * micro;

    return left < micro ? left : micro;
}

/* Queues one slot: pinned memory -> device -> forward -> record back to pinned memory. */
static ls_status queue_slot(ls_trainer *t, const ls_dataset *data, int64_t slot, int half)
{
    const ls_backend *b = t->backend;
    const lsi_sizes *s = &t->sizes;
    int64_t micro = t->rt->geometry.micro_batch;
    ls_slot_record *record = (ls_slot_record *)(void *)((double *)t->exchange_mine.data + t->exchange.records);
    lsi_plan_run run = {
        .stream = t->compute,
        .state = t->state.data,
        .weights = t->layer_weights.data,
        .activations = t->activations.data,
        .input = t->batch_input[half].data,
        .targets = t->batch_targets[half].data,
        .record = record,
        .first_sample = slot * micro,
        .seed = (uint64_t)t->rt->config->train.seed,
        .loss_seed = t->loss_seed,
    };

    LS_TRY(lsi_slot_read(data, slot * micro, samples_of(t, data, slot), micro, t->eval_input[half].data,
                         t->eval_targets[half].data));
    LS_TRY(b->copy(t->compute, t->batch_input[half].data, t->eval_input[half].data, s->input_bytes));
    LS_TRY(b->copy(t->compute, t->batch_targets[half].data, t->eval_targets[half].data, s->target_bytes));
    LS_TRY(b->fill(t->compute, record, 0, sizeof *record));
    LS_TRY(lsi_plan_forward(t->eval_plan, &run));
    LS_TRY(b->copy(t->compute, &t->control->eval_record[half], record, sizeof *record));
    return b->event_record(t->used[half], t->compute);
}

static ls_status take_record(ls_trainer *t, int64_t i, ls_slot_record *records)
{
    LS_TRY(t->backend->event_sync(t->used[i & 1]));
    records[i] = t->control->eval_record[i & 1];
    return LS_OK;
}

/* Two slots are under way: while one computes the next is read. A request to stop ends it after these. */
static ls_status run_part(ls_trainer *t, const ls_dataset *data, const part *p, ls_slot_record *records)
{
    int64_t queued = 0;

    for (; queued < p->count && lsi_stop_requested() == LSI_STOP_NONE; queued++) {
        if (queued >= 2) {
            LS_TRY(take_record(t, queued - 2, records));
        }
        LS_TRY(queue_slot(t, data, p->first + queued, (int)(queued & 1)));
        lsi_watchdog_tick(t->rt->watchdog);
    }
    for (int64_t i = queued > 2 ? queued - 2 : 0; i < queued; i++) {
        LS_TRY(take_record(t, i, records));
    }
    return LS_OK;
}

ls_status lsi_trainer_agree_on_stop(ls_trainer *trainer, int *out)
{
    double reason = (double)lsi_stop_requested();

    LS_TRY(lsi_job_max(trainer->rt->job, &reason, 1));
    *out = (int)reason;
    return LS_OK;
}

/* Adds the records of all ranks in slot order. */
static void add_up(const ls_trainer *t, const part *p, const ls_slot_record *all, ls_evaluation *out)
{
    double loss = 0, counted = 0, hits = 0;
    int64_t world = t->rt->geometry.world;

    for (int64_t rank = 0; rank < world; rank++) {
        int64_t count = p->n_slots * (rank + 1) / world - p->n_slots * rank / world;

        for (int64_t i = 0; i < count; i++) {
            const ls_slot_record *record = &all[rank * p->most + i];

            loss += record->loss_sum;
            counted += record->counted;
            hits += record->hits;
        }
    }
    out->counted = (int64_t)counted;
    out->loss = counted > 0 ? loss / counted : (double)NAN;
    out->accuracy = counted > 0 ? hits / counted : (double)NAN;
}

ls_status ls_trainer_evaluate(ls_trainer *trainer, const ls_dataset *data, int64_t max_slots, ls_evaluation *out)
{
    part p = cut(trainer, data, max_slots);
    size_t bytes = (size_t)p.most * sizeof(ls_slot_record), world = (size_t)trainer->rt->geometry.world;
    ls_slot_record *records;
    int stop;

    *out = (ls_evaluation){.struct_size = sizeof *out};
    LS_TRY(lsi_runtime_agree(trainer->rt, lsi_trainer_check_data(trainer->graph, data, "evaluation data")));
    LS_TRY(lsi_memory_alloc(bytes * (world + 1), "evaluation records", (void **)&records));
    ls_slot_record *all = records + p.most;
    ls_status status = run_part(trainer, data, &p, records);
    if (status == LS_OK) {
        status = lsi_trainer_agree_on_stop(trainer, &stop);     /* a part may be incomplete */
    }
    if (status == LS_OK) {
        out->stopped = stop != LSI_STOP_NONE;
    }
    if (status == LS_OK) {
        status = lsi_job_all_gather(trainer->rt->job, records, bytes, all);
    }
    if (status == LS_OK) {
        add_up(trainer, &p, all, out);
        int64_t seen = p.n_slots * trainer->rt->geometry.micro_batch;
        out->samples = seen < data->n_samples ? seen : data->n_samples;
    }
    lsi_memory_free(records);
    return status;
}
