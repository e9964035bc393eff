/* Launches the update of weights from reduced gradients. */
#ifndef LSI_TRAIN_OPTIMIZER_H
#define LSI_TRAIN_OPTIMIZER_H

#include "graph/param.h"
#include <lockstep/backend.h>
#include <lockstep/config.h>
#include <lockstep/step_state.h>

/* Moments per weight: 2 for adamw, 1 for sgd. */
int lsi_optimizer_moments(const ls_config *config);

/* Flat device arrays of table->n_elements. */
typedef struct lsi_optimizer_memory {
    float *weights;
    const float *gradients;
    float *moment[2];
} lsi_optimizer_memory;

/* Queues the update of elements [first, first + count) of the flat index, one op per run of parameters of one group. */
LS_MUST_USE ls_status lsi_optimizer_update(const ls_config *config, const lsi_param_table *table,
                                           const lsi_optimizer_memory *memory, ls_step_state *state, ls_stream *stream,
                                           int64_t first, int64_t count);

#endif
