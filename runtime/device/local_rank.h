/* A process's place among those of its host. MPI's own count is what the runtime goes by: processes that name the same
 * host and boot are together. Launchers say it, too, in variables, the first of which that is set is compared with it:
 *
 *     OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, PALS_LOCAL_RANKID, PMI_LOCAL_RANK, MV2_COMM_WORLD_LOCAL_RANK,
 *     FLUX_TASK_LOCAL_ID, JSM_NAMESPACE_LOCAL_RANK, LOCAL_RANK, SLURM_LOCALID
 *
 * in this order, because a shell that Slurm started passes its own SLURM_LOCALID on to everything below it. */
#ifndef LSI_DEVICE_LOCAL_RANK_H
#define LSI_DEVICE_LOCAL_RANK_H

#include "base/text.h"

/* Appends one line when the variable that counts disagrees or cannot be read; nothing else depends on it. */
void lsi_local_rank_check(int local_rank, int n_local, const char *host, lsi_text *out);

#endif
