/* The events of metrics.jsonl, and which step's line is due: the times of a step are maxima over ranks that arrive with
 * the next step's exchange, so a line is written one step late, or when the run settles. */
#ifndef LSI_LOOP_EVENTS_H
#define LSI_LOOP_EVENTS_H

#include "checkpoint/saver.h"
#include "metrics/jsonl.h"
#include "train/trainer.h"

typedef struct lsi_events {
    ls_runtime *rt;
    ls_trainer *trainer;
    lsi_jsonl *jsonl;           /* rank 0; NULL elsewhere */
    bool tokens;                /* samples are windows of text: rates in tokens too */
    int64_t n_written;          /* step lines so far: steps 1 .. n_written */
    ls_step_result pending;     /* of step n_written + 1, when `has_pending` */
    bool has_pending;
    int64_t resident_start;     /* bytes of this process in memory before the trainer was made; 0: not told */
} lsi_events;

/* resumed_from: path of the checkpoint the run goes on from; NULL: it begins. */
LS_MUST_USE ls_status lsi_events_start(lsi_events *events, const char *resumed_from);
/* After every step: takes the newest result; writes the line that is complete with it. */
LS_MUST_USE ls_status lsi_events_step(lsi_events *events);
/* Collective, after lsi_trainer_settle: writes what is pending, with times agreed by the ranks. */
LS_MUST_USE ls_status lsi_events_settle(lsi_events *events);
LS_MUST_USE ls_status lsi_events_evaluation(lsi_events *events, int64_t step, const ls_evaluation *evaluation,
                                            bool accuracy);
LS_MUST_USE ls_status lsi_events_checkpoint(lsi_events *events, const lsi_saved *saved);

typedef struct lsi_events_end {
    int stop;                       /* LSI_STOP_*: why a run ends early */
    const char *weights_hash;
    double train_seconds;
    const ls_evaluation *evaluation;        /* the last one; NULL: none */
    bool accuracy;
} lsi_events_end;

/* Collective. `done`, or `stopped` with the reason. Besides the results, what memory was planned and used:
 *     memory_planned_bytes, memory_peak_bytes      by class as --dry-run names them, and "total"; maxima over ranks
 *     resident_start_bytes, resident_peak_bytes    per rank; absent where the system does not tell */
LS_MUST_USE ls_status lsi_events_done(lsi_events *events, const lsi_events_end *end);

#endif
