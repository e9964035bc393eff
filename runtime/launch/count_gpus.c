#include "launch/count_gpus.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/decide.h"
#include "device/mig.h"
#include "device/visibility.h"

static const double again_seconds = 10, pause_seconds = 0.25;

typedef struct look {
    const ls_config *config;
    lsi_inventory *inventory;
    lsi_leases *leases; /* NULL: device.leases is empty */
    lsi_decide_options options;
    uint64_t sees[LSI_GPU_MAX]; /* of each rank, where keepers give each a MIG instance of its own (launch/mig.h) */
    bool instances;
    int most;
} look;

static ls_status decide(look *l, int n, lsi_choice *choice)
{
    lsi_select_ranks ranks = {.n = n, .sees = l->instances ? l->sees : NULL};

    if (l->leases == NULL) {
        return lsi_decide(l->inventory, &l->options, &ranks, choice);
    }
    LS_TRY(lsi_lease_lock(l->leases, LSI_DECIDE_LOCK_SECONDS));
    ls_status status = lsi_decide(l->inventory, &l->options, &ranks, choice);
    lsi_lease_unlock(l->leases);
    return status;
}

/* Fewer than there are when the rules for a set (links, mixed) leave fewer. Fails when not even one is left. */
static ls_status most_together(look *l, lsi_choice *choice, int *out)
{
    LS_TRY(decide(l, 0, choice));
    int n = choice->n_ranked < l->most ? choice->n_ranked : l->most;

    for (; n > 1; n--) {
        if (decide(l, n, choice) == LS_OK) {
            *out = n;
            return LS_OK;
        }
    }
    *out = 1;
    return decide(l, 1, choice);
}

static ls_status count(look *l, int before, lsi_signals *signals, lsi_choice *choice, int *out)
{
    double begun = lsi_clock_seconds(), wait = l->config->device.wait;
    ls_status status;

    lsi_inventory_sample(l->inventory, l->config->device.sample);
    for (;;) {
        status = most_together(l, choice, out);
        double end = begun + (status != LS_OK && wait > again_seconds ? wait : before > 0 ? again_seconds : wait);
        bool enough = status == LS_OK && (before == 0 || *out >= before || *out >= l->most);

        if (enough || (status != LS_OK && !choice->may_pass) || signals->n_requests > 0 || lsi_clock_seconds() >= end) {
            return status;
        }
        lsi_signals_wait(signals, pause_seconds);
    }
}

static ls_status look_and_count(look *l, int before, lsi_signals *signals, int *out)
{
    const ls_config *config = l->config;
    bool wants_cuda = strcmp(config->device.backend, "cuda") == 0;
    lsi_choice *choice;

    if (l->inventory->n_visible == 0 && !wants_cuda) {
        *out = 0;
        return LS_OK;
    }
    if (config->device.leases[0] != '\0') {
        LS_TRY(lsi_lease_open(config->device.leases, "launch", &l->leases));
        l->options.leases = l->leases;
    }
    LS_TRY(lsi_memory_alloc(sizeof *choice, "the choice of GPUs", (void **)&choice));
    ls_status status = count(l, before, signals, choice, out);
    lsi_memory_free(choice);
    return status;
}

bool lsi_count_gpus_wanted(const ls_config *config)
{
#ifdef LOCKSTEP_HAVE_CUDA
    return strcmp(config->device.backend, "cpu") != 0;
#else
    (void)config;
    return false; /* what this build's programs do, whatever the host has */
#endif
}

ls_status lsi_count_gpus(const ls_config *config, int most, int before, lsi_signals *signals, int *out)
{
    char host[256] = "";
    look l = {.config = config, .most = most};

    *out = 0;
    if (!lsi_count_gpus_wanted(config)) {
        return LS_OK;
    }
    gethostname(host, sizeof host - 1);
    lsi_visibility_fix_order();
    LS_TRY(lsi_inventory_open(&l.inventory));
    l.options = (lsi_decide_options){.rules = lsi_select_rules_of(config),
                                     .priority = lsi_lease_priority(config->device.priority),
                                     .reserve = (int)config->device.reserve,
                                     .host = host};
    for (int i = 0; i < LSI_GPU_MAX; i++) {
        l.sees[i] = lsi_mig_candidates(l.inventory);
    }
    l.instances = l.sees[0] != 0;
    ls_status status = look_and_count(&l, before, signals, out);
    lsi_lease_close(&l.leases); /* a claim put while waiting goes with it; the ranks put theirs */
    lsi_inventory_close(&l.inventory);
    return status;
}
