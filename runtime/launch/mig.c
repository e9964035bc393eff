#include "launch/mig.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "device/decide.h"
#include "device/mig.h"
#include "device/visibility.h"
#include "launch/ask.h"
#include "launch/count_gpus.h"

/* As mpirun tells its processes; -1: it did not start this one. */
static int number_of(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL && value[0] >= '0' && value[0] <= '9' ? atoi(value) : -1;
}

/* What mpirun tells a process so that it joins the job. A program that only prints its configuration must not. */
static bool joins_job(const char *variable)
{
    static const char *const prefixes[] = {"PMIX_",
                                           "PMI_",
                                           "OMPI_COMM_WORLD_",
                                           "OMPI_MCA_ess",
                                           "OMPI_MCA_orte_",
                                           "OMPI_UNIVERSE_SIZE=",
                                           "OMPI_APP_CTX_",
                                           "OMPI_NUM_APP_CTX=",
                                           "OMPI_FIRST_RANKS=",
                                           "OMPI_FILE_LOCATION="};
    static const char kept[] = "OMPI_MCA_orte_tmpdir_base=";

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) {
            return strncmp(variable, kept, sizeof kept - 1) != 0;
        }
    }
    return false;
}

/* As lsi_ask_config, of a program that belongs to no job. Only one thread may use the environment meanwhile. */
static ls_status ask_alone(char *const *command, int n, lsi_signals *signals, lsi_config **out)
{
    char **whole = environ, **without;
    size_t n_variables = 0, kept = 0;

    while (whole[n_variables] != NULL) {
        n_variables++;
    }
    LS_TRY(lsi_memory_alloc((n_variables + 1) * sizeof *without, "an environment", (void **)&without));
    for (size_t i = 0; i < n_variables; i++) {
        if (!joins_job(whole[i])) {
            without[kept++] = whole[i];
        }
    }
    environ = without;
    ls_status status = lsi_ask_config(command, n, signals, out);
    environ = whole;
    lsi_memory_free(without);
    return status;
}

static ls_status decide(lsi_inventory *inventory, const ls_config *config, uint64_t candidates, int n_local,
                        lsi_choice *choice)
{
    uint64_t sees[LSI_GPU_MAX];
    char host[256] = "";
    lsi_select_ranks ranks = {n_local, sees};
    lsi_decide_options options = {
        .rules = lsi_select_rules_of(config), .priority = lsi_lease_priority(config->device.priority), .host = host};

    gethostname(host, sizeof host - 1);
    LS_REQUIRE(n_local <= LSI_GPU_MAX, LS_ERR_DEVICE, "host %s: %d ranks, and at most %d MIG instances are told apart",
               host, n_local, LSI_GPU_MAX);
    for (int i = 0; i < LSI_GPU_MAX; i++) {
        sees[i] = candidates;
    }
    if (config->device.leases[0] != '\0') {
        LS_TRY(lsi_lease_open(config->device.leases, "launch", &options.leases));
    }
    ls_status status = options.leases != NULL ? lsi_lease_lock(options.leases, LSI_DECIDE_LOCK_SECONDS) : LS_OK;
    if (status == LS_OK) {
        status = lsi_decide(inventory, &options, &ranks, choice);
    }
    lsi_lease_close(&options.leases);
    return status;
}

static ls_status choose(lsi_inventory *inventory, char *const *command, int n, lsi_signals *signals)
{
    uint64_t candidates = lsi_mig_candidates(inventory);
    int rank = number_of("OMPI_COMM_WORLD_LOCAL_RANK"), n_local = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    lsi_config *config = NULL;
    lsi_choice *choice;

    if (candidates == 0 || rank < 0 || n_local <= rank) {
        return LS_OK;
    }
    LS_TRY(ask_alone(command, n, signals, &config));
    const ls_config *values = lsi_config_values(config);
    if (!lsi_count_gpus_wanted(values)) {
        lsi_config_destroy(&config);
        return LS_OK;
    }
    ls_status status = lsi_memory_alloc(sizeof *choice, "the choice of MIG instances", (void **)&choice);
    if (status == LS_OK) {
        status = decide(inventory, values, candidates, n_local, choice);
        const char *uuid = status == LS_OK ? inventory->gpus[choice->gpus[rank % choice->n]].uuid : "";
        if (status == LS_OK && setenv("CUDA_VISIBLE_DEVICES", uuid, 1) != 0) {
            status = LS_FAIL(LS_ERR_MEMORY, "no memory for CUDA_VISIBLE_DEVICES");
        }
        lsi_memory_free(choice);
    }
    lsi_config_destroy(&config);
    return status;
}

ls_status lsi_mig_choose(char *const *command, int n, lsi_signals *signals)
{
#ifdef LOCKSTEP_HAVE_CUDA
    lsi_inventory *inventory;

    lsi_visibility_fix_order();
    LS_TRY(lsi_inventory_open(&inventory));
    ls_status status = choose(inventory, command, n, signals);
    lsi_inventory_close(&inventory);
    return status;
#else
    (void)command;
    (void)n;
    (void)signals;
    (void)choose;
    return LS_OK; /* what this build's programs do, whatever the host has */
#endif
}
