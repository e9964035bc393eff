/* The trainer: memory, streams and the state of one run. Shared by the files of train/. */
#ifndef LSI_TRAIN_TRAINER_H
#define LSI_TRAIN_TRAINER_H

#include "data/loader.h"
#include "graph/plan.h"
#include "metrics/timeline.h"
#include "train/bucket.h"
#include "train/memory.h"
#include "train/runtime.h"

/* Every wait that orders a step, once: name and what goes wrong without it. Tests leave each out in turn and expect
 * ThreadSanitizer to see it. */
#define LSI_STEP_WAITS(ROW)                                                         \
    ROW(FORK, "copies of a step start before the step before has read its batch")  \
    ROW(FULL, "the copy stream reads a share that is not filled")                   \
    ROW(COPIED, "compute reads a batch that is not there")                          \
    ROW(USED, "a batch is overwritten while it is read")                            \
    ROW(BUCKET, "a bucket is reduced before its gradients are ready")               \
    ROW(EXCHANGED, "the step is decided before sums and gradients have arrived")    \
    ROW(HOST, "the host changes what a running step reads")

typedef enum lsi_step_wait {
    LSI_WAIT_NONE,
#define ROW(name, text) LSI_WAIT_##name,
    LSI_STEP_WAITS(ROW)
#undef ROW
    LSI_WAIT_COUNT
} lsi_step_wait;

/* For tests: how many steps may be queued at once (1, or 2 to widen races), and which wait to leave out. */
typedef struct lsi_step_hooks {
    int steps_in_flight;
    lsi_step_wait left_out;
} lsi_step_hooks;

/* Learning rates the host hands a step: rate[i] is that of applied count `base + i`. Doubles: read by the commit op. */
typedef struct lsi_rates {
    double base, rate[4];
} lsi_rates;

/* What the host and a step exchange, in pinned memory, by step parity: two steps may be in flight. */
typedef struct lsi_control {
    ls_step_result result[2];
    lsi_rates rates[2];
    double header[2][LS_EXCHANGE_HEADER];
    ls_slot_record eval_record[2];
    ls_flag full[2];
} lsi_control;

struct ls_slot {
    ls_trainer *trainer;
    int64_t index;              /* among this rank's slots */
    lsi_plan_run run;
};

struct ls_trainer {
    ls_runtime *rt;
    ls_device *device;
    const ls_backend *backend;
    ls_graph *graph;
    ls_plan *plan, *eval_plan;
    const lsi_param_table *params;
    const ls_dataset *data;

    lsi_sizes sizes;
    lsi_lanes lanes;
    lsi_exchange exchange;
    lsi_place *place;           /* this rank's slots in order */
    lsi_bucket *bucket;

    ls_stream *compute, *copy, *comm_stream;
    ls_event *fork, *copied[2], *used[2], *ready, *exchanged, *committed[2];

    lsi_buffer weights, moment[2], activations, batch_input[2], batch_targets[2], share_input[2], share_targets[2];
    lsi_buffer eval_input[2], eval_targets[2];
    lsi_buffer state, control_memory, indices;
    lsi_control *control;
    float *gradient[LSI_TREE_MAX_ROOTS + 2];        /* by buffer of the lane program */
    double *exchange_mine, *exchange_all;
    ls_collective *exchange_collective;

    lsi_loader *loader;
    ls_recording *recording[2]; /* by step parity; NULL until captured */
    bool use_recordings, capturing;
    lsi_step_hooks hooks;

    ls_schedule_fn schedule;
    void *schedule_argument;
    float loss_seed;            /* 2^-k */
    int64_t end_step;           /* steps of the run; the loader reads nothing beyond */

    int64_t n_queued, n_done;   /* steps queued, and known to be committed */
    int64_t next_slot;          /* of the step being queued; n_local when there are none left */
    ls_slot slot;
    ls_step_result last;        /* of step n_done */
    lsi_timeline timeline;
    lsi_step_times times;       /* this rank's, of step n_done */
};

/* What ls_trainer_create does, with a run length for the schedule and a plan for evaluation (none when eval_data NULL).
 */
LS_MUST_USE ls_status lsi_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data,
                                         bool with_evaluation, const lsi_step_hooks *hooks, ls_trainer **out);
/* Sizes of a run without allocating anything: for --dry-run. */
LS_MUST_USE ls_status lsi_trainer_sizes(ls_runtime *runtime, ls_graph *graph, ls_var loss, const ls_dataset *data,
                                        bool with_evaluation, lsi_sizes *out);
/* Steps that the configuration asks for with this many samples. */
int64_t lsi_trainer_run_steps(const ls_config *config, int64_t n_samples);

/* Copies between host memory and the flat weights, or the gradients of the last step (mean over the global batch,
 * unscaled, before clipping). Settle first; `host` has params->n_elements. */
LS_MUST_USE ls_status lsi_trainer_read_weights(ls_trainer *trainer, float *host);
LS_MUST_USE ls_status lsi_trainer_write_weights(ls_trainer *trainer, const float *host);
LS_MUST_USE ls_status lsi_trainer_read_gradients(ls_trainer *trainer, float *host);
/* The weights hash of this rank's weights; all ranks' are equal. Settle first. */
LS_MUST_USE ls_status lsi_trainer_weights_hash(ls_trainer *trainer, char out[33]);

#endif
