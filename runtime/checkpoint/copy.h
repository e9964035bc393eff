/* The copy of the training state that a save writes: what this rank owns of it, or where ranks do not share a folder,
 * everything on rank 0 and nothing on the others. */
#ifndef LSI_CHECKPOINT_COPY_H
#define LSI_CHECKPOINT_COPY_H

#include "checkpoint/layout.h"
#include "checkpoint/pieces.h"
#include "train/trainer.h"

typedef struct lsi_copy {
    ls_trainer *trainer;
    bool shared;                                /* each rank writes its part */
    lsi_layout layout;                          /* of the files */
    float *whole[LSI_STATE_MAX_ARRAYS];         /* rank 0, where it writes alone */
    lsi_pieces pieces;                          /* that this rank writes */
} lsi_copy;

/* `out` must stay where it is. Not agreed. */
LS_MUST_USE ls_status lsi_copy_open(ls_trainer *trainer, bool shared, lsi_copy *out);
void lsi_copy_close(lsi_copy *copy);
/* Collective. Takes the state of the settled trainer; own parts are being copied when this returns. */
LS_MUST_USE ls_status lsi_copy_take(lsi_copy *copy);
/* Any thread, after a take: waits for it, brings the pieces into the files' order and hashes them. */
LS_MUST_USE ls_status lsi_copy_pack(lsi_copy *copy);

#endif
