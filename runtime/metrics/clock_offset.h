/* How far this rank's clock is from rank 0's.
 *
 * Nobody leaves a barrier before all have entered it. So with o = this clock minus rank 0's:
 *     enter(r) - exit(0) <= o <= exit(r) - enter(0)
 * holds for every barrier, whatever the network does; the offset lies where the intervals of a few barriers meet. It is
 * taken as 0 when 0 lies there, as for processes of one host, which share a clock, else as the middle. Clocks of
 * different hosts drift apart afterwards, by some tens of microseconds per second at worst. */
#ifndef LSI_METRICS_CLOCK_OFFSET_H
#define LSI_METRICS_CLOCK_OFFSET_H

#include "job/job.h"
#include <lockstep/status.h>

typedef struct lsi_clock_offset {
    int64_t nanoseconds;        /* subtract from this rank's clock to get rank 0's */
    int64_t accuracy;           /* the true offset is at most this far away, in nanoseconds */
} lsi_clock_offset;

typedef ls_status (*lsi_clock_fn)(void *argument, uint64_t *nanoseconds);

/* Collective; takes part to the end even when this rank's clock fails, and returns that failure. */
LS_MUST_USE ls_status lsi_clock_offset_measure(lsi_job *job, lsi_clock_fn clock, void *argument, lsi_clock_offset *out);

#endif
