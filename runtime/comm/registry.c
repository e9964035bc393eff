#include "comm/registry.h"

#include <string.h>

#include "comm/transports.h"

typedef enum transport { TRANSPORT_SELF, TRANSPORT_MPI, TRANSPORT_UNKNOWN } transport;

static transport find(const char *name, int world)
{
    if (strcmp(name, "auto") == 0) {
        return world == 1 ? TRANSPORT_SELF : TRANSPORT_MPI;
    }
    return strcmp(name, "self") == 0 ? TRANSPORT_SELF : strcmp(name, "mpi") == 0 ? TRANSPORT_MPI : TRANSPORT_UNKNOWN;
}

ls_status lsi_comm_open(const lsi_comm_options *options, ls_comm **out)
{
    int world = options->job->world;

    switch (find(options->transport, world)) {
    case TRANSPORT_SELF:
        LS_REQUIRE(world == 1, LS_ERR_CONFIG,
                   "comm.transport = self is for one process; this job has %d: use auto or mpi", world);
        return lsi_self_open(options, out);
    case TRANSPORT_MPI:
        return lsi_mpi_open(options, out);
    case TRANSPORT_UNKNOWN:
        break;
    }
    return LS_FAIL(LS_ERR_CONFIG, "comm.transport is '%s'; choices in this build: auto, self, mpi", options->transport);
}

int64_t lsi_comm_staging_bytes(const lsi_comm_options *options, int64_t largest_n)
{
    bool mpi = find(options->transport, options->job->world) == TRANSPORT_MPI;

    return mpi ? lsi_mpi_staging_bytes(options, largest_n) : 0;
}
