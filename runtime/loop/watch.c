#include "loop/watch.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "device/inventory_text.h"
#include "device/xid.h"

/* Of a hint: seen in so many samples in a row, so that a moment is no news. */
enum { SLOW_SAMPLES = 3, SHARED_SAMPLES = 2, SAID = -1 };
/* Steps and seconds over which waiting for data counts, and the share of them that is worth a word. */
enum { WAIT_STEPS = 20, WAIT_SECONDS = 5 };
static const double wait_share = 0.25;
/* NVML's bits: hardware slowdown, temperature (software, hardware), power brake. A power limit is how GPUs are run. */
static const int64_t slow_bits = 0x8 | 0x20 | 0x40 | 0x80;

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status allocate(lsi_watch *w, int world)
{
    size_t n = (size_t)world;
    void *memory;

    LS_TRY(lsi_memory_alloc(n * (sizeof(double) + sizeof(char *) + sizeof(int64_t) + 3 * sizeof(int)), "watching",
                            &memory));
    w->column = memory;
    w->texts = (const char **)(void *)(w->column + n);
    w->ranks = (int64_t *)(void *)(w->texts + n);
    w->slow = (int *)(void *)(w->ranks + n);
    w->shared = w->slow + n;
    w->xid = w->shared + n;
    return LS_OK;
}

ls_status lsi_watch_open(lsi_watch *w, const ls_trainer *trainer, bool tokens)
{
    ls_runtime *rt = trainer->rt;
    const lsi_monitor_options options = {
        .job = rt->job,
        .gpu = rt->binding != NULL ? &rt->binding->gpu : NULL,
        .interval = rt->config->monitor.interval,
        .port = (int)rt->config->monitor.port,
        .textfile = rt->config->monitor.textfile,
        .leases = rt->config->device.leases,
    };

    w->trainer = trainer;
    w->tokens = tokens;
    w->shown_step = trainer->first_step;
    LS_TRY(lsi_job_agree(rt->job, allocate(w, rt->job->world)));
    return lsi_monitor_open(&options, &w->monitor);
}

void lsi_watch_close(lsi_watch *w)
{
    lsi_monitor_close(&w->monitor);
    lsi_memory_free(w->column);
    w->column = NULL;
}

/* ---- hints ------------------------------------------------------------------------------------------------------- */

static ls_status write_down(lsi_watch *w, lsi_jsonl *jsonl, const char *kind, const lsi_text *message)
{
    LS_TRY(lsi_text_status(message));
    lsi_jsonl_begin(jsonl, "warning");
    lsi_jsonl_int(jsonl, "step", w->trainer->n_done);
    lsi_jsonl_string(jsonl, "kind", kind);
    lsi_jsonl_string(jsonl, "message", message->data);
    return lsi_jsonl_end(jsonl);
}

static ls_status say(lsi_watch *w, lsi_jsonl *jsonl, const char *kind, const lsi_text *message)
{
    LS_TRY(lsi_text_status(message));
    lsi_log_warn("%s", message->data);
    return write_down(w, jsonl, kind, message);
}

static void append_gpu(const lsi_gpu_label *label, lsi_text *out)
{
    lsi_text_append(out, "the GPU of rank %d (%s, %s, on %s)", label->rank, label->name, label->uuid, label->host);
}

/* Counts samples in a row; true once, when there are `enough`. */
static bool is_news(int *count, bool seen, int enough)
{
    if (*count == SAID) {
        return false;
    }
    *count = seen ? *count + 1 : 0;
    if (*count < enough) {
        return false;
    }
    *count = SAID;
    return true;
}

static ls_status hint_slow(lsi_watch *w, lsi_jsonl *jsonl, const lsi_gpu_label *label, const lsi_gpu_numbers *numbers)
{
    int64_t bits = (int64_t)numbers->value[LSI_GPU_GAUGE_throttle] & slow_bits;
    lsi_text message = {0};

    append_gpu(label, &message);
    lsi_text_append(&message, " is slowed down");
    lsi_inventory_append_throttles(bits, " by: ", &message);
    if (!isnan(numbers->value[LSI_GPU_GAUGE_temperature])) {
        lsi_text_append(&message, "; it has %.0f C", numbers->value[LSI_GPU_GAUGE_temperature]);
    }
    lsi_text_append(&message, ", and all others wait for it: see to its cooling and power, or leave it out "
                              "(device.exclude)");
    ls_status status = say(w, jsonl, "gpu_slow", &message);
    lsi_text_free(&message);
    return status;
}

static ls_status hint_shared(lsi_watch *w, lsi_jsonl *jsonl, const lsi_gpu_label *label, int strangers)
{
    lsi_text message = {0};

    append_gpu(label, &message);
    lsi_text_append(&message, " is used by %d process%s of others, too: steps take longer, and memory may run out; "
                              "`gpus` shows whose", strangers, strangers > 1 ? "es" : "");
    ls_status status = say(w, jsonl, "gpu_shared", &message);
    lsi_text_free(&message);
    return status;
}

/* The host of the GPU has said it (metrics/monitor.c). */
static ls_status write_xid(lsi_watch *w, lsi_jsonl *jsonl, const lsi_gpu_label *label, int number)
{
    lsi_xid xid = lsi_xid_find(number);
    lsi_text message = {0};

    append_gpu(label, &message);
    lsi_text_append(&message, " reports Xid %d: %s; %s", number, xid.words, xid.advice);
    ls_status status = write_down(w, jsonl, "gpu_xid", &message);
    lsi_text_free(&message);
    return status;
}

/* Times of a step come with the exchange of a later one, each once. */
static ls_status hint_data(lsi_watch *w, lsi_jsonl *jsonl)
{
    const double *header = w->trainer->last.header;
    lsi_text message = {0};

    if (w->waits_said || w->trainer->rt->binding == NULL || (int64_t)header[LS_EXCHANGE_TIMED_STEP] <= w->timed_step) {
        return LS_OK;
    }
    w->timed_step = (int64_t)header[LS_EXCHANGE_TIMED_STEP];
    w->steps_seconds += header[LS_EXCHANGE_STEP_SECONDS];
    w->data_seconds += header[LS_EXCHANGE_DATA_WAIT];
    if (++w->n_steps < WAIT_STEPS || w->steps_seconds < WAIT_SECONDS) {
        return LS_OK;
    }
    double share = w->data_seconds / w->steps_seconds;
    w->n_steps = 0;
    w->steps_seconds = w->data_seconds = 0;
    if (share < wait_share) {
        return LS_OK;
    }
    w->waits_said = true;
    lsi_text_append(&message, "GPUs wait for data in %.0f %% of the time: give data.workers more threads, data.prefetch "
                              "more steps, or the data a faster disk", 100 * share);
    ls_status status = say(w, jsonl, "data_wait", &message);
    lsi_text_free(&message);
    return status;
}

static ls_status hint(lsi_watch *w, lsi_jsonl *jsonl, const lsi_monitor_samples *s)
{
    for (int i = 0; i < s->n; i++) {
        const lsi_gpu_numbers *numbers = &s->numbers[i];
        double bits = numbers->value[LSI_GPU_GAUGE_throttle];

        if (!numbers->valid) {
            continue;
        }
        if (is_news(&w->slow[i], !isnan(bits) && ((int64_t)bits & slow_bits) != 0, SLOW_SAMPLES)) {
            LS_TRY(hint_slow(w, jsonl, &s->labels[i], numbers));
        }
        if (is_news(&w->shared[i], numbers->strangers > 0, SHARED_SAMPLES)) {
            LS_TRY(hint_shared(w, jsonl, &s->labels[i], numbers->strangers));
        }
        double xid = numbers->value[LSI_GPU_GAUGE_xid];
        if (!isnan(xid) && (int)xid != w->xid[i]) {
            w->xid[i] = (int)xid;
            LS_TRY(write_xid(w, jsonl, &s->labels[i], w->xid[i]));
        }
    }
    return LS_OK;
}

/* ---- the event ------------------------------------------------------------------------------------------------- */

static void write_column(lsi_watch *w, lsi_jsonl *jsonl, const lsi_monitor_samples *s, int gauge)
{
    bool any = false;

    for (int i = 0; i < s->n; i++) {
        bool told = s->numbers[i].valid && !isnan(s->numbers[i].value[gauge]);

        w->column[i] = told ? s->numbers[i].value[gauge] * lsi_gauges_json_factor((lsi_gpu_gauge)gauge) : (double)NAN;
        any |= told;
    }
    if (any) {
        lsi_jsonl_doubles(jsonl, lsi_gauges_json_name((lsi_gpu_gauge)gauge), w->column, s->n);
    }
}

/* Steps since the last event; energy is shared out among them. */
static void write_energy(lsi_watch *w, lsi_jsonl *jsonl, const lsi_monitor_samples *s)
{
    int64_t steps = w->trainer->n_done - w->shown_step;
    double samples = (double)steps * (double)w->trainer->rt->config->train.global_batch;

    lsi_jsonl_double(jsonl, "seconds", s->seconds);
    lsi_jsonl_int(jsonl, "steps", steps);
    if (!isnan(s->joules)) {
        lsi_jsonl_double(jsonl, "energy_joules", s->joules);
        if (steps > 0) {
            lsi_jsonl_double(jsonl, "energy_joules_per_step", s->joules / (double)steps);
            lsi_jsonl_double(jsonl, "energy_joules_per_sample", s->joules / samples);
        }
    }
}

static ls_status write_event(lsi_watch *w, lsi_jsonl *jsonl, const lsi_monitor_samples *s)
{
    for (int i = 0; i < s->n; i++) {
        w->ranks[i] = s->labels[i].rank;
        w->texts[i] = s->labels[i].uuid;
    }
    lsi_jsonl_begin(jsonl, "gpu");
    lsi_jsonl_int(jsonl, "step", w->trainer->n_done);
    write_energy(w, jsonl, s);
    lsi_jsonl_ints(jsonl, "rank", w->ranks, s->n);
    lsi_jsonl_strings(jsonl, "uuid", w->texts, s->n);
    for (int g = 0; g < LSI_GPU_GAUGES; g++) {
        write_column(w, jsonl, s, g);
    }
    w->shown_step = w->trainer->n_done;
    return lsi_jsonl_end(jsonl);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void fill_numbers(lsi_watch *w)
{
    const ls_trainer *t = w->trainer;
    const ls_step_result *last = &t->last;
    double batch = (double)t->rt->config->train.global_batch, samples = (double)t->n_done * batch;
    lsi_trainer_numbers *n = &w->numbers;

    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_step, (double)t->n_done);
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_end_step, (double)t->end_step);
    if (t->n_done == t->first_step) {
        return; /* nothing was trained yet */
    }
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_loss, last->state.loss);
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_grad_norm, last->state.grad_norm);
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_learning_rate, (double)last->state.learning_rate);
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_loss_scale, (double)last->scale_used);
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_skipped, (double)last->state.skipped);
    lsi_gauges_tell(n, LSI_TRAINER_GAUGE_samples, samples);
    if (w->tokens) {
        lsi_gauges_tell(n, LSI_TRAINER_GAUGE_tokens, samples * (double)t->data->target_count);
    }
    if (last->header[LS_EXCHANGE_TIMED_STEP] > 0) {
        lsi_gauges_tell(n, LSI_TRAINER_GAUGE_step_seconds, last->header[LS_EXCHANGE_STEP_SECONDS]);
        lsi_gauges_tell(n, LSI_TRAINER_GAUGE_data_wait_seconds, last->header[LS_EXCHANGE_DATA_WAIT]);
        lsi_gauges_tell(n, LSI_TRAINER_GAUGE_compute_seconds, last->header[LS_EXCHANGE_COMPUTE]);
        lsi_gauges_tell(n, LSI_TRAINER_GAUGE_comm_seconds, last->header[LS_EXCHANGE_COMM]);
        lsi_gauges_tell(n, LSI_TRAINER_GAUGE_comm_exposed_seconds, last->header[LS_EXCHANGE_COMM_EXPOSED]);
    }
}

ls_status lsi_watch_step(lsi_watch *w, lsi_jsonl *jsonl)
{
    lsi_monitor_samples samples;

    if (w->monitor == NULL) {
        return LS_OK;
    }
    fill_numbers(w);
    lsi_monitor_tell(w->monitor, &w->numbers);
    if (jsonl == NULL) {
        return LS_OK;
    }
    LS_TRY(hint_data(w, jsonl));
    if (!lsi_monitor_take(w->monitor, &samples)) {
        return LS_OK;
    }
    LS_TRY(write_event(w, jsonl, &samples));
    return hint(w, jsonl, &samples);
}

void lsi_watch_checkpoint(lsi_watch *w, const lsi_saved *saved)
{
    lsi_gauges_tell(&w->numbers, LSI_TRAINER_GAUGE_checkpoint_step, (double)saved->step);
    lsi_gauges_tell(&w->numbers, LSI_TRAINER_GAUGE_checkpoint_seconds, saved->seconds);
    lsi_monitor_tell(w->monitor, &w->numbers);
}
