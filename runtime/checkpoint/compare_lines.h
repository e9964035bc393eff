/* Two metrics files, line by line. */
#ifndef LSI_CHECKPOINT_COMPARE_LINES_H
#define LSI_CHECKPOINT_COMPARE_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include <lockstep/status.h>

typedef struct lsi_compare_lines {
    int64_t n_equal, last_equal;        /* lines compared without a difference; the step of the last, 0: none */
    bool differ;
    int64_t step;                       /* of the first difference */
    int64_t n_only[2], first_only[2];   /* lines that one file alone has, up to the difference */
} lsi_compare_lines;

/* Compares the lines of `event` ("step", "eval") that have equal steps, until two differ: that difference is appended
 * to `difference`, "loss 2.5 and 2.625". A line without its end, as a killed run leaves it, is not there.
 * ERR_DATA names file and line. */
LS_MUST_USE ls_status lsi_compare_lines_of(const char *event, const char *const path[2], lsi_text *difference,
                                           lsi_compare_lines *out);

#endif
