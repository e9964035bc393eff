#include "device/affinity.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* cpu_set_t ends at 1024 cores, and the system refuses a mask that is too short for its cores. */
enum { MAX_CORES = 8192, WORD_BITS = 8 * sizeof(unsigned long) };

typedef struct mask {
    unsigned long words[MAX_CORES / WORD_BITS];
} mask;

static ls_status read_mask(mask *out)
{
    *out = (mask){{0}};
    LS_REQUIRE(sched_getaffinity(0, sizeof *out, (cpu_set_t *)(void *)out) == 0, LS_ERR_DEVICE,
               "cannot read which cores this process may use: %s", strerror(errno));
    return LS_OK;
}

static int count_cores(const mask *m)
{
    int n = 0;

    for (int i = 0; i < MAX_CORES / WORD_BITS; i++) {
        n += __builtin_popcountl(m->words[i]);
    }
    return n;
}

ls_status lsi_affinity_decide(lsi_job *job, int asked, lsi_affinity *out)
{
    void *memory = NULL;
    mask mine;

    ls_status status = read_mask(&mine);
    if (status == LS_OK) {
        status = lsi_memory_alloc((size_t)job->world * sizeof mine, "the cores of all ranks", &memory);
    }
    mask *all = memory;
    LS_TRY_GOTO(status, done, lsi_job_agree(job, status));
    LS_TRY_GOTO(status, done, lsi_job_all_gather(job, &mine, sizeof mine, all));

    int sharing = 0, cores = count_cores(&mine);
    for (int r = 0; r < job->world; r++) {
        sharing += job->node[r] == job->node[job->rank] && memcmp(&all[r], &mine, sizeof mine) == 0;
    }
    int share = cores / sharing > 1 ? cores / sharing : 1;
    *out = (lsi_affinity){
        .cores_allowed = cores,
        .cores_online = (int)sysconf(_SC_NPROCESSORS_ONLN),
        .local_ranks = job->n_local,
        .sharing = sharing,
        .threads = asked > 0 ? asked : share,
    };
done:
    lsi_memory_free(memory);
    return status;
}

void lsi_affinity_warning(const lsi_affinity *affinity, lsi_text *out)
{
    int share = affinity->cores_online / affinity->local_ranks;

    if (affinity->cores_allowed == 1 && share > 1) {
        lsi_text_append(out,
                        "bound to 1 of %d cores, the others stay idle; start with `mpirun --bind-to none`, or with "
                        "`mpirun --map-by slot:PE=%d` for %d cores a process",
                        affinity->cores_online, share, share);
    }
}
