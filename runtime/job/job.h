/* The job: its processes, where they run, and the small collectives on host memory that start-up, evaluation and
 * shutdown need. With comm's transports the only code that knows MPI; a build without MPI has a world of one.
 *
 * All calls but lsi_job_abort are collective, from the main thread. */
#ifndef LSI_JOB_JOB_H
#define LSI_JOB_JOB_H

#include <lockstep/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LSI_JOB_HOST = 64 };    /* of a host's name in the table; longer ones are cut */

typedef struct lsi_job {
    int rank, world;
    int local_rank, n_local;    /* among the ranks of this node */
    int n_nodes;
    int *node;                  /* node of each rank, numbered by first appearance; a node is host name + boot id */
    const char *host;
    char (*hosts)[LSI_JOB_HOST];    /* of each rank */
    bool owns_mpi;              /* MPI was initialised by us */
    void *communicator;         /* MPI_Comm * of this job, duplicated; NULL without MPI. For comm's transports */
    void *heartbeats;           /* likewise another one, for the watchdog */
    struct lsi_watchdog *watchdog;      /* told by the collectives below that they wait; NULL: none runs */
} lsi_job;

/* Starts MPI with MPI_THREAD_MULTIPLE (an error otherwise). Without mpirun the world is one. From the first moment on
 * signals are requests to stop (job/stop.h). Opens the log's prefix. A failure has been printed. */
LS_MUST_USE ls_status lsi_job_open(const char *program, int *argc, char ***argv, lsi_job **out);
/* Barrier and MPI_Finalize. Accepts NULL. */
void lsi_job_close(lsi_job **job);

/* Every rank says how a phase ended. When any failed, the lowest failing rank prints its message as one error line and
 * all ranks return its status. A phase contains no collective of its own, so that all ranks get here. Ranks that cannot
 * reach each other any more abort, so that whatever this returns has been printed. */
LS_MUST_USE ls_status lsi_job_agree(lsi_job *job, ls_status mine);
/* Not collective, any thread: prints this thread's failure and ends every process of the job with the status' code.
 * Only the first call of a process prints. job may be NULL. */
_Noreturn void lsi_job_abort(lsi_job *job, ls_status why);

LS_MUST_USE ls_status lsi_job_broadcast(lsi_job *job, void *data, size_t bytes, int root);
/* A text of any length, or NULL: *text, of counted memory, is replaced on ranks other than root. */
LS_MUST_USE ls_status lsi_job_broadcast_text(lsi_job *job, char **text, int root);
/* `bytes` of every rank, in rank order, in all[world * bytes]. */
LS_MUST_USE ls_status lsi_job_all_gather(lsi_job *job, const void *mine, size_t bytes, void *all);
/* Each value becomes the largest of all ranks. */
LS_MUST_USE ls_status lsi_job_max(lsi_job *job, double *values, int n);
LS_MUST_USE ls_status lsi_job_barrier(lsi_job *job);

#endif
