/* From the device's ring of stamps to the times of one step.
 *
 * The step's queueing code stamps fixed points; a stamp's id is (index, parity of the step, point). The host reads the
 * ring after it has waited for a step, so that all stamps up to that step's commit are there. Nobody else reads it: a
 * trace (metrics/trace.h) is handed the stamps from here. */
#ifndef LSI_METRICS_TIMELINE_H
#define LSI_METRICS_TIMELINE_H

#include <lockstep/backend.h>
#include <stdbool.h>

/* "trace" marks points that only a trace needs: they are queued when there is one. Several per step where an index is
 * named; those of one stream come in pairs that do not overlap. */
typedef enum lsi_point {
    LSI_POINT_BEGIN,                /* compute: the step's work starts; what other streams do for it comes later */
    LSI_POINT_DATA_WAIT,            /* compute: about to wait for a batch */
    LSI_POINT_DATA_HERE,            /* compute: it is there */
    LSI_POINT_GATHER_WAIT_BEGIN,    /* compute: about to wait for the weights of a bucket; index: bucket */
    LSI_POINT_GATHER_WAIT_END,      /* compute: they are there */
    LSI_POINT_BACKWARD_END,         /* compute: the last gradient is ready */
    LSI_POINT_ARRIVED,              /* compute: sums and numbers of all ranks are there, the decision begins */
    LSI_POINT_COMMIT,               /* compute: the step is decided, the update begins */
    LSI_POINT_END,                  /* compute: the weights are updated */
    LSI_POINT_REDUCE_BEGIN,         /* comm; index: bucket */
    LSI_POINT_REDUCE_END,
    LSI_POINT_GATHER_BEGIN,         /* comm; index: bucket */
    LSI_POINT_GATHER_END,
    LSI_POINT_EXCHANGE_BEGIN,       /* comm */
    LSI_POINT_EXCHANGE_END,
    LSI_POINT_SLOT_BEGIN,           /* compute, trace: the forward starts; index: slot of this rank */
    LSI_POINT_FORWARD_END,          /* compute, trace; index: slot */
    LSI_POINT_SLOT_END,             /* compute, trace: its backward ends; index: slot */
    LSI_POINT_COPY_BEGIN,           /* copy, trace; index: slot of this rank */
    LSI_POINT_COPY_END,             /* copy, trace */
    LSI_POINT_COUNT,
    LSI_POINT_CLOCK = 0xff          /* not of a step: somebody reads the device's clock; the timeline passes it over */
} lsi_point;

enum { LSI_POINT_MAX_INDEX = 0xffff };

/* Indices beyond the largest share its id. */
static inline uint32_t lsi_timeline_id(int64_t step, lsi_point point, int64_t index)
{
    uint32_t kept = index < LSI_POINT_MAX_INDEX ? (uint32_t)index : LSI_POINT_MAX_INDEX;

    return kept << 16 | (uint32_t)(step & 1) << 8 | (uint32_t)point;
}

static inline uint32_t lsi_timeline_point_of(uint32_t id)
{
    return id & 0xff;
}

static inline int lsi_timeline_index_of(uint32_t id)
{
    return (int)(id >> 16);
}

/* Seconds of one step, which runs from the commit before it to its own (after a pause: the update before it, and from
 * its beginning to its commit). step = compute + data_wait + comm_exposed + rest; the rest is the commit op and what
 * lies between a step and the next. */
typedef struct lsi_step_times {
    double step, data_wait;
    double compute;             /* the update of the step before, forward and backward */
    double comm;                /* collectives, hidden or not */
    double comm_exposed;        /* what compute waited for weights, and from the last gradient until all had arrived */
} lsi_step_times;

typedef struct lsi_trace lsi_trace;

/* What is known of one step, in nanoseconds; 0: not seen. */
typedef struct lsi_timeline_step {
    uint64_t at[LSI_POINT_COUNT];
    uint64_t data_wait, gather_wait, comm;
} lsi_timeline_step;

enum { LSI_TIMELINE_MAX_LATE = 16 };

typedef struct lsi_timeline {
    ls_device *device;
    uint64_t seen;                              /* stamps read so far, but for the late ones */
    uint64_t late[LSI_TIMELINE_MAX_LATE];       /* sequences that were counted and not yet written when passed */
    int n_late;
    uint64_t n_lost;                            /* stamps that the ring no longer held */
    bool ahead;                                 /* in this reading, the step after the one read has begun */
    lsi_timeline_step of[2];                    /* by parity of the step */
    uint64_t last_commit;                       /* 0: none, or before a pause */
} lsi_timeline;

void lsi_timeline_open(lsi_timeline *timeline, ls_device *device);
/* Reads the stamps up to the commit of `step` (from 0), which has been waited for. Times the ring no longer holds are
 * 0. `trace` is handed every stamp, those of one stream in order; it may be NULL. */
void lsi_timeline_read(lsi_timeline *timeline, int64_t step, lsi_step_times *out, lsi_trace *trace);
/* Training stands still after `step`, the last one read, and all its work has been waited for: reads what is left of
 * it. The time until the next step begins counts for no step. */
void lsi_timeline_pause(lsi_timeline *timeline, int64_t step, lsi_trace *trace);

#endif
