/* ls_run and ls_run_model: the whole loop. */
#include "loop/run.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "checkpoint/saver.h"
#include "data/datasets.h"
#include "job/stop.h"
#include "loop/events.h"
#include "loop/output.h"
#include "loop/progress.h"
#include "loop/report.h"
#include "loop/watch.h"
#include "metrics/trace.h"
#include "models/models.h"

/* Everything one run opens; closed in reverse order. */
typedef struct run {
    ls_runtime *rt;
    ls_run_parts parts; /* what is trained; borrowed */
    const char *model;   /* what messages call it */
    ls_trainer *trainer;
    lsi_checkpoint_place place;
    lsi_resume from;
    lsi_saver *saver; /* NULL under checkpoint.save = false */
    lsi_events events;
    lsi_trace *trace; /* NULL without log.trace */
    lsi_progress progress;
    lsi_watch watch;
    bool evaluated; /* `evaluation` is there: the last one */
    ls_evaluation evaluation;
    int64_t evaluated_step; /* the newest step whose evaluation is in the metrics file; 0: none */
    int stop;               /* why the run ends early; LSI_STOP_NONE: it does not */
} run;

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* Rank 0: the metrics file goes on where the checkpoint says, or begins. */
static ls_status open_metrics(run *r, lsi_previous *previous)
{
    const ls_config *config = r->rt->config;
    lsi_output output = {
        .dir = config->log.dir,
        .metrics = config->log.metrics,
        .keep_bytes = r->from.found && r->from.in_place ? r->from.metrics_bytes : -1,
        .copy_first = r->from.found && previous->beside != NULL,
    };

    LS_TRY(lsi_output_prepare(&output, previous));
    return lsi_jsonl_open(config->log.metrics, &r->events.jsonl);
}

static ls_status on_saved(void *argument, const lsi_saved *saved)
{
    run *r = argument;

    lsi_watch_checkpoint(&r->watch, saved);
    return lsi_events_checkpoint(&r->events, saved);
}

/* Collective. */
static ls_status open_saver(run *r)
{
    lsi_saver_options options = {
        .trainer = r->trainer, .place = &r->place, .from = &r->from, .on_saved = on_saved, .argument = r};

    return r->rt->config->checkpoint.save ? lsi_saver_open(&options, &r->saver) : LS_OK;
}

/* Collective: the checkpoint to go on from, and where output goes. Nothing is touched before all of it is known good.
 */
static ls_status open_outputs(run *r)
{
    lsi_previous previous = {0};
    ls_status status =
        lsi_runtime_agree(r->rt, r->rt->job->rank == 0 ? lsi_output_check(r->rt->config->log.metrics) : LS_OK);

    if (status == LS_OK) {
        status = lsi_place_open(r->rt, r->rt->config->checkpoint.save, &r->place);
    }
    if (status == LS_OK) {
        status = lsi_resume_load(r->trainer, &r->place, &previous, &r->from);
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(r->rt, r->rt->job->rank == 0 ? open_metrics(r, &previous) : LS_OK);
    }
    lsi_previous_free(&previous);
    LS_TRY(status);
    r->evaluated_step = r->from.found && r->from.evaluated ? r->from.step : 0;
    return open_saver(r);
}

/* Collective. */
static ls_status open_trace(run *r)
{
    lsi_trace_options options = {.job = r->rt->job,
                                 .device = r->rt->device,
                                 .account = &r->rt->account,
                                 .path = r->rt->config->log.trace};

    if (options.path[0] == '\0') {
        return LS_OK;
    }
    LS_TRY(lsi_runtime_agree(r->rt, lsi_trace_open(&options, &r->trace)));
    LS_TRY(lsi_runtime_agree(r->rt, lsi_trace_align(r->trace)));
    r->trainer->trace = r->trace;
    return LS_OK;
}

/* Collective. The trainer has the trace once all ranks could open theirs. */
static ls_status write_trace(run *r)
{
    return r->trainer->trace != NULL ? lsi_runtime_agree(r->rt, lsi_trace_write(r->trace, r->trainer->timeline.n_lost))
                                     : LS_OK;
}

/* What the process holds before the trainer exists: what comes on top is held against the plan. */
static void note_resident(run *r)
{
    int64_t now, most;

    r->events.resident_start = lsi_proc_resident(&now, &most) ? now : 0;
}

static ls_status open_run(run *r)
{
    const ls_run_parts *p = &r->parts;
    lsi_trainer_options options = {.evaluates = p->val != NULL, .snapshots = r->rt->config->checkpoint.save};

    note_resident(r);
    LS_TRY(lsi_trainer_create(r->rt, p->graph, p->loss, p->train, &options, &r->trainer));
    if (p->schedule != NULL) {
        ls_trainer_set_schedule(r->trainer, p->schedule, p->schedule_argument);
    }
    lsi_watchdog_enter(r->rt->watchdog, "opening output, resuming");
    LS_TRY(open_outputs(r));
    LS_TRY(open_trace(r));
    LS_TRY(lsi_watch_open(&r->watch, r->trainer, p->train->input_dtype == LS_I32));
    lsi_watchdog_enter(r->rt->watchdog, "training");
    r->events.rt = r->rt;
    r->events.trainer = r->trainer;
    r->events.tokens = p->train->input_dtype == LS_I32;
    r->events.n_written = r->from.step;
    lsi_report_start(r->trainer, r->model, p->train, p->val);
    lsi_report_checkpoints(r->trainer, &r->from, r->saver);
    lsi_progress_open(&r->progress, r->trainer, r->events.tokens);
    return lsi_events_start(&r->events, r->from.path);
}

static void close_run(run *r)
{
    lsi_watch_close(&r->watch);
    lsi_trace_close(&r->trace);
    lsi_saver_close(&r->saver);
    lsi_jsonl_close(&r->events.jsonl);
    lsi_resume_free(&r->from);
    lsi_place_close(&r->place);
    ls_trainer_destroy(&r->trainer);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

/* Queues one step and waits for its result. */
static ls_status one_step(run *r)
{
    ls_slot *slot;
    ls_step_info info;

    LS_TRY(ls_trainer_begin(r->trainer));
    while (ls_trainer_next_slot(r->trainer, &slot)) {
        LS_TRY(ls_trainer_forward(r->trainer, slot));
        LS_TRY(ls_trainer_backward(r->trainer, slot));
    }
    LS_TRY(ls_trainer_end(r->trainer, &info));
    LS_TRY(lsi_trainer_collect(r->trainer));
    r->stop = lsi_trainer_stop_reason(r->trainer);
    LS_TRY(lsi_events_step(&r->events));
    LS_TRY(lsi_watch_step(&r->watch, r->events.jsonl));
    lsi_trainer_fill_info(r->trainer, &info);
    lsi_progress_step(&r->progress, &info);
    return r->saver != NULL ? lsi_saver_step(r->saver) : LS_OK;
}

static ls_status settle(run *r)
{
    LS_TRY(ls_trainer_settle(r->trainer, NULL));
    return lsi_events_settle(&r->events);
}

/* The settled step. */
static ls_status save(run *r)
{
    lsi_saver_point point = {
        .evaluated = r->evaluated_step == r->trainer->n_done,
        .metrics_bytes = lsi_jsonl_length(r->events.jsonl),
        .metrics_fd = lsi_jsonl_fd(r->events.jsonl),
    };

    return r->saver != NULL ? lsi_saver_save(r->saver, &point) : LS_OK;
}

static void say_evaluation(const run *r, int64_t step)
{
    if (r->parts.accuracy) {
        lsi_log_info("step %lld  validation loss %.4f  accuracy %.4f", (long long)step, r->evaluation.loss,
                     r->evaluation.accuracy);
    } else {
        lsi_log_info("step %lld  validation loss %.4f", (long long)step, r->evaluation.loss);
    }
}

/* A request to stop meanwhile leaves no evaluation: who goes on from here repeats it. */
static ls_status evaluate(run *r)
{
    ls_evaluation evaluation;
    int64_t step = r->trainer->n_done;

    LS_TRY(settle(r));
    lsi_watchdog_enter(r->rt->watchdog, "evaluating");
    LS_TRY(ls_trainer_evaluate(r->trainer, r->parts.val, r->rt->config->train.eval_batches, &evaluation));
    lsi_watchdog_enter(r->rt->watchdog, "training");
    if (evaluation.stopped) {
        LS_TRY(lsi_trainer_agree_on_stop(r->trainer, &r->stop));
        return LS_OK;
    }
    r->evaluation = evaluation;
    r->evaluated = true;
    say_evaluation(r, step);
    if (r->evaluated_step != step) { /* not the repetition of a finished run */
        LS_TRY(lsi_events_evaluation(&r->events, step, &r->evaluation, r->parts.accuracy));
    }
    r->evaluated_step = step;
    bool best = r->saver != NULL && lsi_saver_is_best(r->saver, step, r->evaluation.loss);
    return best ? save(r) : LS_OK;
}

static bool evaluation_is_due(const run *r)
{
    int64_t every = r->rt->config->train.eval_every, step = r->trainer->n_done, end = r->trainer->end_step;

    return r->parts.val != NULL && (step >= end || (every > 0 && step > 0 && step % every == 0));
}

/* What is due after the step that is done: evaluation, then checkpoint. */
static ls_status after_step(run *r)
{
    if (evaluation_is_due(r) && r->stop == LSI_STOP_NONE && r->evaluated_step != r->trainer->n_done) {
        LS_TRY(evaluate(r));
    }
    if (r->stop == LSI_STOP_NONE && r->saver != NULL && lsi_saver_is_due(r->saver, r->trainer->n_done)) {
        LS_TRY(settle(r));
        LS_TRY(save(r));
    }
    return LS_OK;
}

static ls_status loop(run *r)
{
    int64_t end = r->trainer->end_step;

    if (r->from.step >= end) {
        lsi_log_info("this run is finished: step %lld of %lld is done; checkpoint.resume = never begins anew",
                     (long long)r->from.step, (long long)end);
    }
    if (r->from.found && r->from.step < end) {
        LS_TRY(after_step(r)); /* an evaluation that was due and not done */
    }
    while (r->trainer->n_queued < end && r->stop == LSI_STOP_NONE) {
        LS_TRY(one_step(r));
        if (r->trainer->n_done < end) {
            LS_TRY(after_step(r));
        }
    }
    LS_TRY(settle(r));
    if (r->parts.val != NULL && r->stop == LSI_STOP_NONE) {
        LS_TRY(evaluate(r));
    }
    LS_TRY(save(r));
    return r->saver != NULL ? lsi_saver_finish(r->saver) : LS_OK;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* All ranks hold the same weights, or something is badly wrong: say so instead of ending well. */
static ls_status hash_weights(run *r, char out[33])
{
    enum { WIDTH = 33 };
    int world = r->rt->job->world;
    char *all;

    lsi_watchdog_enter(r->rt->watchdog, "hashing the weights");
    LS_TRY(lsi_trainer_weights_hash(r->trainer, out));
    LS_TRY(lsi_memory_alloc((size_t)world * WIDTH, "hashes", (void **)&all));
    ls_status status = lsi_job_all_gather(r->rt->job, out, WIDTH, all);
    for (int rank = 0; status == LS_OK && rank < world; rank++) {
        if (strcmp(all + rank * WIDTH, out) != 0) {
            status = LS_FAIL(LS_ERR_INTERNAL, "the weights of this rank hash to %s, those of rank %d to %s", out, rank,
                             all + rank * WIDTH);
        }
    }
    lsi_memory_free(all);
    return status;
}

static ls_status say_end(run *r, double seconds)
{
    const char *metrics = r->rt->config->log.metrics;
    char hash[33];
    lsi_events_end end = {
        .stop = r->stop,
        .weights_hash = hash,
        .train_seconds = seconds,
        .evaluation = r->evaluated ? &r->evaluation : NULL,
        .accuracy = r->parts.accuracy,
    };

    LS_TRY(hash_weights(r, hash));
    LS_TRY(lsi_events_done(&r->events, &end));
    if (r->stop == LSI_STOP_NONE) {
        lsi_log_info("done: %lld steps in %.1f s, weights %s, metrics in %s", (long long)r->trainer->n_done, seconds,
                     hash, metrics);
        return LS_OK;
    }
    lsi_log_info("stopped by %s after step %lld of %lld, weights %s, metrics in %s", lsi_stop_text(r->stop),
                 (long long)r->trainer->n_done, (long long)r->trainer->end_step, hash, metrics);
    return lsi_runtime_stopped(r->rt, r->stop, r->saver != NULL);
}

/* Collective, of a run that gave up: what it has done until then is kept. A failure on top of that one has been printed
 * and changes nothing. */
static void keep_what_is_done(run *r)
{
    if (lsi_events_settle(&r->events) != LS_OK) {
        lsi_log_warn("the steps that led to the end are not in %s", r->rt->config->log.metrics);
    }
    if (r->saver != NULL && lsi_saver_finish(r->saver) != LS_OK) {
        lsi_log_warn("the checkpoint that was being written is not there");
    }
}

static ls_status train(run *r)
{
    double start = lsi_clock_seconds();
    ls_status status = loop(r);

    if (status != LS_OK && r->rt->agreed) {
        keep_what_is_done(r);
    }
    LS_TRY(status);
    return say_end(r, lsi_clock_seconds() - start);
}

/* What a run would use, said by rank 0. Collective. */
static ls_status describe(ls_runtime *rt, const ls_run_parts *p)
{
    lsi_trainer_options options = {.evaluates = p->val != NULL, .snapshots = rt->config->checkpoint.save};
    lsi_sizes sizes;

    LS_TRY(lsi_runtime_agree(rt, lsi_trainer_sizes(rt, p->graph, p->loss, p->train, &options, &sizes)));
    return lsi_report_dry_run(rt, lsi_graph_params(p->graph), p->train, p->val, &sizes);
}

static ls_status run_parts(ls_runtime *runtime, const ls_run_parts *parts, const char *model)
{
    LS_TRY(lsi_runtime_agree(runtime, parts->struct_size == sizeof *parts
                                          ? LS_OK
                                          : LS_FAIL(LS_ERR_CONFIG,
                                                    "ls_run_parts.struct_size is %zu, this library's has %zu bytes",
                                                    parts->struct_size, sizeof *parts)));
    if (runtime->dry_run) {
        return describe(runtime, parts);
    }

    run r = {.rt = runtime, .parts = *parts, .model = model, .place = {.lock = -1}};
    ls_status status = open_run(&r);

    if (status == LS_OK) {
        status = train(&r);
    }
    if (status == LS_OK || (runtime->agreed && r.trainer != NULL)) {
        /* Also of a run that gave up: all ranks get here, and the steps before are what one wants to see. */
        ls_status written = write_trace(&r);
        status = status == LS_OK ? written : status;
    }
    if (status != LS_OK && !runtime->agreed) {
        /* One rank's own failure inside the run: the others wait for it, so the job ends here. */
        lsi_job_abort(runtime->job, status);
    }
    close_run(&r);
    return status;
}

ls_status ls_run_model(ls_runtime *runtime, const ls_run_parts *parts)
{
    return run_parts(runtime, parts, "of this program");
}

/* ---- what a configuration names --------------------------------------------------------------------------------- */

typedef struct inputs {
    ls_dataset *train, *val;
    lsi_model model;
} inputs;

/* Collective, agreed. */
static ls_status open_inputs(ls_runtime *rt, inputs *in)
{
    lsi_watchdog_enter(rt->watchdog, "opening the data");
    ls_status status = lsi_config_check_inputs(rt->loaded);

    if (status == LS_OK) {
        status = lsi_datasets_open(rt->config, &in->train, &in->val);
    }
    if (status == LS_OK) {
        status = lsi_model_build(rt->config, in->train, &in->model);
    }
    return lsi_runtime_agree(rt, status);
}

static void close_inputs(inputs *in)
{
    ls_graph_destroy(&in->model.graph);
    lsi_dataset_close(&in->val);
    lsi_dataset_close(&in->train);
}

ls_status ls_run(ls_runtime *runtime)
{
    inputs in = {0};
    ls_status status = open_inputs(runtime, &in);

    if (status == LS_OK) {
        ls_run_parts parts = {
            .struct_size = sizeof parts,
            .graph = in.model.graph,
            .loss = in.model.loss,
            .train = in.train,
            .val = in.val,
            .accuracy = strcmp(runtime->config->data.kind, "idx") == 0,
        };

        status = run_parts(runtime, &parts, runtime->config->model.kind);
    }
    close_inputs(&in);
    return status;
}

ls_status lsi_run_dry(ls_runtime *runtime)
{
    runtime->dry_run = true;
    return ls_run(runtime);
}
