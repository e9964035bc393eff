/* The output folder of a run. A used folder's output moves aside; nothing is overwritten or deleted. */
#ifndef LSI_LOOP_OUTPUT_H
#define LSI_LOOP_OUTPUT_H

#include <lockstep/status.h>

/* Rank 0. Makes `dir`; an earlier run's metrics file is moved into a folder previous-<n> beside it, n counting up.
 * Fails on a file that a run is still writing to, and before it makes anything on a folder. */
LS_MUST_USE ls_status lsi_output_prepare(const char *dir, const char *metrics_path);

#endif
