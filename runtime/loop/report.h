/* Sizes and shares for people: the start message and --dry-run. */
#ifndef LSI_LOOP_REPORT_H
#define LSI_LOOP_REPORT_H

#include "train/trainer.h"

/* Rank 0: a few lines on model, data, ranks and memory. */
void lsi_report_start(const ls_trainer *trainer, const ls_dataset *train, const ls_dataset *val);
/* Collective: parameters, steps, buckets, lanes and slots per rank, bytes per rank by class. */
LS_MUST_USE ls_status lsi_report_dry_run(ls_runtime *runtime, const lsi_param_table *params, const ls_dataset *train,
                                         const ls_dataset *val, const lsi_sizes *sizes);

#endif
