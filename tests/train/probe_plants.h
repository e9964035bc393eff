/* Violations of what a step promises, for tests that must see them. */
#ifndef TESTS_TRAIN_PROBE_PLANTS_H
#define TESTS_TRAIN_PROBE_PLANTS_H

#include "train/trainer.h"

typedef struct probe_plant {
    const char *name;
    ls_status (*in_step)(ls_trainer *trainer);     /* once in a step, before its slots; NULL: nothing */
    ls_status (*before_slot)(ls_trainer *trainer); /* NULL: nothing */
} probe_plant;

/* NULL: there is none of this name. */
const probe_plant *probe_plant_find(const char *name);

#endif
