/* trainer --tune-gemm: measures the algorithms of every matrix product of a model. */
#ifndef LSI_LOOP_TUNE_H
#define LSI_LOOP_TUNE_H

#include "train/runtime.h"

/* Collective, of one process. Writes the plan to `path`, which must be no file yet, or a plan; what is there is old or
 * new, never torn. ERR_USAGE for several processes and on backends that have no choice. */
LS_MUST_USE ls_status lsi_run_tuning(ls_runtime *runtime, const char *path);

#endif
