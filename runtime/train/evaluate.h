/* Mean loss over a held-out set. */
#ifndef LSI_TRAIN_EVALUATE_H
#define LSI_TRAIN_EVALUATE_H

#include "train/trainer.h"

typedef struct lsi_evaluation {
    double loss;            /* mean over the counted targets */
    double accuracy;        /* counted targets whose largest logit is theirs */
    int64_t samples, counted;
} lsi_evaluation;

/* Collective; settle first. Slots of micro_batch samples in file order, at most `max_slots` (0: all), dealt to the
 * ranks in runs; sums are added in slot order, so the numbers do not depend on the number of processes. A failure in
 * here is one rank's alone: abort. */
LS_MUST_USE ls_status lsi_trainer_evaluate(ls_trainer *trainer, const ls_dataset *data, int64_t max_slots,
                                           lsi_evaluation *out);

#endif
