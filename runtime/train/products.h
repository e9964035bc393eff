/* A trainer's matrix products before its first step: their algorithms, advice about their sizes, and how fast they
 * could be, which a step's speed is held against. */
#ifndef LSI_TRAIN_PRODUCTS_H
#define LSI_TRAIN_PRODUCTS_H

#include "train/runtime.h"

struct ls_plan;

/* What is known of a run's work. */
typedef struct lsi_work {
    double step_flops;    /* of one step of all processes: what the model's ops count (ls_op.flops) */
    double product_flops; /* per second, of all processes together: the model's largest product alone; 0: unknown */
} lsi_work;

/* Collective; `eval` may be NULL. Where the backend has a choice: sees to it that all ranks make each product by the
 * same algorithm, warns once of sizes that keep 16-bit products off the fast path and of products that the plan file
 * lacks, and measures the largest product. No later step then asks the library for an algorithm. */
LS_MUST_USE ls_status lsi_products_prepare(ls_runtime *runtime, const ls_plan *train, const ls_plan *eval,
                                           lsi_work *out);
/* Part of that speed which a step of so many seconds reaches; 0: unknown. */
double lsi_work_utilization(const lsi_work *work, double step_seconds);

#endif
