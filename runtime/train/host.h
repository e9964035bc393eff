/* What the host learns of a step and what it hands to the next one: all that passes between them, once per step. */
#ifndef LSI_TRAIN_HOST_H
#define LSI_TRAIN_HOST_H

#include "train/trainer.h"

/* The host's one wait: for the commit of the oldest step that is not known to be done; takes its result. A step that
 * ends the run (too many that were not finite in a row) fails here, agreed, on all ranks at the same step. */
LS_MUST_USE ls_status lsi_host_collect(ls_trainer *trainer);
/* For the step about to be queued: possible learning rates, this rank's times of the last step it knows, what it asks
 * for. */
void lsi_host_hand_over(ls_trainer *trainer);

#endif
