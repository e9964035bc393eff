/* From the device's ring of stamps to the times of one step.
 *
 * The step's queueing code stamps fixed points; a stamp's id is (parity of the step, point). The host reads the ring
 * after it has waited for a step, so that all stamps up to that step's commit are there. */
#ifndef LSI_METRICS_TIMELINE_H
#define LSI_METRICS_TIMELINE_H

#include <lockstep/backend.h>

typedef enum lsi_point {
    LSI_POINT_BEGIN,            /* compute stream: the step's work starts */
    LSI_POINT_DATA_WAIT,        /* compute stream: about to wait for the first slot's batch */
    LSI_POINT_DATA_HERE,        /* compute stream: it is there */
    LSI_POINT_BACKWARD_END,     /* compute stream: the last gradient is ready */
    LSI_POINT_COMM_BEGIN,       /* comm stream: a collective starts; several per step */
    LSI_POINT_COMM_END,         /* comm stream: it is done */
    LSI_POINT_COMMIT,           /* compute stream: the step is decided */
    LSI_POINT_END,              /* compute stream: the weights are updated */
    LSI_POINT_COUNT
} lsi_point;

static inline uint32_t lsi_timeline_id(int64_t step, lsi_point point)
{
    return (uint32_t)(step & 1) << 8 | (uint32_t)point;
}

/* Seconds of one step, which runs from the commit before it to its own. step = compute + data_wait + comm_exposed +
 * what the streams spent between these points. */
typedef struct lsi_step_times {
    double step, data_wait;
    double compute;             /* the update of the step before, forward and backward */
    double comm;                /* collectives, hidden or not */
    double comm_exposed;        /* from the last gradient to the commit */
} lsi_step_times;

typedef struct lsi_timeline {
    ls_device *device;
    uint64_t seen;                              /* stamps read so far */
    uint64_t at[2][LSI_POINT_COUNT];            /* nanoseconds, by parity of the step */
    uint64_t comm[2];                           /* nanoseconds spent in collectives */
    uint64_t last_commit;
} lsi_timeline;

void lsi_timeline_open(lsi_timeline *timeline, ls_device *device);
/* Reads all new stamps; `step` has been committed. Times the ring no longer holds are 0. */
void lsi_timeline_read(lsi_timeline *timeline, int64_t step, lsi_step_times *out);

#endif
