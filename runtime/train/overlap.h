/* comm.overlap = auto: reducing buckets during the backward helps where communication runs beside compute, and costs a
 * little where both want the same cores. The first steps try it both ways, each for some steps; every rank sees the
 * same times (maxima over all ranks), so all decide alike.
 *
 * Where steps are recorded, the first two of each way are not looked at: in their time lies the recording. */
#ifndef LSI_TRAIN_OVERLAP_H
#define LSI_TRAIN_OVERLAP_H

#include <lockstep/config.h>

enum { LSI_OVERLAP_WARM_UP = 2, LSI_OVERLAP_RECORDINGS = 2, LSI_OVERLAP_TRIES = 3 };

typedef struct lsi_overlap {
    bool decided;
    bool on;                                    /* once decided */
    int n_passed_over;                          /* steps at the beginning of each way whose time does not count */
    double with[LSI_OVERLAP_TRIES], without[LSI_OVERLAP_TRIES];     /* seconds of a step */
} lsi_overlap;

void lsi_overlap_open(lsi_overlap *overlap, const ls_config *config, int world, bool records);
/* How step `step` (from 0) is queued. */
bool lsi_overlap_of_step(const lsi_overlap *overlap, int64_t step);
/* The longest any rank took for `step`. Returns true when this decides it. */
bool lsi_overlap_take(lsi_overlap *overlap, int64_t step, double seconds);
/* Medians of both ways, for the message. */
void lsi_overlap_medians(const lsi_overlap *overlap, double *with, double *without);

#endif
