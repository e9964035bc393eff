/* What is done to the checkpoints of a folder: one is published, old ones go, others move aside. Rank 0, which holds
 * the folder (checkpoint/place.h). A crash between any two operations leaves every checkpoint whole, or under a name
 * that is none. */
#ifndef LSI_CHECKPOINT_SHELF_H
#define LSI_CHECKPOINT_SHELF_H

#include <stdint.h>

#include "base/previous.h"
#include <lockstep/status.h>

/* What names of files begin with that ranks look for (checkpoint/place.h). */
#define LSI_SHELF_PROBE ".probe-"

/* Removes what a crash left half done. */
LS_MUST_USE ls_status lsi_shelf_clean(const char *dir);
/* Moves the checkpoints of steps after `after` (-1: all) into previous-<n>/checkpoints beside the folder; where
 * that is another disk or not to be written in, into previous-<n> inside the folder. */
LS_MUST_USE ls_status lsi_shelf_move_aside(const char *dir, lsi_previous *previous, int64_t after);
/* Removes step-<n>.partial, whole or not. */
LS_MUST_USE ls_status lsi_shelf_remove_partial(const char *dir, int64_t step);
/* Any thread. Takes a written step-<n>.partial, whose files are on disk, to its name, and waits for the disk. */
LS_MUST_USE ls_status lsi_shelf_publish(const char *dir, int64_t step);
/* Any thread. Removes all but the newest `keep` checkpoints (0: none) and that of best_step. Never one that is
 * newer than `newest`, which is whole. */
LS_MUST_USE ls_status lsi_shelf_retain(const char *dir, int64_t newest, int64_t keep, int64_t best_step);
/* Makes `best` lead to that step's folder; where there is none (step 0) the link is removed. */
LS_MUST_USE ls_status lsi_shelf_link_best(const char *dir, int64_t step);
/* New counted string DIR/step-<n>.partial. */
LS_MUST_USE ls_status lsi_shelf_partial(const char *dir, int64_t step, char **out);

#endif
