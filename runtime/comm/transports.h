/* The transports of this build, for the registry. */
#ifndef LSI_COMM_TRANSPORTS_H
#define LSI_COMM_TRANSPORTS_H

#include "comm/registry.h"

/* Common head of prepared collectives: a transport embeds it first in its own struct. */
struct ls_collective {
    ls_comm *comm;
};

LS_MUST_USE ls_status lsi_self_open(const lsi_comm_options *options, ls_comm **out);

/* In a build without MPI the opening fails and says so. */
LS_MUST_USE ls_status lsi_mpi_open(const lsi_comm_options *options, ls_comm **out);
int64_t lsi_mpi_staging_bytes(const lsi_comm_options *options, int64_t largest_n);

#endif
