/* Sizes and shares for people: the start message and --dry-run. */
#ifndef LSI_LOOP_REPORT_H
#define LSI_LOOP_REPORT_H

#include "checkpoint/saver.h"
#include "train/trainer.h"

/* Rank 0: a few lines on model, data, ranks and memory. */
void lsi_report_start(const ls_trainer *trainer, const char *model, const ls_dataset *train, const ls_dataset *val);
/* Rank 0: where the run goes on from, what a checkpoint takes and what is free. saver NULL: none are written. */
void lsi_report_checkpoints(const ls_trainer *trainer, const lsi_resume *from, const lsi_saver *saver);
/* Collective: parameters, steps, buckets, lanes and slots per rank, bytes per rank by class. */
LS_MUST_USE ls_status lsi_report_dry_run(ls_runtime *runtime, const lsi_param_table *params, const ls_dataset *train,
                                         const ls_dataset *val, const lsi_sizes *sizes);

#endif
