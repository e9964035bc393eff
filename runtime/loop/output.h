/* The output folder of a run. A used folder's output moves aside; nothing is overwritten or deleted. */
#ifndef LSI_LOOP_OUTPUT_H
#define LSI_LOOP_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/previous.h"
#include <lockstep/status.h>

typedef struct lsi_output {
    const char *dir, *metrics;
    int64_t keep_bytes;     /* a run that goes on keeps this much of the metrics file; -1: it begins */
    bool copy_first;        /* and leaves the branch behind it: the whole file is kept as a copy in previous-<n> */
} lsi_output;

/* Rank 0, before anything is made: the metrics file is not the name of a folder. */
LS_MUST_USE ls_status lsi_output_check(const char *metrics);
/* Rank 0. Makes the folders. An earlier run's metrics file moves aside, or is cut to what belongs to the steps the run
 * goes on from. Fails on a file that a run is still writing to. */
LS_MUST_USE ls_status lsi_output_prepare(const lsi_output *output, lsi_previous *previous);

#endif
