#include "launch/pick.h"

#include <sched.h>
#include <stdio.h>

#include "launch/slots.h"

static int cores_allowed(void)
{
    cpu_set_t mask;

    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

/* What this job could get at the most, before lanes and -n. */
static ls_status count(const lsi_launch_options *options, lsi_pick *pick)
{
    int allocated = lsi_slots_of_allocation();

    if (options->host != NULL) {
        pick->where = LSI_PICK_HOSTS;
        pick->n = lsi_slots_of_hosts(options->host);
        snprintf(pick->why, sizeof pick->why, "one for each slot of --host");
        LS_REQUIRE(pick->n > 0, LS_ERR_USAGE, "--host %.100s names no host", options->host);
    } else if (options->hostfile != NULL) {
        pick->where = LSI_PICK_HOSTS;
        snprintf(pick->why, sizeof pick->why, "one for each slot of %.100s", options->hostfile);
        LS_TRY(lsi_slots_of_file(options->hostfile, &pick->n));
    } else if (allocated >= 0) {
        pick->where = LSI_PICK_ALLOCATION;
        pick->n = allocated;
        snprintf(pick->why, sizeof pick->why, "one for each task of the batch system's allocation");
    } else {
        pick->where = LSI_PICK_HERE;
        pick->n = cores_allowed();
        snprintf(pick->why, sizeof pick->why, "one for each core this process may use");
    }
    return LS_OK;
}

ls_status lsi_pick_ranks(const lsi_launch_options *options, const lsi_config *config, bool again, lsi_pick *out)
{
    int64_t lanes = lsi_config_lanes(lsi_config_values(config)), asked = options->n_ranks;
    lsi_pick pick = {0};

    LS_TRY(count(options, &pick));
    LS_REQUIRE(asked <= lanes, LS_ERR_CONFIG,
               "-n %lld is more than train.lanes = %lld: a rank computes whole lanes; raise train.lanes (which changes "
               "the bits), or start fewer",
               (long long)asked, (long long)lanes);
    if (asked > 0 && (!again || pick.n == 0 || asked < pick.n || pick.where == LSI_PICK_HERE)) {
        pick.n = (int)asked;
        snprintf(pick.why, sizeof pick.why, "as -n says");
    } else if (pick.n > lanes) {
        pick.n = (int)lanes;
        snprintf(pick.why, sizeof pick.why, "one for each lane (train.lanes)");
    }
    pick.crowded = pick.where == LSI_PICK_HERE && pick.n > lsi_slots_here();
    *out = pick;
    return LS_OK;
}
