/* The job of a build with MPI. */
#include "job/job.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "job/job_build.h"
#include "job/stop.h"
#include "job/watchdog.h"

/* Larger ones make Open MPI page-fault its temporaries; MPI's counts are int. */
static const size_t piece_bytes = (size_t)4 << 20;

/* Static like MPI's own: there is one job in a process. Nothing of a training step uses it. */
static MPI_Comm control = MPI_COMM_NULL, heartbeats = MPI_COMM_NULL;

static ls_status check(int error, const char *what)
{
    char reason[MPI_MAX_ERROR_STRING] = "";
    int length;

    if (error == MPI_SUCCESS) {
        return LS_OK;
    }
    MPI_Error_string(error, reason, &length);
    return LS_FAIL(LS_ERR_COMM, "%s failed: %s", what, reason);
}

/* ---- life ------------------------------------------------------------------------------------------------- */

/* *by_us: it was not running before. */
static ls_status start_mpi(int *argc, char ***argv, bool *by_us)
{
    int running, threads;   /* checked later: MPI_Init_thread may have been the caller's */

    /* Without mpirun Open MPI would start a daemon for processes to come, and fail where it finds no ssh for it. Other
     * MPIs do not know the variable. */
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    LS_TRY(check(MPI_Initialized(&running), "MPI_Initialized"));
    if (!running) {
        LS_TRY(check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &threads), "MPI_Init_thread"));
    }
    *by_us = !running;
    LS_TRY(check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    LS_TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &control), "MPI_Comm_dup"));
    return check(MPI_Comm_dup(MPI_COMM_WORLD, &heartbeats), "MPI_Comm_dup");
}

static void stop_mpi(bool by_us)
{
    if (control != MPI_COMM_NULL) {
        MPI_Comm_free(&control);
    }
    if (heartbeats != MPI_COMM_NULL) {
        MPI_Comm_free(&heartbeats);
    }
    if (by_us) {
        MPI_Finalize();
    }
}

static ls_status check_threads(void)
{
    int threads;

    LS_TRY(check(MPI_Query_thread(&threads), "MPI_Query_thread"));
    LS_REQUIRE(threads == MPI_THREAD_MULTIPLE, LS_ERR_COMM,
               "this MPI library does not allow calls from several threads (MPI_THREAD_MULTIPLE); use one built with "
               "it, or build with -DLOCKSTEP_MPI=OFF for one process");
    return LS_OK;
}

static ls_status agree(int rank, ls_status mine);

ls_status lsi_job_open(const char *program, int *argc, char ***argv, lsi_job **out)
{
    char host[LSI_JOB_HOST_MAX];
    lsi_job *job = NULL;
    lsi_node_id node;
    bool by_us = false;
    int rank = 0, world = 1;

    lsi_stop_watch();       /* first: starting takes a while, and a stop may be asked for meanwhile */
    lsi_job_host(host);
    lsi_file_hold_standard();
    lsi_file_outlive_limit();
    lsi_log_open(program, 0, 1, host);
    ls_status status = start_mpi(argc, argv, &by_us);
    if (status != LS_OK) {
        lsi_job_print_failure(status);
        stop_mpi(by_us);
        return status;
    }
    MPI_Comm_rank(control, &rank);
    MPI_Comm_size(control, &world);
    lsi_log_open(program, rank, world, host);

    status = check_threads();
    if (status == LS_OK) {
        status = lsi_job_create(rank, world, host, &job, &node);
    }
    status = agree(rank, status);
    if (status == LS_OK) {
        job->owns_mpi = by_us;
        job->communicator = &control;
        job->heartbeats = &heartbeats;
        status = lsi_job_map_nodes(job, &node);
    }
    if (status != LS_OK) {
        lsi_job_destroy(&job);
        stop_mpi(by_us);
        return status;
    }
    *out = job;
    return LS_OK;
}

void lsi_job_close(lsi_job **job)
{
    if (*job == NULL) {
        return;
    }
    MPI_Barrier(control);
    stop_mpi((*job)->owns_mpi);
    lsi_job_destroy(job);
}

/* ---- the two ways out ------------------------------------------------------------------------------------- */

static ls_status agree(int rank, ls_status mine)
{
    struct {
        int ok, rank;
    } here = {mine == LS_OK, rank}, lowest;
    int status = (int)mine;

    ls_status reached = check(MPI_Allreduce(&here, &lowest, 1, MPI_2INT, MPI_MINLOC, control), "agreeing on a result");
    if (reached == LS_OK && lowest.ok) {
        return LS_OK;
    }
    if (reached == LS_OK && lowest.rank == rank) {
        lsi_job_print_failure(mine);
    }
    if (reached == LS_OK) {
        reached = check(MPI_Bcast(&status, 1, MPI_INT, lowest.rank, control), "agreeing on a result");
    }
    if (reached != LS_OK) {
        lsi_job_abort(NULL, reached);
    }
    if (lowest.rank == rank) {
        return mine;
    }
    return LS_FAIL((ls_status)status, "rank %d failed; its message says why", lowest.rank);
}

ls_status lsi_job_agree(lsi_job *job, ls_status mine)
{
    lsi_watchdog_wait(job->watchdog, true);
    ls_status status = agree(job->rank, mine);
    lsi_watchdog_wait(job->watchdog, false);
    return status;
}

void lsi_job_end_processes(int exit_code)
{
    int running = 0, finished = 0, world = 1;

    MPI_Initialized(&running);
    MPI_Finalized(&finished);
    if (running && !finished) {
        MPI_Comm_size(MPI_COMM_WORLD, &world);
    }
    /* Alone we just leave: Open MPI would add nine lines to our one. */
    if (world > 1) {
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    }
}

/* ---- collectives ------------------------------------------------------------------------------------------ */

/* The end of a collective before which lsi_watchdog_wait was told that it begins. */
static ls_status waited(lsi_job *job, int error, const char *what)
{
    lsi_watchdog_wait(job->watchdog, false);
    return check(error, what);
}

ls_status lsi_job_broadcast(lsi_job *job, void *data, size_t bytes, int root)
{
    for (size_t done = 0; done < bytes;) {
        size_t piece = bytes - done < piece_bytes ? bytes - done : piece_bytes;

        lsi_watchdog_wait(job->watchdog, true);
        int error = MPI_Bcast((char *)data + done, (int)piece, MPI_BYTE, root, control);
        LS_TRY(waited(job, error, "a broadcast"));
        done += piece;
    }
    return LS_OK;
}

ls_status lsi_job_broadcast_text(lsi_job *job, char **text, int root)
{
    /* With its NUL; 0 for no text. */
    uint64_t bytes = job->rank == root && *text != NULL ? strlen(*text) + 1 : 0;
    ls_status status = LS_OK;
    void *copy = NULL;

    LS_TRY(lsi_job_broadcast(job, &bytes, sizeof bytes, root));
    if (job->rank != root && bytes > 0) {
        status = lsi_memory_alloc(bytes, "a text of another rank", &copy);
    }
    LS_TRY_GOTO(status, failed, lsi_job_agree(job, status));
    LS_TRY_GOTO(status, failed, lsi_job_broadcast(job, job->rank == root ? *text : copy, bytes, root));
    if (job->rank != root) {
        lsi_memory_free(*text);
        *text = copy;
    }
    return LS_OK;
failed:
    lsi_memory_free(copy);
    return status;
}

ls_status lsi_job_all_gather(lsi_job *job, const void *mine, size_t bytes, void *all)
{
    LS_REQUIRE(bytes <= INT_MAX, LS_ERR_INTERNAL, "gathering %zu bytes of each rank: more than MPI counts", bytes);
    lsi_watchdog_wait(job->watchdog, true);
    int error = MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, control);
    return waited(job, error, "a gather");
}

ls_status lsi_job_max(lsi_job *job, double *values, int n)
{
    lsi_watchdog_wait(job->watchdog, true);
    int error = MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, control);
    return waited(job, error, "a maximum");
}

ls_status lsi_job_barrier(lsi_job *job)
{
    lsi_watchdog_wait(job->watchdog, true);
    return waited(job, MPI_Barrier(control), "a barrier");
}
