/* Small messages on their way from some ranks to rank 0 while the job works: what each one saw last. Nobody waits for
 * anybody; a report for which the one before is still under way is dropped. job_mpi's nonblocking messages, or, without
 * MPI, none. */
#ifndef LSI_JOB_REPORTS_H
#define LSI_JOB_REPORTS_H

#include "job/job.h"

typedef struct lsi_reports lsi_reports;

/* Collective over the job, agreed. `senders`: ranks but 0, the same list everywhere. `bytes`: of a report, more than none.
 * *out is NULL on ranks that neither send nor receive. */
LS_MUST_USE ls_status lsi_reports_open(lsi_job *job, const int *senders, int n_senders, size_t bytes,
                                       lsi_reports **out);

/* One thread of a process makes these calls. A sender's: false when the report was dropped. */
bool lsi_reports_send(lsi_reports *reports, const void *report);
/* Rank 0's: a report that has come, and which sender's (index into `senders`). False: there is none. */
bool lsi_reports_receive(lsi_reports *reports, int *sender, void *out);

/* Collective over the job, after the last call above. Accepts NULL. */
void lsi_reports_close(lsi_reports **reports);

#endif
