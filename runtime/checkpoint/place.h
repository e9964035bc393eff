/* The folder a run's checkpoints lie in, held for the life of the run: rank 0 makes it, locks it, and alone renames and
 * removes things in it. */
#ifndef LSI_CHECKPOINT_PLACE_H
#define LSI_CHECKPOINT_PLACE_H

#include "base/previous.h"
#include "train/runtime.h"

typedef struct lsi_checkpoint_place {
    const char *dir;            /* checkpoint.dir */
    int lock;                   /* rank 0: descriptor of the locked folder; -1: not there */
    bool shared;                /* every rank sees the same folder */
} lsi_checkpoint_place;

/* Collective, agreed. `make`: checkpoints will be written. Removes what a crash left half done.
 * ERR_CHECKPOINT when another run has the folder. */
LS_MUST_USE ls_status lsi_place_open(ls_runtime *runtime, bool make, lsi_checkpoint_place *out);
void lsi_place_close(lsi_checkpoint_place *place);

/* Rank 0. Moves the checkpoints of steps after `after` (-1: all) into previous-<n>/checkpoints beside the folder; where
 * that is another disk or not to be written in, into previous-<n> inside the folder. */
LS_MUST_USE ls_status lsi_place_move_aside(lsi_checkpoint_place *place, lsi_previous *previous, int64_t after);
/* Rank 0. Removes step-<n>.partial, whole or not. */
LS_MUST_USE ls_status lsi_place_remove_partial(const char *dir, int64_t step);
/* Any thread of rank 0. Takes a written step-<n>.partial, whose files are on disk, to its name, and waits for the disk. */
LS_MUST_USE ls_status lsi_place_publish(const char *dir, int64_t step);
/* Any thread of rank 0. Removes all but the newest `keep` checkpoints (0: none) and that of best_step. Never one that is
 * newer than `newest`, which is whole. */
LS_MUST_USE ls_status lsi_place_retain(const char *dir, int64_t newest, int64_t keep, int64_t best_step);
/* Rank 0. Makes `best` lead to that step's folder; where there is none (step 0) the link is removed. */
LS_MUST_USE ls_status lsi_place_link_best(const char *dir, int64_t step);
/* New counted string DIR/step-<n>.partial. */
LS_MUST_USE ls_status lsi_place_partial(const char *dir, int64_t step, char **out);

#endif
