/* What a trainer allocates, computed before anything is: --dry-run prints it, the trainer allocates by it. */
#ifndef LSI_TRAIN_MEMORY_H
#define LSI_TRAIN_MEMORY_H

#include "backend/buffer.h"
#include "graph/plan.h"
#include "train/exchange.h"
#include "train/lanes.h"
#include "train/runtime.h"
#include <lockstep/dataset.h>

typedef struct lsi_sizes {
    int64_t n_elements;                 /* flat parameter index */
    int n_buckets;
    int64_t largest_bucket;             /* elements */
    int gradient_copies, moments;
    int64_t n_local;                    /* slots of this rank */
    size_t input_bytes, target_bytes;   /* of one slot */
    size_t activation_bytes;            /* the larger of the training and the evaluation plan */
    size_t bytes[LSI_MEMORY_CLASS_COUNT];
} lsi_sizes;

/* `eval` may be NULL. */
void lsi_sizes_make(const ls_runtime *runtime, const lsi_param_table *table, const ls_plan *train, const ls_plan *eval,
                    const ls_dataset *data, const lsi_lanes *lanes, const lsi_exchange *exchange, lsi_sizes *out);
size_t lsi_sizes_total(const lsi_sizes *sizes);
/* Collective, agreed. Fails, naming the sizes by class, when what is planned is more than is
 * free: said before the first byte is allocated, instead of after minutes of filling memory that then runs out. */
LS_MUST_USE ls_status lsi_sizes_check(ls_runtime *runtime, const lsi_sizes *sizes);

#endif
