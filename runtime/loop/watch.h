/* What is watched beside training: the monitor's numbers, the events `gpu` and `warning`, and hints in plain words when
 * a GPU waits for data, is slowed down, or is shared with a stranger. */
#ifndef LSI_LOOP_WATCH_H
#define LSI_LOOP_WATCH_H

#include "checkpoint/saver.h"
#include "metrics/jsonl.h"
#include "metrics/monitor.h"
#include "train/trainer.h"

typedef struct lsi_watch {
    const ls_trainer *trainer;
    lsi_monitor *monitor;       /* NULL: this process watches nothing */
    lsi_trainer_numbers numbers;
    bool tokens;                /* samples are windows of text */

    /* Rank 0, for events and hints. */
    double *column;             /* one value for each GPU of the job */
    const char **texts;
    int64_t *ranks;
    int *slow, *shared;         /* of each GPU: samples in a row; -1: said */
    int *xid;                   /* of each GPU: the last that was told */
    int64_t shown_step;         /* of the last event */
    double steps_seconds, data_seconds;     /* of steps that are looked at for waiting */
    int64_t n_steps, timed_step;
    bool waits_said;
} lsi_watch;

/* Collective, agreed. Starts from {0}. */
LS_MUST_USE ls_status lsi_watch_open(lsi_watch *watch, const ls_trainer *trainer, bool tokens);
/* Collective. Also of one that was never opened. */
void lsi_watch_close(lsi_watch *watch);

/* After every step. jsonl: rank 0's, NULL elsewhere. */
LS_MUST_USE ls_status lsi_watch_step(lsi_watch *watch, lsi_jsonl *jsonl);
/* When a checkpoint is there. */
void lsi_watch_checkpoint(lsi_watch *watch, const lsi_saved *saved);

#endif
