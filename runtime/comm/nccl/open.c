#include "comm/nccl/nccl.h"

#include <stdio.h>
#include <string.h>

#include "backend/cuda/error.h"
#include "base/failure.h"
#include "base/memory.h"
#include "comm/nccl_choice.h"

enum { BUS_BYTES = 32, MESSAGE_BYTES = 512 };

/* What a rank tells the others before any of them waits for NCCL: nobody waits for a rank that has failed already. */
typedef struct rank_record {
    ls_status status;
    char message[MESSAGE_BYTES];
    char bus[BUS_BYTES]; /* the GPU's place on the bus of its node, which is how NCCL tells GPUs apart */
} rank_record;

static rank_record make_record(const ls_device *device, ls_status mine)
{
    rank_record record = {.status = mine};
    int ordinal = ((const lsi_cuda_device *)device)->ordinal;

    if (mine == LS_OK) {
        cudaError_t error = cudaDeviceGetPCIBusId(record.bus, BUS_BYTES, ordinal);
        if (error != cudaSuccess) {
            record.status = LSI_CUDA_FAIL(error, ordinal, "cudaDeviceGetPCIBusId", "cannot read which one it is");
        }
    }
    if (record.status != LS_OK) {
        snprintf(record.message, sizeof record.message, "%s", ls_failure_message());
    }
    return record;
}

/* Collective. all: `world` records, to be freed. */
static ls_status tell_all(lsi_job *job, const ls_device *device, ls_status mine, rank_record **all)
{
    rank_record record = make_record(device, mine);
    void *memory;

    LS_TRY(lsi_memory_alloc((size_t)job->world * sizeof record, "what ranks run on", &memory));
    *all = memory;
    ls_status status = lsi_job_all_gather(job, &record, sizeof record, *all);
    if (status != LS_OK) {
        lsi_memory_free(memory);
    }
    return status;
}

static bool find_shared(const lsi_job *job, const rank_record *all, int *first, int *second)
{
    for (int b = 1; b < job->world; b++) {
        for (int a = 0; a < b; a++) {
            if (job->node[a] == job->node[b] && strcmp(all[a].bus, all[b].bus) == 0) {
                *first = a;
                *second = b;
                return true;
            }
        }
    }
    return false;
}

static ls_status check_all_are_well(const lsi_job *job, const rank_record *all)
{
    for (int r = 0; r < job->world; r++) {
        LS_REQUIRE(all[r].status == LS_OK, all[r].status, "rank %d: %s", r, all[r].message);
    }
    return LS_OK;
}

ls_status lsi_nccl_own_gpus(lsi_job *job, const ls_device *device, bool *out)
{
    rank_record *all;
    int first, second;

    LS_TRY(tell_all(job, device, LS_OK, &all));
    ls_status status = check_all_are_well(job, all);
    *out = status == LS_OK && !find_shared(job, all, &first, &second);
    lsi_memory_free(all);
    return status;
}

static ls_status check_records(const lsi_job *job, const rank_record *all, ls_status mine)
{
    int first, second;

    LS_TRY(mine);
    LS_TRY(check_all_are_well(job, all));
    LS_REQUIRE(
        !find_shared(job, all, &first, &second), LS_ERR_CONFIG,
        "comm.transport = nccl: ranks %d and %d both use the GPU at %s of one machine; NCCL needs a GPU for each "
        "rank: start fewer ranks there, or use comm.transport = mpi",
        first, second, all[first].bus);
    return LS_OK;
}

/* ---- the id ---------------------------------------------------------------------------------------------------- */

typedef struct id_record {
    ls_status status;
    char message[MESSAGE_BYTES];
    ncclUniqueId id;
} id_record;

static ls_status share_id(lsi_nccl_comm *comm, lsi_job *job, ncclUniqueId *out)
{
    id_record record = {.status = LS_OK};

    if (job->rank == 0) {
        record.status = lsi_nccl_check(comm, ncclGetUniqueId(&record.id), "ncclGetUniqueId");
        if (record.status != LS_OK) {
            snprintf(record.message, sizeof record.message, "%s", ls_failure_message());
        }
    }
    LS_TRY(lsi_job_broadcast(job, &record, sizeof record, 0));
    LS_REQUIRE(record.status == LS_OK, record.status, "%s", record.message);
    *out = record.id;
    return LS_OK;
}

/* ---- joining --------------------------------------------------------------------------------------------------- */

static ls_status wait_for_all(lsi_nccl_comm *comm, ncclResult_t result)
{
    ls_status status = lsi_nccl_finish(comm, result, "ncclCommInitRankConfig");

    if (status != LS_ERR_TIMEOUT) {
        return status;
    }
    return LS_FAIL(LS_ERR_TIMEOUT,
                   "rank %d of %d: NCCL has not connected all ranks after %g s (comm.timeout). Between machines: set "
                   "NCCL_SOCKET_IFNAME to the interface that they share; inside one: try NCCL_P2P_DISABLE=1, then "
                   "NCCL_SHM_DISABLE=1 or a larger /dev/shm. NCCL_DEBUG=INFO tells more; comm.transport = mpi does "
                   "without NCCL",
                   comm->head.rank, comm->head.world, comm->timeout_seconds);
}

/* The others wait for this rank inside NCCL and do not hear of its failure. */
static ls_status connect(lsi_nccl_comm *comm, const lsi_job *job, ncclUniqueId id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
    LS_TRY(lsi_cuda_device_enter_for((lsi_cuda_device *)comm->head.device, "cannot set up NCCL"));
    return wait_for_all(comm, ncclCommInitRankConfig(&comm->nccl, job->world, id, job->rank, &config));
}

ls_status lsi_nccl_meet(lsi_job *job, const ls_device *device, ls_status mine)
{
    rank_record *all;

    LS_TRY(tell_all(job, device, mine, &all));
    ls_status status = check_records(job, all, mine);
    lsi_memory_free(all);
    return status;
}

ls_status lsi_nccl_join(lsi_nccl_comm *comm, lsi_job *job)
{
    ncclUniqueId id;

    LS_TRY(share_id(comm, job, &id));
    ls_status status = connect(comm, job, id);
    if (status != LS_OK && status != LS_ERR_TIMEOUT && job->world > 1) {
        comm->on_failure(comm->failure_argument, status);
    }
    LS_TRY(status);
    return lsi_nccl_guard_start(comm);
}
