/* The trainer: memory, streams and the state of one run. Shared by the files of train/. */
#ifndef LSI_TRAIN_TRAINER_H
#define LSI_TRAIN_TRAINER_H

#include <stdatomic.h>

#include "backend/ranges.h"
#include "data/loader.h"
#include "graph/plan.h"
#include "metrics/timeline.h"
#include "metrics/trace.h"
#include "train/bucket.h"
#include "train/fault.h"
#include "train/memory.h"
#include "train/overlap.h"
#include "train/products.h"
#include "train/recorder.h"
#include "train/runtime.h"
#include "train/state.h"

/* Every wait that orders a step, and the standstill after one, once: name and what goes wrong without it. Tests leave each out in turn and expect
 * ThreadSanitizer to see it. */
#define LSI_STEP_WAITS(ROW)                                                         \
    ROW(FORK, "copies of a step start before the step before has read its batch")  \
    ROW(UPDATED, "weights are gathered before they are updated")                    \
    ROW(GATHERED, "a layer reads weights that have not arrived")                    \
    ROW(FULL, "the copy stream reads a share that is not filled")                   \
    ROW(COPIED, "compute reads a batch that is not there")                          \
    ROW(USED, "a batch is overwritten while it is read")                            \
    ROW(BUCKET, "a bucket is reduced before its gradients are ready")               \
    ROW(EXCHANGED, "the step is decided before sums and gradients have arrived")    \
    ROW(SNAPSHOT, "weights are updated while they are copied for a checkpoint")     \
    ROW(HOST, "the host changes what a running step reads")                         \
    ROW(SETTLING, "at a standstill weights are gathered before they are updated")   \
    ROW(SETTLED, "at a standstill weights are read that have not arrived")

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

/* What a trainer is made for, besides training. */
typedef struct lsi_trainer_options {
    bool evaluates;             /* also makes a plan for evaluation */
    bool snapshots;             /* memory for a copy of this rank's chunks: checkpoints will be taken */
    const lsi_step_hooks *hooks;        /* of tests; NULL: none */
} lsi_trainer_options;

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
    ls_flag snapshot;           /* 1: the copy is complete */
} lsi_control;

struct ls_slot {
    ls_trainer *trainer;
    int64_t index;              /* among this rank's slots */
    lsi_plan_run run;
};

struct ls_trainer {
    lsi_runtime_child child;
    ls_runtime *rt;
    ls_device *device;
    const ls_backend *backend;
    ls_graph *graph;
    ls_plan *plan, *eval_plan;
    const lsi_param_table *params;
    const ls_dataset *data;

    lsi_sizes sizes;
    lsi_work work;
    lsi_lanes lanes;
    lsi_exchange exchange;
    lsi_place *place;           /* this rank's slots in order */
    lsi_bucket *bucket;
    lsi_state_run *run;         /* this rank's chunks, ascending */
    int n_runs;
    lsi_state_run everything;   /* all elements as one run, where this rank holds them all */

    ls_stream *compute, *copy, *comm_stream;
    ls_stream *snapshot_stream; /* NULL without snapshots */
    ls_event *fork, *copied[2], *used[2], *ready, *exchanged, *committed[2], *snapshot_taken;

    /* Memory, as lsi_memory_parts lists it. */
    lsi_buffer layer_weights;   /* flat, in the compute type: what layers read, and what is gathered */
    lsi_buffer masters;         /* f32, of the held elements; empty where the layers' weights are the masters */
    lsi_buffer moment[2];       /* of the held elements */
    lsi_buffer gradient[LSI_TREE_MAX_ROOTS];        /* flat f32, by buffer of the lane program */
    lsi_buffer activations, batch_input[2], batch_targets[2], share_input[2], share_targets[2];
    lsi_buffer eval_input[2], eval_targets[2];
    lsi_buffer snapshot[LSI_STATE_MAX_ARRAYS];      /* of the owned elements */
    lsi_buffer state, control_memory, indices, exchange_mine, exchange_all;
    lsi_control *control;       /* control_memory's */
    ls_collective *exchange_collective;

    lsi_loader *loader;
    lsi_recorder recorder;
    ls_recording *replayed;     /* of the step being queued; NULL: it is queued as it is written. The recorder's */
    lsi_overlap overlap;
    lsi_faults faults;
    lsi_step_hooks hooks;

    ls_schedule_fn schedule;
    void *schedule_argument;
    float loss_seed;            /* 2^-k */
    int64_t first_step;         /* steps done before this process: 0, or those of a checkpoint */
    int64_t end_step;           /* steps of the run; the loader reads nothing beyond */

    int64_t n_queued, n_done;   /* steps queued, and known to be committed */
    int64_t next_slot;          /* of the step being queued; n_local when there are none left */
    bool snapshot_pending;      /* the next update waits for the snapshot */
    bool saving;                /* what this rank says of itself in the next exchange */
    bool overlaps;              /* the step being queued reduces buckets during its backward */
    ls_slot slot;
    _Atomic int64_t watched_step;       /* for the watchdog's thread: the last one begun, from 1; 0: all are done */
    ls_step_result last;        /* of step n_done */
    lsi_timeline timeline;
    lsi_trace *trace;           /* borrowed; NULL: none. Set before the first step */
    lsi_step_times times;       /* this rank's, of step n_done */
    lsi_ranges *ranges;         /* of the thread that queues steps; NULL: no profiler listens */
};

/* Whether the data set feeds the graph: else ERR_CONFIG with both sides. `what`: what the message calls the data. */
LS_MUST_USE ls_status lsi_trainer_check_data(const ls_graph *graph, const ls_dataset *data, const char *what);

/* allocate.c: streams, events and memory by the sizes, with initial contents; and their release, also of a part. */
LS_MUST_USE ls_status lsi_trainer_allocate(ls_trainer *trainer);
void lsi_trainer_release(ls_trainer *trainer);
int lsi_trainer_n_streams(const lsi_sizes *sizes);
/* What allocate has taken so far of each pool. */
void lsi_trainer_held_bytes(const ls_trainer *trainer, size_t out[LSI_MEMORY_SIDE_COUNT]);
/* This rank's gradient sums: of the lanes in `buffer` of the lane program; and, reduced, of all lanes. */
float *lsi_trainer_gradient(const ls_trainer *trainer, int buffer);
float *lsi_trainer_total(const ls_trainer *trainer);

/* What is known of the newest step that is done. */
void lsi_trainer_fill_info(const ls_trainer *trainer, ls_step_info *info);
/* Why the job stops after the newest step that is done (job/stop.h), the same on all ranks; LSI_STOP_NONE: it does not. */
int lsi_trainer_stop_reason(const ls_trainer *trainer);
/* Collective: the strongest request of any rank so far, between steps. */
LS_MUST_USE ls_status lsi_trainer_agree_on_stop(ls_trainer *trainer, int *out);
/* Makes the steps of `state` count as done: the next one queued is the one after it. The loader starts again there. */
LS_MUST_USE ls_status lsi_trainer_continue(ls_trainer *trainer, const ls_step_state *state);

/* Runs of elements that this rank updates: its chunks, or everything. Returns how many. */
int lsi_trainer_held(const ls_trainer *trainer, const lsi_state_run **out);

/* Collective. What ls_trainer_create does, with these options. */
LS_MUST_USE ls_status lsi_trainer_create(ls_runtime *runtime, ls_graph *graph, ls_var loss, ls_dataset *data,
                                         const lsi_trainer_options *options, ls_trainer **out);
/* Sizes of a run without allocating anything: for --dry-run. */
LS_MUST_USE ls_status lsi_trainer_sizes(ls_runtime *runtime, ls_graph *graph, ls_var loss, const ls_dataset *data,
                                        const lsi_trainer_options *options, lsi_sizes *out);
/* Waits for the commit of every step queued, which is the host's one wait of a step; then `last` is of the newest. The
 * next begin finds nothing to wait for. */
LS_MUST_USE ls_status lsi_trainer_collect(ls_trainer *trainer);
/* One plan of the graph as the configuration says: the layers' type, the micro-batch. */
LS_MUST_USE ls_status lsi_trainer_compile(const ls_config *config, ls_graph *graph, ls_var loss, ls_mode mode,
                                          ls_plan **out);
/* Steps that the configuration asks for with this many samples. */
int64_t lsi_trainer_run_steps(const ls_config *config, int64_t n_samples);

/* weights.c. Collective. Copies between host memory and the flat f32 weights, or the gradients of the last step (mean
 * over the global batch, unscaled, before clipping). Settle first; `host` has params->n_elements. */
LS_MUST_USE ls_status lsi_trainer_init_weights(ls_trainer *trainer);
LS_MUST_USE ls_status lsi_trainer_read_weights(ls_trainer *trainer, float *host);
LS_MUST_USE ls_status lsi_trainer_write_weights(ls_trainer *trainer, const float *host);
LS_MUST_USE ls_status lsi_trainer_read_gradients(ls_trainer *trainer, float *host);
/* Collective. The weights hash as this rank sees it; all ranks' are equal. Settle first. */
LS_MUST_USE ls_status lsi_trainer_weights_hash(ls_trainer *trainer, char out[33]);

#endif
