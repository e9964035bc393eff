/* Beats on their way between a rank and its peers: job_mpi's nonblocking messages, or, without MPI, none. */
#ifndef LSI_JOB_HEARTBEAT_H
#define LSI_JOB_HEARTBEAT_H

#include "job/job.h"
#include "job/liveness.h"

typedef struct lsi_heartbeat lsi_heartbeat;

/* Not collective: on the job's communicator for heartbeats. One at a time. */
LS_MUST_USE ls_status lsi_heartbeat_open(lsi_job *job, const int *peers, int n_peers, lsi_heartbeat **out);
/* After the last beat of every peer was received and one's own sent, or before lsi_heartbeat_begin. Accepts NULL. */
void lsi_heartbeat_close(lsi_heartbeat **heartbeat);

/* One thread makes all calls below, first this one. None waits. */
void lsi_heartbeat_begin(lsi_heartbeat *heartbeat);
/* To every peer that has received the beat before; one that has not is passed over. A last beat (leaves) is sent once:
 * true when all have it. */
bool lsi_heartbeat_send(lsi_heartbeat *heartbeat, const lsi_beat *beat);
/* A beat that has come, and which peer's: false when there is none. Until it is false again, so that none grows old. */
bool lsi_heartbeat_receive(lsi_heartbeat *heartbeat, int *peer, lsi_beat *out);

#endif
