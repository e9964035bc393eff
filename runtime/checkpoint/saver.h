/* Takes checkpoints beside training.
 *
 * A save copies what this rank owns (the update of the next step waits for the copy), then a thread per rank packs,
 * hashes and writes its pieces of the files. Every rank says in each step's exchange whether it is still writing; at
 * the first step at which none is, all hand their hashes to rank 0, whose thread writes the manifest, renames the
 * folder and removes old ones. At the next step at which rank 0 is through, the checkpoint exists. So all ranks take
 * every decision at the same step, and training waits for a disk only when the next checkpoint is due before the last
 * one is written, and at the end. Where the ranks do not share the folder, rank 0 collects the state and writes it
 * alone. */
#ifndef LSI_CHECKPOINT_SAVER_H
#define LSI_CHECKPOINT_SAVER_H

#include "checkpoint/place.h"
#include "checkpoint/resume.h"
#include "train/trainer.h"

/* A checkpoint that is there. */
typedef struct lsi_saved {
    int64_t step, bytes;
    double seconds;       /* from the request to the renamed folder */
    double stall_seconds; /* that training waited meanwhile */
    const char *path;     /* borrowed */
} lsi_saved;

typedef struct lsi_saver lsi_saver;

typedef struct lsi_saver_options {
    ls_trainer *trainer; /* with snapshots */
    const lsi_checkpoint_place *place;
    const lsi_resume *from; /* where the run began */
    /* Called on rank 0 when a checkpoint is there; may be NULL. */
    ls_status (*on_saved)(void *argument, const lsi_saved *saved);
    void *argument;
} lsi_saver_options;

/* What the loop knows about the step that is saved. */
typedef struct lsi_saver_point {
    bool evaluated;
    int64_t metrics_bytes; /* -1: none are kept */
    int metrics_fd;        /* whose data must be on disk first; -1: none */
} lsi_saver_point;

/* Collective, agreed. */
LS_MUST_USE ls_status lsi_saver_open(const lsi_saver_options *options, lsi_saver **out);
/* Waits for the thread alone: what is under way is finished by lsi_saver_finish. Accepts NULL. */
void lsi_saver_close(lsi_saver **saver);

/* Bytes of one checkpoint. */
int64_t lsi_saver_bytes(const lsi_saver *saver);
/* Whether a checkpoint is due after this step by checkpoint.every. */
bool lsi_saver_is_due(const lsi_saver *saver, int64_t step);
/* A validation loss; true when it is the lowest so far and checkpoint.best asks to keep it. */
bool lsi_saver_is_best(lsi_saver *saver, int64_t step, double loss);

/* The calls below are collective and agreed. A failure to write is a warning and OK, or under checkpoint.on_error =
 * stop a failure on all ranks. */

/* After every step, when the trainer has collected it. */
LS_MUST_USE ls_status lsi_saver_step(lsi_saver *saver);
/* Begins to save the step that the settled trainer has done; not again one that is saved or was resumed from. */
LS_MUST_USE ls_status lsi_saver_save(lsi_saver *saver, const lsi_saver_point *point);
/* Waits until what is under way is there. A failure is a failure here, whatever checkpoint.on_error says. */
LS_MUST_USE ls_status lsi_saver_finish(lsi_saver *saver);

#endif
