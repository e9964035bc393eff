/* --verify-runs: where two runs part. */
#ifndef LSI_CHECKPOINT_COMPARE_H
#define LSI_CHECKPOINT_COMPARE_H

#include <stdbool.h>

#include "base/text.h"
#include <lockstep/status.h>

/* `a` and `b` are each a run's folder (metrics.jsonl, checkpoints/) or one checkpoint. Compares the step and eval lines
 * but for times, rates and memory, and the checkpoints of equal steps: weights, moments, step state, to the bit.
 *
 * Appends lines for people: the first difference of each kind, where everything was equal before, and what could not be
 * compared because one side lacks it or it is damaged. *equal: something was compared, and nothing differs.
 * ERR_USAGE when a folder is neither; ERR_DATA for a metrics file that is none. */
LS_MUST_USE ls_status lsi_compare_runs(const char *a, const char *b, lsi_text *out, bool *equal);

#endif
