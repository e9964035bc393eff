/* Whether comm.transport = nccl is possible, for the registry. */
#ifndef LSI_COMM_NCCL_CHOICE_H
#define LSI_COMM_NCCL_CHOICE_H

#include "comm/registry.h"

bool lsi_nccl_is_built(void);
/* Collective, on the cuda backend: does every rank have a GPU to itself? */
LS_MUST_USE ls_status lsi_nccl_own_gpus(lsi_job *job, const ls_device *device, bool *out);

#endif
