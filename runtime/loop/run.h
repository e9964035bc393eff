/* What a configuration names, run or described. */
#ifndef LSI_LOOP_RUN_H
#define LSI_LOOP_RUN_H

#include "train/runtime.h"

/* Collective. Prints what ls_run would use, on rank 0; trains nothing and writes nothing. */
LS_MUST_USE ls_status lsi_run_dry(ls_runtime *runtime);

#endif
