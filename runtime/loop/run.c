/* ls_run: the whole loop over what a configuration names. */
#include "loop/run.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "data/datasets.h"
#include "loop/events.h"
#include "loop/output.h"
#include "loop/progress.h"
#include "loop/report.h"
#include "metrics/trace.h"
#include "models/models.h"

/* Everything one run opens; closed in reverse order. */
typedef struct run {
    ls_runtime *rt;
    ls_dataset *train, *val;
    lsi_model model;
    ls_trainer *trainer;
    lsi_events events;
    lsi_trace *trace;               /* NULL without log.trace */
    lsi_progress progress;
    bool accuracy, tokens;
    bool evaluated;
    lsi_evaluation evaluation;      /* the last one */
} run;

static ls_status open_inputs(run *r)
{
    const ls_config *config = r->rt->config;

    LS_TRY(lsi_datasets_open(config, &r->train, &r->val));
    r->tokens = r->train->input_dtype == LS_I32;
    r->accuracy = strcmp(config->data.kind, "idx") == 0;
    return lsi_model_build(config, r->train, &r->model);
}

static ls_status open_outputs(run *r)
{
    const ls_config *config = r->rt->config;

    if (r->rt->job->rank != 0) {
        return LS_OK;
    }
    LS_TRY(lsi_output_prepare(config->log.dir, config->log.metrics));
    return lsi_jsonl_open(config->log.metrics, &r->events.jsonl);
}

/* Collective. */
static ls_status open_trace(run *r)
{
    lsi_trace_options options = {.job = r->rt->job, .device = r->rt->device, .path = r->rt->config->log.trace};

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
    return r->trainer->trace != NULL
               ? lsi_runtime_agree(r->rt, lsi_trace_write(r->trace, r->trainer->timeline.n_lost))
               : LS_OK;
}

static void close_run(run *r)
{
    lsi_trace_close(&r->trace);
    lsi_jsonl_close(&r->events.jsonl);
    ls_trainer_destroy(&r->trainer);
    ls_graph_destroy(&r->model.graph);
    lsi_dataset_close(&r->val);
    lsi_dataset_close(&r->train);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

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
    LS_TRY(lsi_events_step(&r->events));
    lsi_progress_step(&r->progress, &info);
    return LS_OK;
}

static ls_status settle(run *r)
{
    ls_step_info info;

    LS_TRY(ls_trainer_settle(r->trainer, &info));
    LS_TRY(lsi_events_settle(&r->events));
    lsi_progress_step(&r->progress, &info);
    return LS_OK;
}

static ls_status evaluate(run *r)
{
    LS_TRY(settle(r));
    LS_TRY(lsi_trainer_evaluate(r->trainer, r->val, r->rt->config->train.eval_batches, &r->evaluation));
    r->evaluated = true;
    int64_t step = r->trainer->n_done;
    if (r->accuracy) {
        lsi_log_info("step %lld  validation loss %.4f  accuracy %.4f", (long long)step, r->evaluation.loss,
                     r->evaluation.accuracy);
    } else {
        lsi_log_info("step %lld  validation loss %.4f", (long long)step, r->evaluation.loss);
    }
    return lsi_events_evaluation(&r->events, step, &r->evaluation, r->accuracy);
}

static ls_status loop(run *r)
{
    int64_t every = r->rt->config->train.eval_every, end = r->trainer->end_step;

    while (r->trainer->n_queued < end) {
        LS_TRY(one_step(r));
        int64_t step = r->trainer->n_queued;
        if (r->val != NULL && step < end && every > 0 && step % every == 0) {
            LS_TRY(evaluate(r));
        }
    }
    return r->val != NULL ? evaluate(r) : settle(r);
}

/* All ranks hold the same weights, or something is badly wrong: say so instead of ending well. */
static ls_status hash_weights(run *r, char out[33])
{
    enum { WIDTH = 33 };
    int world = r->rt->job->world;
    char *all;

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

static ls_status train(run *r)
{
    double start = lsi_clock_seconds();
    char hash[33];

    ls_status status = loop(r);
    if (status != LS_OK && r->rt->agreed && lsi_events_settle(&r->events) != LS_OK) {
        lsi_log_warn("the steps that led to the end are not in %s", r->rt->config->log.metrics);
    }
    LS_TRY(status);
    double seconds = lsi_clock_seconds() - start;
    LS_TRY(hash_weights(r, hash));
    LS_TRY(lsi_events_done(&r->events, hash, seconds, r->evaluated ? &r->evaluation : NULL, r->accuracy));
    lsi_log_info("done: %lld steps in %.1f s, weights %s, metrics in %s", (long long)r->trainer->n_done, seconds, hash,
                 r->rt->config->log.metrics);
    return LS_OK;
}

/* What the process holds before the trainer exists: what comes on top is held against the plan. */
static void note_resident(run *r)
{
    int64_t now, most;

    r->events.resident_start = lsi_proc_resident(&now, &most) ? now : 0;
}

ls_status ls_run(ls_runtime *runtime)
{
    run r = {.rt = runtime};
    ls_status status = lsi_runtime_agree(runtime, open_inputs(&r));

    note_resident(&r);
    if (status == LS_OK) {
        status = lsi_trainer_create(runtime, r.model.graph, r.model.loss, r.train, r.val != NULL, NULL, &r.trainer);
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(runtime, open_outputs(&r));
    }
    if (status == LS_OK) {
        status = open_trace(&r);
    }
    if (status == LS_OK) {
        r.events.rt = runtime;
        r.events.trainer = r.trainer;
        r.events.tokens = r.tokens;
        lsi_report_start(r.trainer, r.train, r.val);
        lsi_progress_open(&r.progress, r.trainer, r.tokens);
        status = lsi_events_start(&r.events);
    }
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

ls_status lsi_run_dry(ls_runtime *runtime)
{
    run r = {.rt = runtime};
    lsi_sizes sizes;
    ls_status status = lsi_runtime_agree(runtime, open_inputs(&r));

    if (status == LS_OK) {
        status = lsi_runtime_agree(
            runtime, lsi_trainer_sizes(runtime, r.model.graph, r.model.loss, r.train, r.val != NULL, &sizes));
    }
    if (status == LS_OK) {
        status = lsi_report_dry_run(runtime, lsi_graph_params(r.model.graph), r.train, r.val, &sizes);
    }
    close_run(&r);
    return status;
}
