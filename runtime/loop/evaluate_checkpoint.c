#include "loop/evaluate_checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "base/number.h"
#include "base/pipe_signal.h"
#include "data/datasets.h"
#include "loop/checkpoint_config.h"
#include "models/models.h"
#include "train/trainer.h"

typedef struct evaluation {
    ls_runtime *rt;
    lsi_checkpoint *checkpoint;
    ls_dataset *val;
    lsi_model model;
    ls_trainer *trainer;
} evaluation;

/* Data that is not where it was when the checkpoint was made: says how to tell where it is. */
static ls_status add_hint(const ls_config *config, ls_status status)
{
    const char *key = config->data.val_fraction > 0 ? "data.train" : "data.val";
    lsi_failure failure;

    if (status != LS_ERR_DATA) {
        return status;
    }
    lsi_failure_take(&failure);
    return LS_FAIL(LS_ERR_DATA, "%.800s (where the data lies elsewhere now: --set %s=PATH)", failure.message, key);
}

/* Not collective. */
static ls_status open_inputs(evaluation *e, const char *folder)
{
    const ls_config *config = e->rt->config;
    int64_t vocab;

    LS_TRY(lsi_checkpoint_open(folder, &e->checkpoint));
    LS_TRY(lsi_checkpoint_verify(e->checkpoint, e->rt->job->rank, e->rt->job->world,
                                 e->rt->watchdog));
    LS_TRY(lsi_checkpoint_vocab(e->checkpoint, config, &vocab));
    LS_TRY(add_hint(config, lsi_dataset_open_val(config, vocab, &e->val)));
    LS_TRY(lsi_model_build(config, e->val, &e->model));
    return LS_OK;
}

/* The held-out data stands in for the training data, too: no step is run. */
static ls_status load(evaluation *e)
{
    ls_runtime *rt = e->rt;
    const ls_step_state *state = &lsi_checkpoint_manifest(e->checkpoint)->state;
    lsi_trainer_options options = {.evaluates = true};

    LS_TRY(lsi_trainer_create(rt, e->model.graph, e->model.loss, e->val, &options, &e->trainer));
    LS_TRY(lsi_runtime_agree(rt, lsi_checkpoint_bind_weights(e->checkpoint, lsi_state_params(e->trainer))));
    return lsi_runtime_agree(rt, lsi_state_load(e->trainer, lsi_checkpoint_read_weights, e->checkpoint, false, state));
}

static ls_status print(const evaluation *e, const ls_evaluation *result)
{
    lsi_text text = {0};
    lsi_pipe_signal signals;

    lsi_text_append(&text, "step %lld  validation loss ",
                    (long long)lsi_checkpoint_manifest(e->checkpoint)->state.attempted);
    lsi_number_append_real(&text, result->loss);
    if (strcmp(e->rt->config->data.kind, "idx") == 0) {
        lsi_text_append(&text, "  accuracy ");
        lsi_number_append_real(&text, result->accuracy);
    }
    lsi_text_append(&text, "\n");
    ls_status status = lsi_text_status(&text);
    lsi_pipe_signal_hold(&signals);
    bool broken = status == LS_OK && (fputs(text.data, stdout) < 0 || fflush(stdout) != 0);
    lsi_pipe_signal_release(&signals, broken);
    lsi_text_free(&text);
    return broken ? LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output") : status;
}

static ls_status evaluate(evaluation *e)
{
    ls_evaluation result;
    ls_runtime *rt = e->rt;

    ls_status status = ls_trainer_evaluate(e->trainer, e->val, rt->config->train.eval_batches, &result);
    if (status != LS_OK) {
        lsi_job_abort(rt->job, status); /* this rank's alone: the others wait for it */
    }
    return lsi_runtime_agree(rt, rt->job->rank == 0 ? print(e, &result) : LS_OK);
}

ls_status lsi_run_evaluation(ls_runtime *runtime, const char *folder)
{
    evaluation e = {.rt = runtime};
    ls_status status = lsi_runtime_agree(runtime, open_inputs(&e, folder));

    if (status == LS_OK) {
        status = load(&e);
    }
    if (status == LS_OK) {
        status = evaluate(&e);
    }
    ls_trainer_destroy(&e.trainer);
    ls_graph_destroy(&e.model.graph);
    lsi_dataset_close(&e.val);
    lsi_checkpoint_close(&e.checkpoint);
    return status;
}
