/* The job of a build without MPI: a world of one, where every collective is already done. */
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "job/job_build.h"
#include "job/stop.h"

/* Started by mpirun, this build would train as often as there are processes, into the same files. */
static ls_status check_alone(int *rank)
{
    static const struct {
        const char *world, *rank;
    } launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}};

    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *world_text = getenv(launchers[i].world), *rank_text = getenv(launchers[i].rank);
        int world = world_text != NULL ? atoi(world_text) : 1;
        *rank = rank_text != NULL ? atoi(rank_text) : 0;
        LS_REQUIRE(world <= 1, LS_ERR_USAGE,
                   "started as %d processes, but this build has no MPI: start one, or build with -DLOCKSTEP_MPI=ON",
                   world);
    }
    return LS_OK;
}

ls_status lsi_job_open(const char *program, int *argc, char ***argv, lsi_job **out)
{
    char host[LSI_JOB_HOST_MAX];
    lsi_job *job = NULL;
    lsi_node_id node;
    int rank = 0;

    (void)argc, (void)argv;
    lsi_stop_watch();       /* first: starting takes a while, and a stop may be asked for meanwhile */
    lsi_job_host(host);
    lsi_file_hold_standard();
    lsi_file_outlive_limit();
    lsi_log_open(program, 0, 1, host);
    ls_status status = check_alone(&rank);
    if (status == LS_OK) {
        status = lsi_job_create(0, 1, host, &job, &node);
    }
    if (status != LS_OK) {
        if (rank == 0) {
            lsi_job_print_failure(status);
        }
        return status;
    }
    status = lsi_job_map_nodes(job, &node);
    if (status != LS_OK) {
        lsi_job_destroy(&job);
        return status;
    }
    *out = job;
    return LS_OK;
}

void lsi_job_close(lsi_job **job)
{
    lsi_job_destroy(job);
}

ls_status lsi_job_agree(lsi_job *job, ls_status mine)
{
    (void)job;
    if (mine != LS_OK) {
        lsi_job_print_failure(mine);
    }
    return mine;
}

void lsi_job_end_processes(int exit_code)
{
    (void)exit_code;
}

ls_status lsi_job_broadcast(lsi_job *job, void *data, size_t bytes, int root)
{
    (void)job, (void)data, (void)bytes, (void)root;
    return LS_OK;
}

ls_status lsi_job_broadcast_text(lsi_job *job, char **text, int root)
{
    (void)job, (void)text, (void)root;
    return LS_OK;
}

ls_status lsi_job_all_gather(lsi_job *job, const void *mine, size_t bytes, void *all)
{
    (void)job;
    if (bytes > 0) {
        memcpy(all, mine, bytes);
    }
    return LS_OK;
}

ls_status lsi_job_max(lsi_job *job, double *values, int n)
{
    (void)job, (void)values, (void)n;
    return LS_OK;
}

ls_status lsi_job_barrier(lsi_job *job)
{
    (void)job;
    return LS_OK;
}
