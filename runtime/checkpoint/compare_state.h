/* Two checkpoints, to the bit. */
#ifndef LSI_CHECKPOINT_COMPARE_STATE_H
#define LSI_CHECKPOINT_COMPARE_STATE_H

#include "base/text.h"
#include "checkpoint/checkpoint.h"

/* The first difference of weights, else of moments, else of the step state, appended to `difference`, in declaration
 * order: "h.0.ln_1.weight[17]: 1 (3f800000) and 1.00000012 (3f800001); 1 of its 64 elements differ". Nothing when they
 * are equal. */
LS_MUST_USE ls_status lsi_compare_state(const lsi_checkpoint *a, const lsi_checkpoint *b, lsi_text *difference);

#endif
