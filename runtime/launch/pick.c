#include "launch/pick.h"

#include <sched.h>
#include <stdio.h>

#include "launch/count_gpus.h"
#include "launch/slots.h"

#ifdef LOCKSTEP_HAVE_MPI
static const bool several = true;
#else
static const bool several = false; /* one process is all that a job can have */
#endif

static int cores_allowed(void)
{
    cpu_set_t mask;

    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

/* This host: its GPUs, or its cores. Without need GPUs are not looked at: the ranks do that themselves. */
static ls_status count_here(int64_t asked, const ls_config *config, int before, int most, lsi_signals *signals,
                            lsi_pick *pick)
{
    int gpus = 0;

    if (asked == 0 || before > 0) {
        LS_TRY(lsi_count_gpus(config, most, before, signals, &gpus));
    }
    if (gpus > 0) {
        pick->n = gpus;
        snprintf(pick->why, sizeof pick->why, "one for each GPU that can be had");
    } else if (asked > 0) {
        pick->n = (int)asked;
        snprintf(pick->why, sizeof pick->why, "as -n says");
    } else if (!several) {
        pick->n = 1;
        snprintf(pick->why, sizeof pick->why, "as this build has no MPI");
    } else {
        pick->n = cores_allowed();
        snprintf(pick->why, sizeof pick->why, "one for each core this process may use");
    }
    return LS_OK;
}

/* What a job on other hosts, or in an allocation, could get at the most. */
static ls_status count_slots(const lsi_launch_options *options, lsi_pick *pick)
{
    if (options->host != NULL) {
        pick->n = lsi_slots_of_hosts(options->host);
        snprintf(pick->why, sizeof pick->why, "one for each slot of --host");
        LS_REQUIRE(pick->n > 0, LS_ERR_USAGE, "--host %.100s names no host", options->host);
    } else if (options->hostfile != NULL) {
        snprintf(pick->why, sizeof pick->why, "one for each slot of %.100s", options->hostfile);
        LS_TRY(lsi_slots_of_file(options->hostfile, &pick->n));
    } else {
        pick->n = lsi_slots_of_allocation();
        snprintf(pick->why, sizeof pick->why, "one for each task of the batch system's allocation");
    }
    return LS_OK;
}

ls_status lsi_pick_ranks(const lsi_launch_options *options, const lsi_config *config, int before, lsi_signals *signals,
                         lsi_pick *out)
{
    int64_t lanes = lsi_config_lanes(lsi_config_values(config)), asked = options->n_ranks;
    bool hosts = options->host != NULL || options->hostfile != NULL;
    int most = !several ? 1 : (int)(asked > 0 && asked < lanes ? asked : lanes);
    lsi_pick pick = {.where = hosts                            ? LSI_PICK_HOSTS
                              : lsi_slots_of_allocation() >= 0 ? LSI_PICK_ALLOCATION
                                                               : LSI_PICK_HERE};

    LS_REQUIRE(asked <= lanes, LS_ERR_CONFIG,
               "-n %lld is more than train.lanes = %lld: a rank computes whole lanes; raise train.lanes (which changes "
               "the bits), or start fewer",
               (long long)asked, (long long)lanes);
    if (pick.where == LSI_PICK_HERE) {
        LS_TRY(count_here(asked, lsi_config_values(config), before, most, signals, &pick));
    } else {
        LS_TRY(count_slots(options, &pick));
        if (asked > 0) {
            pick.n = (int)asked;
            snprintf(pick.why, sizeof pick.why, "as -n says");
        }
    }
    if (pick.n > lanes) {
        pick.n = (int)lanes;
        snprintf(pick.why, sizeof pick.why, "one for each lane (train.lanes)");
    }
    pick.crowded = pick.where == LSI_PICK_HERE && pick.n > lsi_slots_here();
    *out = pick;
    return LS_OK;
}
