/* Learning rate schedules: pure functions of the number of applied steps. */
#ifndef LSI_TRAIN_SCHEDULE_H
#define LSI_TRAIN_SCHEDULE_H

#include <lockstep/config.h>

/* Learning rate of the step that is the `applied`-th applied one, from 0, in a run of `total` steps.
 *
 * warm-up: lr (applied + 1) / warmup_steps for the first warmup_steps steps. Then, with f = final_fraction and progress
 * p = (applied - start) / length clamped to [0, 1]:
 *   constant  lr
 *   linear    lr (1 - (1 - f) p)
 *   cosine    lr (f + (1 - f) (1 + cos(pi p)) / 2)
 *   wsd       lr until the last decay_steps steps of the run, then linear to f lr
 * start is the end of the warm-up and length decay_steps (0: up to the last step); for wsd the last decay_steps (0: a
 * fifth of the run). */
double lsi_schedule_rate(const ls_config *config, int64_t total, int64_t applied);

#endif
