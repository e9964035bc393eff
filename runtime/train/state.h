/* The training state as checkpoints see it: by element of the flat parameter index, not by rank.
 *
 * Every element of masters and moments is held by at least one rank; the runs below name each exactly once over all
 * ranks (the chunk this rank owns of each bucket), at any ZeRO stage. Settle the trainer before any of these. */
#ifndef LSI_TRAIN_STATE_H
#define LSI_TRAIN_STATE_H

#include "graph/param.h"
#include <lockstep/step_state.h>
#include <lockstep/train.h>

enum { LSI_STATE_WEIGHTS, LSI_STATE_MOMENT_0, LSI_STATE_MOMENT_1, LSI_STATE_MAX_ARRAYS };

/* Elements [first, first + count) of the flat index in device memory: f32 masters, then the optimizer's moments. */
typedef struct lsi_state_run {
    int64_t first, count;
    float *array[LSI_STATE_MAX_ARRAYS];
} lsi_state_run;

/* 2 with sgd (weights, momentum), 3 with adamw (weights, exp_avg, exp_avg_sq). */
int lsi_state_n_arrays(const ls_trainer *trainer);
/* "" for the weights, else the prefix of the tensor's name in a checkpoint: "exp_avg", "exp_avg_sq", "momentum". */
const char *lsi_state_array_name(const ls_trainer *trainer, int array);
/* All of them, for the layout of a checkpoint; returns how many. */
int lsi_state_array_names(const ls_trainer *trainer, const char *out[LSI_STATE_MAX_ARRAYS]);
const lsi_param_table *lsi_state_params(const ls_trainer *trainer);

/* This rank's runs, ascending in `first`; valid for the trainer's life. */
int lsi_state_n_runs(const ls_trainer *trainer);
const lsi_state_run *lsi_state_runs(const ls_trainer *trainer);

/* Collective. Elements [first, first + count) of an array, whoever holds them, to every rank's host memory. */
LS_MUST_USE ls_status lsi_state_read(ls_trainer *trainer, int array, int64_t first, int64_t count, float *host);

/* Queues a copy of this rank's runs into memory that the trainer keeps for it; the update of the next step waits for the
 * copy, nothing else does. Needs a trainer with snapshots. */
LS_MUST_USE ls_status lsi_state_snapshot(ls_trainer *trainer);
/* Any thread: until the copy is there. */
LS_MUST_USE ls_status lsi_state_snapshot_wait(ls_trainer *trainer);
/* The copy of one array, run after run; the caller may change it until the next snapshot. */
float *lsi_state_snapshot_of(const ls_trainer *trainer, int array);

/* Collective. Replaces everything: `source` is asked, in ascending pieces, for each element this rank holds (which may
 * be more than its runs), or, `everywhere`, on every rank for every piece there is, the same ones in the same order; then
 * the step state, with which training goes on. Also makes the layers' 16-bit copy. Before the first step. */
typedef ls_status (*lsi_state_source)(void *argument, int array, int64_t first, int64_t count, float *out);
LS_MUST_USE ls_status lsi_state_load(ls_trainer *trainer, lsi_state_source source, void *argument, bool everywhere,
                                     const ls_step_state *state);

#endif
