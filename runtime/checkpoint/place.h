/* The folder a run's checkpoints lie in, held for the life of the run: rank 0 makes it, locks it, and alone renames and
 * removes things in it (checkpoint/shelf.h). */
#ifndef LSI_CHECKPOINT_PLACE_H
#define LSI_CHECKPOINT_PLACE_H

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

#endif
