/* --eval: the validation loss of a checkpoint's weights. */
#ifndef LSI_LOOP_EVALUATE_CHECKPOINT_H
#define LSI_LOOP_EVALUATE_CHECKPOINT_H

#include "train/runtime.h"

/* Collective; the runtime was opened on the checkpoint's configuration. `folder` is the same on all ranks, each of
 * which opens it. Prints `step N  validation loss X  accuracy Y` on rank 0's standard output (accuracy for idx), the
 * numbers in the fewest digits that read back to the same bits: those of the run's own evaluation at that step. */
LS_MUST_USE ls_status lsi_run_evaluation(ls_runtime *runtime, const char *folder);

#endif
