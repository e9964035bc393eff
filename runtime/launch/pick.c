#include "launch/pick.h"

#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "launch/command.h"
#include "launch/count_gpus.h"
#include "launch/hosts.h"
#include "launch/slots.h"

#ifdef LOCKSTEP_HAVE_MPI
static const bool several = true;
#else
static const bool several = false; /* one process is all that a job can have */
#endif

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
        pick->n = lsi_slots_cores_allowed();
        snprintf(pick->why, sizeof pick->why, "one for each core this process may use");
    }
    return LS_OK;
}

/* Of those that take none: what it means. */
static ls_status check_answers(const lsi_hosts *hosts, int before)
{
    for (int i = 0; i < hosts->n; i++) {
        LS_REQUIRE(hosts->host[i].answers || before > 0, LS_ERR_COMM,
                   "host %s does not answer: no program can be started there (mpirun's words stand above); leave it "
                   "out of the hosts, or see to it", hosts->host[i].name);
        if (!hosts->host[i].answers) {
            lsi_log_warn("host %s does not answer: the start again goes without it", hosts->host[i].name);
        }
    }
    return LS_OK;
}

static ls_status fill_from_hosts(const lsi_hosts *hosts, int64_t asked, lsi_pick *pick)
{
    char *text;
    int n = 0, gpus = 0;

    LS_TRY(lsi_memory_alloc(LSI_HOSTS_TEXT, "the hosts", (void **)&text));
    pick->hosts = text;
    pick->n = lsi_host_list_text(hosts, text);
    for (int i = 0; i < hosts->n; i++) {
        n += hosts->host[i].n > 0;
        gpus += hosts->host[i].gpus;
    }
    LS_REQUIRE(pick->n > 0, LS_ERR_DEVICE, "none of the %d hosts takes a rank; why stands above", hosts->n);
    snprintf(pick->why, sizeof pick->why, "one for each %s of %d host%s", gpus > 0 ? "GPU that can be had" : "slot", n,
             n == 1 ? "" : "s");
    if (asked > 0 && asked < pick->n) {
        pick->n = (int)asked;
        snprintf(pick->why, sizeof pick->why, "as -n says");
    }
    return LS_OK;
}

/* Hosts are asked where what they have decides: their GPUs at the first start, and whether they live at a later one. */
static ls_status count_hosts(const lsi_launch_options *options, const ls_config *config, int before,
                             lsi_signals *signals, lsi_pick *pick)
{
    lsi_hosts *hosts;

    LS_TRY(lsi_memory_alloc(sizeof *hosts, "the hosts", (void **)&hosts));
    ls_status status = lsi_host_list_read(options->host, options->hostfile, hosts);
    if (status == LS_OK) {
        status = lsi_hosts_ask(options, config, signals, hosts);
    }
    if (status == LS_OK && signals->n_requests == 0) {
        status = check_answers(hosts, before);
        status = status == LS_OK ? fill_from_hosts(hosts, options->n_ranks, pick) : status;
    }
    lsi_memory_free(hosts);
    return status;
}

/* Slots as they are written. */
static ls_status count_written(const lsi_launch_options *options, lsi_pick *pick)
{
    lsi_hosts *hosts;

    LS_TRY(lsi_memory_alloc(sizeof *hosts, "the hosts", (void **)&hosts));
    ls_status status = lsi_host_list_read(options->host, options->hostfile, hosts);
    if (status == LS_OK) {
        pick->n = lsi_host_list_slots(hosts, options->host != NULL ? 1 : 0);
        snprintf(pick->why, sizeof pick->why, "one for each slot of %.100s",
                 options->host != NULL ? "--host" : options->hostfile);
        if (options->host != NULL && pick->n == 0) {
            status = LS_FAIL(LS_ERR_USAGE, "--host %.100s has no slot", options->host);
        }
    }
    lsi_memory_free(hosts);
    return status;
}

/* What a job on other hosts, or in an allocation, could get at the most. */
static ls_status count_slots(const lsi_launch_options *options, lsi_pick *pick)
{
    if (options->host != NULL || options->hostfile != NULL) {
        LS_TRY(count_written(options, pick));
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
    } else if (hosts && !lsi_command_places(options) &&
               (before > 0 || (asked == 0 && lsi_count_gpus_wanted(lsi_config_values(config))))) {
        ls_status status = count_hosts(options, lsi_config_values(config), before, signals, &pick);
        if (status != LS_OK) {
            lsi_pick_free(&pick);
            return status;
        }
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

void lsi_pick_free(lsi_pick *pick)
{
    lsi_memory_free(pick->hosts);
    pick->hosts = NULL;
}
