/* What rank 0 says while it trains: one line per log_every steps, with speed and time left. */
#ifndef LSI_LOOP_PROGRESS_H
#define LSI_LOOP_PROGRESS_H

#include "train/trainer.h"

typedef struct lsi_progress {
    int64_t first_step, end_step, every, per_step;  /* per_step: samples, or tokens */
    const char *unit;                   /* "samples", "tokens" */
    double recent_seconds;              /* smoothed step time, without the first steps */
    int64_t seen;                       /* last step described to us */
    const lsi_work *work;               /* borrowed */
} lsi_progress;

void lsi_progress_open(lsi_progress *progress, const ls_trainer *trainer, bool tokens);
/* `info` describes a completed step. */
void lsi_progress_step(lsi_progress *progress, const ls_step_info *info);

#endif
