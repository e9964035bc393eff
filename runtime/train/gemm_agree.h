/* One algorithm for each product, the same on all ranks. */
#ifndef LSI_TRAIN_GEMM_AGREE_H
#define LSI_TRAIN_GEMM_AGREE_H

#include "job/job.h"
#include "train/gemm_list.h"
#include "train/tuning.h"

/* Collective. Installs for each product of the list that is not in `tuning` (NULL: none is) the first of rank 0's
 * proposals that the devices of all ranks accept. Where there is none, ERR_DEVICE names the product and two ranks.
 * A failure is every rank's, and has been printed. */
LS_MUST_USE ls_status lsi_gemm_agree(lsi_job *job, ls_device *device, const lsi_gemm_list *list,
                                     const lsi_tuning *tuning);

#endif
