/* What stands for the nccl transport in a build without CUDA or NCCL. */
#include "comm/nccl_choice.h"
#include "comm/transports.h"

bool lsi_nccl_is_built(void)
{
    return false;
}

ls_status lsi_nccl_own_gpus(lsi_job *job, const ls_device *device, bool *out)
{
    (void)job;
    (void)device;
    *out = false;
    return LS_OK;
}

ls_status lsi_nccl_open(const lsi_comm_options *options, ls_comm **out)
{
    (void)options;
    (void)out;
    return LS_FAIL(LS_ERR_CONFIG,
                   "comm.transport = nccl is not in this build, which has no NCCL; choices: auto, self, mpi");
}

int64_t lsi_nccl_staging_bytes(const lsi_comm_options *options, int64_t largest_n)
{
    (void)options;
    (void)largest_n;
    return 0;
}
