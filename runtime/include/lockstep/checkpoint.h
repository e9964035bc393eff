/* Checkpoints and stopping for programs that write their own loop; ls_run and ls_run_model do all of it themselves.
 *
 *     ls_checkpoints_open(trainer, &checkpoints, &step);      // resumes as checkpoint.resume says; step 0: fresh
 *     while (step < n_steps && !stop) {
 *         ... one step ...
 *         step++;
 *         ls_checkpoints_step(checkpoints, &stop);            // saves when one is due, or when a stop was asked for
 *     }
 *     status = ls_checkpoints_close(&checkpoints);            // saves the last step, waits for the disk
 *     return ls_runtime_close(&runtime, status);              // exit code 75 after a stop on request */
#ifndef LS_CHECKPOINT_H
#define LS_CHECKPOINT_H

#include <lockstep/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_checkpoints ls_checkpoints;

/* Collective, before the first step. Loads the newest valid checkpoint, or the one named, by the keys of [checkpoint];
 * *step is how many steps it had completed. ERR_CHECKPOINT: what is there does not fit this program, or is torn. */
LS_MUST_USE ls_status ls_checkpoints_open(ls_trainer *trainer, ls_checkpoints **out, int64_t *step);
/* Collective, after every ls_trainer_end. *stop becomes true on all ranks at the same step. Training does not wait for
 * the disk; a failure to write is returned, or printed, as checkpoint.on_error says. */
LS_MUST_USE ls_status ls_checkpoints_step(ls_checkpoints *checkpoints, bool *stop);
/* Collective, before ls_trainer_destroy. Saves the last step unless that is done, waits until it is on disk, releases
 * everything. STOPPED after a stop on request. Accepts NULL. */
LS_MUST_USE ls_status ls_checkpoints_close(ls_checkpoints **checkpoints);

/* Any thread of any rank, also a signal handler: asks the job to save and leave after the current or the next step. */
void ls_request_stop(void);

#ifdef __cplusplus
}
#endif
#endif
