/* What a plan launches, told without a device and without memory: for counting work and for preparing kernels. */
#ifndef LSI_GRAPH_SURVEY_H
#define LSI_GRAPH_SURVEY_H

#include "graph/plan.h"

/* One op of one slot, in the order of launching. Counts, types and alignments of the views are those of a run; their
 * addresses are nobody's memory. `layer` is the one that launches it, "" before the first. Borrowed for the call. */
typedef ls_status (*lsi_survey_fn)(void *argument, const char *layer, const ls_op *op, const void *arguments);

/* The forward, and the backward of a train plan as it adds to gradients. Ends early with what `visit` fails with. */
LS_MUST_USE ls_status lsi_plan_survey(const ls_plan *plan, lsi_survey_fn visit, void *argument);

/* FLOPs of one slot's forward and backward: the sum over all ops that count theirs (ls_op.flops). */
LS_MUST_USE ls_status lsi_plan_flops(const ls_plan *plan, double *out);

#endif
