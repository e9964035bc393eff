/* Where a run begins: at a checkpoint, at weights of another program, or afresh. */
#ifndef LSI_CHECKPOINT_RESUME_H
#define LSI_CHECKPOINT_RESUME_H

#include "base/previous.h"
#include "checkpoint/place.h"
#include "train/trainer.h"

typedef struct lsi_resume {
    bool found;        /* the run goes on from a checkpoint */
    bool in_place;     /* which is of checkpoint.dir: the run goes on with its own output */
    char *path;        /* of the checkpoint; NULL without one */
    int64_t step;      /* steps done; 0 without one */
    bool evaluated;    /* so is the evaluation due at this step */
    int64_t best_step; /* see lsi_manifest */
    double best_loss;
    int64_t metrics_bytes;
} lsi_resume;

/* Collective, agreed; before the first step. As checkpoint.resume says: "never" and a folder without checkpoints begin
 * afresh (from model.init_from, where that is set). "auto" takes the newest checkpoint that is whole, with a warning
 * for each that is not; none whole although there are some: ERR_CHECKPOINT. A path that is not whole: ERR_CHECKPOINT.
 * So is one that does not fit the model, the data, or a key that must not change; other changes are warned about.
 * Everything is verified before anything is moved or overwritten. Checkpoints that the run does not go on from move
 * aside (rank 0). Free with lsi_resume_free. */
LS_MUST_USE ls_status lsi_resume_load(ls_trainer *trainer, lsi_checkpoint_place *place, lsi_previous *previous,
                                      lsi_resume *out);
void lsi_resume_free(lsi_resume *resume);

#endif
