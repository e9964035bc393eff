/* What stands for the mpi transport in a build without MPI. */
#include "comm/transports.h"

ls_status lsi_mpi_open(const lsi_comm_options *options, ls_comm **out)
{
    (void)options;
    (void)out;
    return LS_FAIL(LS_ERR_CONFIG,
                   "comm.transport = mpi is not in this build (LOCKSTEP_MPI=OFF); choices: auto, self, shm");
}

ls_status lsi_mpi_between_nodes_open(const lsi_comm_options *options, ls_comm **out)
{
    return lsi_mpi_open(options, out);
}

int64_t lsi_mpi_staging_bytes(const lsi_comm_options *options, int64_t largest_n, size_t exchange_bytes)
{
    (void)options;
    (void)largest_n;
    (void)exchange_bytes;
    return 0;
}
