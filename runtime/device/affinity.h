/* How many compute threads this process should run, from the cores it may use and the ranks that share them. */
#ifndef LSI_DEVICE_AFFINITY_H
#define LSI_DEVICE_AFFINITY_H

#include "base/text.h"
#include "job/job.h"

typedef struct lsi_affinity {
    int cores_allowed;      /* in this process's own mask */
    int cores_online;
    int local_ranks;        /* processes of this job on this node */
    int sharing;            /* local ranks with the same mask, this one included */
    int threads;            /* max(1, cores_allowed / sharing), or what was asked for */
} lsi_affinity;

/* Collective. `asked` 0: decide. */
LS_MUST_USE ls_status lsi_affinity_decide(lsi_job *job, int asked, lsi_affinity *out);
/* One line with the remedy when this rank is bound to one core (mpirun's default) although its share of the node is
 * more; else nothing. */
void lsi_affinity_warning(const lsi_affinity *affinity, lsi_text *out);

#endif
