/* The transports of this build, for the registry. */
#ifndef LSI_COMM_TRANSPORTS_H
#define LSI_COMM_TRANSPORTS_H

#include "comm/registry.h"

/* Common head of prepared collectives: a transport embeds it first in its own struct. */
struct ls_collective {
    ls_comm *comm;
};

/* Whether a rank whose lanes are `share` hands over what the transport can add up. */
LS_MUST_USE ls_status lsi_partials_check(const ls_comm *comm, lsi_span share, bool fast, const ls_partial *partials,
                                         int n_partials);

LS_MUST_USE ls_status lsi_self_open(const lsi_comm_options *options, ls_comm **out);

/* In a build without MPI the opening fails and says so. */
LS_MUST_USE ls_status lsi_mpi_open(const lsi_comm_options *options, ls_comm **out);
/* comm.transport = shm on several nodes: mpi between them, memory shared inside each. LS_ERR_COMM on all ranks alike
 * where it cannot be shared. */
LS_MUST_USE ls_status lsi_mpi_between_nodes_open(const lsi_comm_options *options, ls_comm **out);
int64_t lsi_mpi_staging_bytes(const lsi_comm_options *options, int64_t largest_n, size_t exchange_bytes);

/* Collective. All ranks are on one node, and the device's memory is the host's. LS_ERR_COMM on all ranks alike where
 * they cannot share memory. */
LS_MUST_USE ls_status lsi_shm_open(const lsi_comm_options *options, ls_comm **out);
int64_t lsi_shm_staging_bytes(void);

/* Collective. In a build without CUDA or NCCL the opening fails and says so. */
LS_MUST_USE ls_status lsi_nccl_open(const lsi_comm_options *options, ls_comm **out);
int64_t lsi_nccl_staging_bytes(const lsi_comm_options *options, int64_t largest_n);

#endif
