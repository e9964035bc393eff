#include "device/local_rank.h"

#include <stdlib.h>

#include "base/number.h"

void lsi_local_rank_check(int local_rank, int n_local, const char *host, lsi_text *out)
{
    static const char *const variables[] = {
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "PALS_LOCAL_RANKID",
        "PMI_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "FLUX_TASK_LOCAL_ID",
        "JSM_NAMESPACE_LOCAL_RANK",
        "LOCAL_RANK",
        "SLURM_LOCALID",
    };

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        int64_t said = -1;

        if (value == NULL) {
            continue;
        }
        const char *why = lsi_number_int(value, &said);
        if (why != NULL || said < 0) {
            lsi_text_append(out,
                            "%s = '%.60s' is no local rank; this is process %d of %d on host %s by MPI's own count, "
                            "which is used",
                            variables[i], value, local_rank, n_local, host);
        } else if (said != local_rank) {
            lsi_text_append(out,
                            "%s = %lld, but this is process %d of %d on host %s by MPI's own count, which is used; "
                            "the variable is stale, or containers split the host",
                            variables[i], (long long)said, local_rank, n_local, host);
        }
        return;
    }
}
