/* Launches the update of weights from reduced gradients. */
#ifndef LSI_TRAIN_OPTIMIZER_H
#define LSI_TRAIN_OPTIMIZER_H

#include "graph/param.h"
#include <lockstep/backend.h>
#include <lockstep/config.h>
#include <lockstep/step_state.h>

/* Moments per weight: 2 for adamw, 1 for sgd. */
int lsi_optimizer_moments(const ls_config *config);

/* Elements [first, first + count) of the flat index: where their masters, gradients and moments are in device memory.
 * copy: the layers' 16-bit weights of the same elements, NULL where layers read the masters. */
typedef struct lsi_optimizer_run {
    int64_t first, count;
    float *weights;
    const float *gradients;
    float *moment[2];
    uint16_t *copy;
    ls_dtype copy_type;
} lsi_optimizer_run;

/* Queues the update, one op per stretch of parameters of one group. */
LS_MUST_USE ls_status lsi_optimizer_update(const ls_config *config, const lsi_param_table *table,
                                           const lsi_optimizer_run *run, ls_step_state *state, ls_stream *stream);

#endif
