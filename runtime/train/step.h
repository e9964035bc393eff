/* One step as stream work, whole: for recording it (train.h has it slot by slot). */
#ifndef LSI_TRAIN_STEP_H
#define LSI_TRAIN_STEP_H

#include <lockstep/train.h>

/* From the gather of the weights to the update of step n_queued; counts nothing. */
LS_MUST_USE ls_status lsi_step_queue(ls_trainer *trainer);

#endif
