#include "comm/registry.h"

#include <string.h>

#include "base/log.h"
#include "comm/nccl_choice.h"
#include "comm/transports.h"

/* The transport called `name`, or the one that auto stands for: shared memory where all ranks compute on one node's CPU,
 * NCCL where every rank has a GPU to itself. */
static ls_status choose(const lsi_comm_options *options, const char **out)
{
    lsi_job *job = options->job;
    bool own_gpus = false;

    *out = options->transport;
    if (strcmp(*out, "auto") != 0) {
        return LS_OK;
    }
    if (job->world > 1 && lsi_nccl_is_built() && strcmp(options->device->backend->name, "cuda") == 0) {
        LS_TRY(lsi_nccl_own_gpus(job, options->device, &own_gpus));
        if (!own_gpus && job->rank == 0) {
            lsi_log_info("several processes use one GPU: they exchange gradients by MPI through the host, not by NCCL");
        }
    }
    bool shares_memory = job->n_nodes == 1 && options->device->backend->host_memory;
    *out = job->world == 1 ? "self" : own_gpus ? "nccl" : shares_memory ? "shm" : "mpi";
    return LS_OK;
}

/* Chosen by auto, MPI takes the place of shared memory where the system denies it. */
static ls_status open_shm(const lsi_comm_options *options, ls_comm **out)
{
    bool chosen = strcmp(options->transport, "auto") == 0;

    LS_REQUIRE(options->device->backend->host_memory, LS_ERR_CONFIG,
               "comm.transport = shm is for the cpu backend; this run is on the %s backend: use auto or mpi",
               options->device->backend->name);
    if (options->job->n_nodes > 1) {
        return lsi_mpi_between_nodes_open(options, out);
    }
    ls_status status = lsi_shm_open(options, out);
    if (status != LS_ERR_COMM || !chosen) {
        return status;
    }
    if (options->job->rank == 0) {
        lsi_log_warn("%s; they exchange gradients by MPI instead", ls_failure_message());
    }
    return lsi_mpi_open(options, out);
}

ls_status lsi_comm_open(const lsi_comm_options *options, ls_comm **out)
{
    int world = options->job->world;
    const char *name;

    LS_TRY(choose(options, &name));
    if (strcmp(name, "self") == 0) {
        LS_REQUIRE(world == 1, LS_ERR_CONFIG,
                   "comm.transport = self is for one process; this job has %d: use auto or mpi", world);
        return lsi_self_open(options, out);
    }
    if (strcmp(name, "mpi") == 0) {
        return lsi_mpi_open(options, out);
    }
    if (strcmp(name, "shm") == 0) {
        return open_shm(options, out);
    }
    if (strcmp(name, "nccl") == 0) {
        return lsi_nccl_open(options, out);
    }
    return LS_FAIL(LS_ERR_CONFIG, "comm.transport is '%s'; choices in this build: auto, self, mpi, shm%s",
                   options->transport, lsi_nccl_is_built() ? ", nccl" : "");
}

int64_t lsi_comm_staging_bytes(const lsi_comm_options *options, int64_t largest_n, size_t exchange_bytes)
{
    if (strcmp(options->transport, "shm") == 0 && options->job->n_nodes == 1) {
        return lsi_shm_staging_bytes();
    }
    if (strcmp(options->transport, "mpi") == 0 || strcmp(options->transport, "shm") == 0) {
        return lsi_mpi_staging_bytes(options, largest_n, exchange_bytes);
    }
    return strcmp(options->transport, "nccl") == 0 ? lsi_nccl_staging_bytes(options, largest_n) : 0;
}
