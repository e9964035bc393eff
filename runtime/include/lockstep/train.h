/* Training: the whole run, or one step at a time. */
#ifndef LS_TRAIN_H
#define LS_TRAIN_H

#include <lockstep/config.h>
#include <lockstep/dataset.h>
#include <lockstep/graph.h>
#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One process of the job with its configuration, device and communication. */
typedef struct ls_runtime ls_runtime;

/* What a training program says about itself. */
typedef struct ls_program {
    size_t struct_size;
    const char *name;       /* in messages and in --help; the output goes to runs/NAME unless a file or log.dir says */
    const char *help;       /* what it does, lines of text for --help; may be NULL */
    const char *defaults;   /* the program's own values, written as in a configuration file: CONFIG comes behind them and
                             * may be left out. NULL: CONFIG is required */
} ls_program;

/* Collective. Starts MPI where it is built in, reads `argv` (CONFIG [--set section.key=value]..., see --help), opens the
 * device and the transport. `program` is borrowed for the call. On failure all ranks return the same status, and the
 * message has been printed. ANSWERED: an option such as --help was given, its answer has been printed, and there is
 * nothing to run; ls_runtime_close takes it like any other status. */
LS_MUST_USE ls_status ls_runtime_open(int *argc, char ***argv, const ls_program *program, ls_runtime **out);
/* Collective unless why != LS_OK was found by this rank alone inside a step, which ends the whole job at once.
 * Prints the message of a failure, releases everything made from the runtime and still open (a program may leave by
 * LS_TRY wherever it is), returns the exit code for main(). A runtime of NULL is one that did not open. */
int ls_runtime_close(ls_runtime **runtime, ls_status why);
const ls_config *ls_runtime_config(const ls_runtime *runtime);
int ls_rank(const ls_runtime *runtime);
int ls_world(const ls_runtime *runtime);
/* Where ops of the program's own are registered (backend.h). */
struct ls_device *ls_runtime_device(const ls_runtime *runtime);

/* Collective. The data sets that [data] names; *val is NULL where it names none. */
LS_MUST_USE ls_status ls_data_open(ls_runtime *runtime, ls_dataset **train, ls_dataset **val);
/* Any data set with a close function. Accepts NULL and clears the pointer. */
void ls_data_close(ls_dataset **dataset);

/* Collective. Builds the model and opens the data that the configuration names, trains, evaluates, logs. */
LS_MUST_USE ls_status ls_run(ls_runtime *runtime);

typedef struct ls_trainer ls_trainer;

/* Schedule: learning rate of the step that would be the `applied`-th applied one (from 0). Called ahead of time, any
 * number of times per value; must be a pure function. */
typedef double (*ls_schedule_fn)(void *argument, int64_t applied);

/* What ls_run_model trains instead of what [model] and [data] name. Borrowed: all of it must outlive the call. */
typedef struct ls_run_parts {
    size_t struct_size;
    ls_graph *graph;
    ls_var loss;
    ls_dataset *train;
    ls_dataset *val;                    /* NULL: no evaluation */
    bool accuracy;                      /* hits mean something: report them */
    ls_schedule_fn schedule;            /* NULL: as [schedule] says */
    void *schedule_argument;
} ls_run_parts;

/* Collective. The same loop over a model and data of the program's own: trains, evaluates, logs, saves, stops. */
LS_MUST_USE ls_status ls_run_model(ls_runtime *runtime, const ls_run_parts *parts);

/* What one completed step did. */
typedef struct ls_step_info {
    size_t struct_size;
    int64_t step;               /* which step this describes, from 1; 0: none has completed yet */
    int64_t applied;            /* steps that changed the weights, up to this one */
    bool skipped;
    double loss;                /* mean over the counted targets of the global batch; NaN when there was none */
    double grad_norm;           /* before clipping */
    double learning_rate;
    double loss_scale;
    double step_seconds, data_wait_seconds, compute_seconds, comm_seconds, comm_exposed_seconds;    /* this rank's */
} ls_step_info;

typedef struct ls_slot ls_slot;     /* one micro-batch of the step being queued */

/* Collective. Borrows graph and data set; both must outlive the trainer. Binds the graph's input and targets to the
 * data set and reports a mismatch with both shapes. */
LS_MUST_USE ls_status ls_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data,
                                        ls_trainer **out);
void ls_trainer_destroy(ls_trainer **trainer);
/* How many steps train.steps and train.epochs come to: data is prepared for these and no more. */
int64_t ls_trainer_n_steps(const ls_trainer *trainer);
/* Replaces the schedule of the configuration. Before the first step. */
void ls_trainer_set_schedule(ls_trainer *trainer, ls_schedule_fn schedule, void *argument);

/* One step, on every rank:
 *     ls_trainer_begin(t);
 *     while (ls_trainer_next_slot(t, &slot)) { ls_trainer_forward(t, slot); ls_trainer_backward(t, slot); }
 *     ls_trainer_end(t, &info);
 * begin waits for the previous step, the only wait of the host; `info` describes the step that had completed then.
 * A step that is replayed from a recording offers no slots. */
LS_MUST_USE ls_status ls_trainer_begin(ls_trainer *trainer);
bool ls_trainer_next_slot(ls_trainer *trainer, ls_slot **out);
LS_MUST_USE ls_status ls_trainer_forward(ls_trainer *trainer, ls_slot *slot);
LS_MUST_USE ls_status ls_trainer_backward(ls_trainer *trainer, ls_slot *slot);
LS_MUST_USE ls_status ls_trainer_end(ls_trainer *trainer, ls_step_info *info);
/* Waits for everything queued; `info` (may be NULL) describes the last step. Before evaluating or reading weights. */
LS_MUST_USE ls_status ls_trainer_settle(ls_trainer *trainer, ls_step_info *info);

/* Collective; settle first. 32 hex digits over every bit of the weights: equal texts, equal weights. */
LS_MUST_USE ls_status ls_trainer_weights_hash(ls_trainer *trainer, char out[33]);

typedef struct ls_evaluation {
    size_t struct_size;
    double loss;                /* mean over the counted targets */
    double accuracy;            /* counted targets whose largest logit is theirs, where the loss counts hits */
    int64_t samples, counted;
    bool stopped;               /* a stop was asked for meanwhile: the numbers are not there */
} ls_evaluation;

/* Collective; settle first. Mean loss over a data set in file order, at most `max_slots` slots of train.micro_batch
 * samples (0: all): the same number at any number of processes. */
LS_MUST_USE ls_status ls_trainer_evaluate(ls_trainer *trainer, const ls_dataset *data, int64_t max_slots,
                                          ls_evaluation *out);

#ifdef __cplusplus
}
#endif
#endif
