/* What a checkpoint says about itself, for commands that get nothing else. */
#ifndef LSI_LOOP_CHECKPOINT_CONFIG_H
#define LSI_LOOP_CHECKPOINT_CONFIG_H

#include "checkpoint/checkpoint.h"
#include "config/config.h"

/* The configuration it was made with (paths absolute), then the environment and `sets` as for a file. */
LS_MUST_USE ls_status lsi_checkpoint_config(const lsi_checkpoint *checkpoint, const char *const *sets, int n_sets,
                                            lsi_config **out);
/* The same of the checkpoint in a folder. Not collective. */
LS_MUST_USE ls_status lsi_checkpoint_load_config(const char *folder, const char *const *sets, int n_sets,
                                                 lsi_config **out);
/* Classes of a built-in model, as its weights tell. ERR_CHECKPOINT when they are of another model. */
LS_MUST_USE ls_status lsi_checkpoint_vocab(const lsi_checkpoint *checkpoint, const ls_config *config, int64_t *out);
/* A lsi_state_source: the weights of a bound checkpoint, and moments of 0. */
ls_status lsi_checkpoint_read_weights(void *checkpoint, int array, int64_t first, int64_t count, float *out);
/* Checks that its weights are those of these parameters: binds lsi_checkpoint_read_weights. */
LS_MUST_USE ls_status lsi_checkpoint_bind_weights(lsi_checkpoint *checkpoint, const lsi_param_table *params);

#endif
