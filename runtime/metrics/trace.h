/* log.trace: one trace file for the whole job, for chrome://tracing and ui.perfetto.dev. Processes are ranks; threads
 * are the streams (compute, copy, comm), the steps, and what compute waited for. Times are microseconds on rank 0's
 * clock since the first span.
 *
 * Each rank makes spans of the stamps that its timeline reads, and keeps them in memory until the end. The memory is
 * bounded: when it is full the oldest spans go, which is said once and counted in the file (otherData: dropped_spans of
 * all ranks, lost_stamps, clock_accuracy_us: how far the clock of a rank may have been from rank 0's when they were
 * compared, at the start).
 *
 *     lsi_runtime_agree(rt, lsi_trace_open(&options, &trace));
 *     lsi_runtime_agree(rt, lsi_trace_align(trace));
 *     ... lsi_timeline_read(..., trace) after every step; at the end, and before giving up: lsi_timeline_pause ...
 *     lsi_runtime_agree(rt, lsi_trace_write(trace, timeline.n_lost));
 */
#ifndef LSI_METRICS_TRACE_H
#define LSI_METRICS_TRACE_H

#include "backend/buffer.h"
#include "job/job.h"
#include "metrics/timeline.h"

/* Default bound: of the whole job, so that the file stays below 50 MB whatever the number of ranks. */
enum { LSI_TRACE_MAX_SPANS = 1 << 18 };

typedef struct lsi_trace_options {
    lsi_job *job;               /* borrowed, as all of these but path */
    ls_device *device;          /* whose clock the stamps show */
    lsi_memory_account *account;    /* counts what reading that clock takes */
    const char *path;
    int64_t max_spans;          /* of all ranks together; 0: LSI_TRACE_MAX_SPANS */
} lsi_trace_options;

/* Not collective. Rank 0 puts an empty trace in place: a path that cannot be written fails here and not after training,
 * and a job that is killed does not leave the trace of another. */
LS_MUST_USE ls_status lsi_trace_open(const lsi_trace_options *options, lsi_trace **out);
/* Accepts NULL. */
void lsi_trace_close(lsi_trace **trace);

/* Collective; nothing is queued on the device. Compares the ranks' clocks. A rank's failure is its own: agree. */
LS_MUST_USE ls_status lsi_trace_align(lsi_trace *trace);

/* The timeline's part: one stamp of step `step`. */
void lsi_trace_stamp(lsi_trace *trace, int64_t step, const ls_stamp *stamp);

/* Collective: rank 0 gathers all spans and replaces the file. `n_lost`: the timeline's. Only rank 0 can fail on its
 * own: agree. May be called again, with all spans so far. */
LS_MUST_USE ls_status lsi_trace_write(lsi_trace *trace, uint64_t n_lost);

#endif
