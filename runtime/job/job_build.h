/* Between job.c, which every build has, and job_mpi.c or job_single.c, of which a build has one. */
#ifndef LSI_JOB_JOB_BUILD_H
#define LSI_JOB_JOB_BUILD_H

#include "job/job.h"

enum { LSI_JOB_HOST_MAX = 256 };

/* ---- job.c ------------------------------------------------------------------------------------------------ */

/* Equal on two ranks exactly when they run on the same node. */
typedef struct lsi_node_id {
    unsigned char hash[16];
    char host[LSI_JOB_HOST];        /* zero behind its end */
} lsi_node_id;

/* The name of this host, "localhost" when it has none. */
void lsi_job_host(char out[LSI_JOB_HOST_MAX]);
/* Not collective: a job whose nodes are not known yet. */
LS_MUST_USE ls_status lsi_job_create(int rank, int world, const char *host, lsi_job **out, lsi_node_id *node);
void lsi_job_destroy(lsi_job **job);
/* Collective: fills in node, hosts, n_nodes, local_rank, n_local. A failure has been printed. */
LS_MUST_USE ls_status lsi_job_map_nodes(lsi_job *job, const lsi_node_id *node);
/* This thread's failure as one error line. */
void lsi_job_print_failure(ls_status status);

/* ---- job_mpi.c, job_single.c ------------------------------------------------------------------------------ */

/* Any thread: ends all other processes of the job with this exit code, and this one unless it returns. */
void lsi_job_end_processes(int exit_code);

#endif
