/* What the watchdog is told of a trainer: whether its streams get on, and where. */
#ifndef LSI_TRAIN_OBSERVE_H
#define LSI_TRAIN_OBSERVE_H

#include "train/trainer.h"

/* From now on the watchdog's thread looks at the trainer's device, until it is told to forget it. */
void lsi_observe_begin(ls_trainer *trainer);
void lsi_observe_end(ls_trainer *trainer);
/* The host begins to queue the next step; and has waited for all that it has queued. */
void lsi_observe_step(ls_trainer *trainer);
void lsi_observe_settled(ls_trainer *trainer);
/* Whether the stamps of this slot are worth a place in the ring, which must hold those of a whole step. They say where
 * a long step is. */
bool lsi_observe_slot(const ls_trainer *trainer, int64_t slot);

#endif
