#include "loop/events.h"

#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "base/version.h"
#include "job/stop.h"

static ls_status gather_devices(lsi_events *events, char **out, size_t width)
{
    const ls_runtime *rt = events->rt;
    char mine[256] = {0};

    snprintf(mine, sizeof mine, "%s: %s", rt->job->host, rt->backend->describe(rt->device));
    LS_TRY(lsi_memory_alloc((size_t)rt->job->world * width, "device names", (void **)out));
    return lsi_job_all_gather(rt->job, mine, width, *out);
}

static ls_status write_start(lsi_events *events, char *devices, size_t width, const char *resumed_from)
{
    const ls_runtime *rt = events->rt;
    int world = rt->job->world;
    char hash[17];
    int64_t *slots;
    const char **names;

    LS_TRY(lsi_memory_alloc((size_t)world * (sizeof *slots + sizeof *names), "start event", (void **)&slots));
    names = (const char **)(void *)(slots + world);
    for (int r = 0; r < world; r++) {
        slots[r] = lsi_geometry_n_local(&rt->geometry, r);
        names[r] = devices + (size_t)r * width;
    }
    lsi_config_hash(rt->loaded, events->trainer->data->content, hash);
    lsi_jsonl_begin(events->jsonl, "start");
    lsi_jsonl_string(events->jsonl, "version", lsi_version());
    lsi_jsonl_string(events->jsonl, "git", lsi_version_git());
    lsi_jsonl_int(events->jsonl, "world", world);
    lsi_jsonl_string(events->jsonl, "backend", rt->backend->name);
    lsi_jsonl_string(events->jsonl, "transport", rt->comm->transport->name);
    lsi_jsonl_strings(events->jsonl, "device", names, world);
    lsi_jsonl_bool(events->jsonl, "graphs", events->trainer->recorder.records);
    lsi_jsonl_string(events->jsonl, "fingerprint", rt->fingerprint);
    lsi_jsonl_string(events->jsonl, "config_hash", hash);
    lsi_jsonl_int(events->jsonl, "parameters", events->trainer->params->n_counted);
    lsi_jsonl_int(events->jsonl, "lanes", rt->geometry.n_lanes);
    lsi_jsonl_ints(events->jsonl, "slots_per_rank", slots, world);
    lsi_jsonl_double(events->jsonl, "step_flops", events->trainer->work.step_flops);
    if (events->trainer->work.product_flops > 0) {
        lsi_jsonl_double(events->jsonl, "product_flops_per_second", events->trainer->work.product_flops);
    }
    if (rt->tuning != NULL) {
        lsi_jsonl_string(events->jsonl, "gemm_plan", rt->tuning->hash);
    }
    if (resumed_from != NULL) {
        lsi_jsonl_string(events->jsonl, "resumed_from", resumed_from);
        lsi_jsonl_int(events->jsonl, "resumed_step", events->trainer->first_step);
    }
    lsi_memory_free(slots);
    return lsi_jsonl_end(events->jsonl);
}

ls_status lsi_events_start(lsi_events *events, const char *resumed_from)
{
    enum { WIDTH = 256 };
    char *devices = NULL;
    ls_status status = gather_devices(events, &devices, WIDTH);

    if (status == LS_OK && events->jsonl != NULL) {
        status = write_start(events, devices, WIDTH, resumed_from);
    }
    lsi_memory_free(devices);
    return status;
}

/* Name of the parameter whose gradient has the first element that is not finite; NULL when only the loss was not. */
static const char *bad_parameter(const lsi_events *events, const ls_step_result *result)
{
    const lsi_param_table *params = events->trainer->params;

    return result->bad_element >= 0 ? params->param[lsi_param_at(params, result->bad_element)].name : NULL;
}

/* A few skips at the start of a run with a dynamic loss scale are how the scale finds its place. */
static void say_skip(const lsi_events *events, const ls_step_result *result)
{
    const ls_step_state *state = &result->state;
    const char *name = bad_parameter(events, result);
    bool backs_off = state->loss_scale < result->scale_used;

    if (state->counted == 0) {
        lsi_log_info("step %lld skipped: no target counts", (long long)state->attempted);
    } else if (backs_off) {
        lsi_log_info(
            "step %lld skipped: the gradient of %s is not finite at loss scale %g, now %g (normal now and then)",
            (long long)state->attempted, name != NULL ? name : "the loss", (double)result->scale_used,
            (double)state->loss_scale);
    } else {
        lsi_log_info("step %lld skipped: the gradient of %s is not finite", (long long)state->attempted,
                     name != NULL ? name : "the loss");
    }
}

static ls_status write_skip(lsi_events *events)
{
    const ls_step_state *state = &events->pending.state;
    const char *name = bad_parameter(events, &events->pending);
    lsi_jsonl *j = events->jsonl;

    lsi_jsonl_begin(j, "skip");
    lsi_jsonl_int(j, "step", state->attempted);
    lsi_jsonl_string(j, "reason", state->counted == 0 ? "no counted target" : "gradient or loss not finite");
    if (name != NULL) {
        lsi_jsonl_string(j, "parameter", name);
    }
    lsi_jsonl_float(j, "loss_scale", state->loss_scale);
    return lsi_jsonl_end(j);
}

static ls_status write_step(lsi_events *events, const double *seconds)
{
    const ls_config *config = events->rt->config;
    const ls_step_state *state = &events->pending.state;
    double samples = (double)state->attempted * (double)config->train.global_batch;
    double rate = seconds[LS_EXCHANGE_STEP_SECONDS] > 0
                      ? (double)config->train.global_batch / seconds[LS_EXCHANGE_STEP_SECONDS]
                      : 0;
    lsi_jsonl *j = events->jsonl;

    events->has_pending = false;
    events->n_written = state->attempted;
    if (j == NULL) {
        return LS_OK;
    }
    if (state->skip) {
        LS_TRY(write_skip(events));
    }
    lsi_jsonl_begin(j, "step");
    lsi_jsonl_int(j, "step", state->attempted);
    lsi_jsonl_int(j, "applied", state->applied);
    lsi_jsonl_bool(j, "skipped", state->skip != 0);
    lsi_jsonl_double(j, "epoch", samples / (double)events->trainer->data->n_samples);
    lsi_jsonl_int(j, "samples", state->attempted * config->train.global_batch);
    lsi_jsonl_double(j, "loss", state->loss);
    lsi_jsonl_double(j, "grad_norm", state->grad_norm);
    lsi_jsonl_float(j, "lr", state->learning_rate);
    lsi_jsonl_float(j, "loss_scale", events->pending.scale_used);
    lsi_jsonl_int(j, "scale_tracker", state->growth_tracker);
    lsi_jsonl_int(j, "skips", state->skipped);
    lsi_jsonl_float(j, "step_seconds", (float)seconds[LS_EXCHANGE_STEP_SECONDS]);
    lsi_jsonl_float(j, "data_wait_seconds", (float)seconds[LS_EXCHANGE_DATA_WAIT]);
    lsi_jsonl_float(j, "compute_seconds", (float)seconds[LS_EXCHANGE_COMPUTE]);
    lsi_jsonl_float(j, "comm_seconds", (float)seconds[LS_EXCHANGE_COMM]);
    lsi_jsonl_float(j, "comm_exposed_seconds", (float)seconds[LS_EXCHANGE_COMM_EXPOSED]);
    lsi_jsonl_float(j, "samples_per_second", (float)rate);
    if (events->tokens) {
        lsi_jsonl_float(j, "tokens_per_second", (float)(rate * (double)events->trainer->data->target_count));
    }
    if (events->trainer->work.product_flops > 0) {
        lsi_jsonl_float(j, "mfu",
                        (float)lsi_work_utilization(&events->trainer->work, seconds[LS_EXCHANGE_STEP_SECONDS]));
    }
    return lsi_jsonl_end(j);
}

ls_status lsi_events_step(lsi_events *events)
{
    const ls_step_result *last = &events->trainer->last;

    if (events->trainer->n_done == events->trainer->first_step || last->state.attempted <= events->n_written) {
        return LS_OK;
    }
    if (events->has_pending && (int64_t)last->header[LS_EXCHANGE_TIMED_STEP] == events->pending.state.attempted) {
        LS_TRY(write_step(events, last->header));
    }
    if (last->state.skip) {
        say_skip(events, last);
    }
    events->pending = *last;
    events->has_pending = true;
    return LS_OK;
}

ls_status lsi_events_settle(lsi_events *events)
{
    const lsi_step_times *times = &events->trainer->times;
    double seconds[LS_EXCHANGE_HEADER] = {0};

    LS_TRY(lsi_events_step(events));
    seconds[LS_EXCHANGE_STEP_SECONDS] = times->step;
    seconds[LS_EXCHANGE_DATA_WAIT] = times->data_wait;
    seconds[LS_EXCHANGE_COMPUTE] = times->compute;
    seconds[LS_EXCHANGE_COMM] = times->comm;
    seconds[LS_EXCHANGE_COMM_EXPOSED] = times->comm_exposed;
    LS_TRY(lsi_job_max(events->rt->job, seconds, LS_EXCHANGE_HEADER));
    return events->has_pending ? write_step(events, seconds) : LS_OK;
}

ls_status lsi_events_evaluation(lsi_events *events, int64_t step, const ls_evaluation *evaluation, bool accuracy)
{
    if (events->jsonl == NULL) {
        return LS_OK;
    }
    lsi_jsonl_begin(events->jsonl, "eval");
    lsi_jsonl_int(events->jsonl, "step", step);
    lsi_jsonl_double(events->jsonl, "loss", evaluation->loss);
    if (accuracy) {
        lsi_jsonl_double(events->jsonl, "accuracy", evaluation->accuracy);
    }
    lsi_jsonl_int(events->jsonl, "samples", evaluation->samples);
    return lsi_jsonl_end(events->jsonl);
}

ls_status lsi_events_checkpoint(lsi_events *events, const lsi_saved *saved)
{
    if (events->jsonl == NULL) {
        return LS_OK;
    }
    lsi_jsonl_begin(events->jsonl, "checkpoint");
    lsi_jsonl_int(events->jsonl, "step", saved->step);
    lsi_jsonl_string(events->jsonl, "path", saved->path);
    lsi_jsonl_float(events->jsonl, "seconds", (float)saved->seconds);
    lsi_jsonl_float(events->jsonl, "stall_seconds", (float)saved->stall_seconds);
    lsi_jsonl_int(events->jsonl, "bytes", saved->bytes);
    return lsi_jsonl_end(events->jsonl);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

enum { N_MEMORY = LSI_MEMORY_CLASS_COUNT + 1 }; /* the classes, then the total */

typedef struct memory_use {
    int64_t planned[N_MEMORY], peak[N_MEMORY]; /* maxima over ranks */
    int64_t *resident_start, *resident_peak;   /* per rank */
    bool has_resident;                         /* every rank was told */
} memory_use;

/* The plan and the account of this rank, as doubles: exact up to 2^53. */
static void own_memory(const lsi_events *events, double planned[N_MEMORY], double peak[N_MEMORY])
{
    const lsi_memory_account *account = &events->rt->account;

    planned[LSI_MEMORY_CLASS_COUNT] = 0;
    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        planned[c] = (double)events->trainer->sizes.bytes[c];
        planned[LSI_MEMORY_CLASS_COUNT] += planned[c];
        peak[c] = (double)account->peak[c];
    }
    peak[LSI_MEMORY_CLASS_COUNT] = (double)account->peak_total;
}

static ls_status gather_resident(const lsi_events *events, memory_use *out)
{
    lsi_job *job = events->rt->job;
    int64_t start = events->resident_start, now = 0, peak = 0;
    bool told = lsi_proc_resident(&now, &peak) && start > 0;

    LS_TRY(lsi_memory_alloc(2 * (size_t)job->world * sizeof(int64_t), "memory in use", (void **)&out->resident_start));
    out->resident_peak = out->resident_start + job->world;
    peak = told ? peak : 0;
    LS_TRY(lsi_job_all_gather(job, &start, sizeof start, out->resident_start));
    LS_TRY(lsi_job_all_gather(job, &peak, sizeof peak, out->resident_peak));
    out->has_resident = true;
    for (int r = 0; r < job->world; r++) {
        out->has_resident = out->has_resident && out->resident_peak[r] > 0;
    }
    return LS_OK;
}

static ls_status gather_memory(const lsi_events *events, memory_use *out)
{
    double bytes[2 * N_MEMORY];

    own_memory(events, bytes, bytes + N_MEMORY);
    LS_TRY(lsi_job_max(events->rt->job, bytes, 2 * N_MEMORY));
    for (int i = 0; i < N_MEMORY; i++) {
        out->planned[i] = (int64_t)bytes[i];
        out->peak[i] = (int64_t)bytes[N_MEMORY + i];
    }
    return gather_resident(events, out);
}

static void write_memory(lsi_jsonl *jsonl, const memory_use *use, int world)
{
    const char *names[N_MEMORY];

    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        names[c] = lsi_memory_class_text((lsi_memory_class)c);
    }
    names[LSI_MEMORY_CLASS_COUNT] = "total";
    lsi_jsonl_named_ints(jsonl, "memory_planned_bytes", names, use->planned, N_MEMORY);
    lsi_jsonl_named_ints(jsonl, "memory_peak_bytes", names, use->peak, N_MEMORY);
    if (use->has_resident) {
        lsi_jsonl_ints(jsonl, "resident_start_bytes", use->resident_start, world);
        lsi_jsonl_ints(jsonl, "resident_peak_bytes", use->resident_peak, world);
    }
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static ls_status write_done(lsi_events *events, const lsi_events_end *end, const memory_use *use)
{
    bool stopped = end->stop != LSI_STOP_NONE;

    lsi_jsonl_begin(events->jsonl, stopped ? "stopped" : "done");
    lsi_jsonl_int(events->jsonl, "step", events->trainer->n_done);
    lsi_jsonl_string(events->jsonl, "reason", stopped ? lsi_stop_text(end->stop) : "finished");
    lsi_jsonl_string(events->jsonl, "weights_hash", end->weights_hash);
    lsi_jsonl_double(events->jsonl, "train_seconds", end->train_seconds);
    if (end->evaluation != NULL) {
        lsi_jsonl_double(events->jsonl, "loss", end->evaluation->loss);
        if (end->accuracy) {
            lsi_jsonl_double(events->jsonl, "accuracy", end->evaluation->accuracy);
        }
    }
    write_memory(events->jsonl, use, events->rt->job->world);
    return lsi_jsonl_end(events->jsonl);
}

ls_status lsi_events_done(lsi_events *events, const lsi_events_end *end)
{
    memory_use use = {0};
    ls_status status = gather_memory(events, &use);

    if (status == LS_OK && events->jsonl != NULL) {
        status = write_done(events, end, &use);
    }
    lsi_memory_free(use.resident_start);
    return status;
}
