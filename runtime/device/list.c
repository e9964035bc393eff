#include "device/list.h"

#include <string.h>

#include "device/decide.h"
#include "device/inventory_text.h"

static ls_status judge(lsi_inventory *inventory, const ls_config *config, const char *host, lsi_leases *leases,
                       lsi_choice *out)
{
    lsi_select_ranks nobody = {0, NULL};
    lsi_decide_options options = {
        .rules = lsi_select_rules_of(config), .priority = lsi_lease_priority(config->device.priority), .host = host};

    if (leases == NULL) {
        return lsi_decide(inventory, &options, &nobody, out);
    }
    options.leases = leases;
    LS_TRY(lsi_lease_lock(leases, LSI_DECIDE_LOCK_SECONDS));
    ls_status status = lsi_decide(inventory, &options, &nobody, out);
    lsi_lease_unlock(leases);
    return status;
}

ls_status lsi_list_devices(const ls_config *config, const char *host, lsi_text *out)
{
    lsi_inventory *inventory = NULL;
    lsi_leases *leases = NULL;
    lsi_choice choice = {0};

    LS_TRY(lsi_inventory_open(&inventory));
    ls_status status = LS_OK;
    if (config->device.leases[0] != '\0' && inventory->n > 0) {
        status = lsi_lease_open(config->device.leases, "--list-devices", &leases);
    }
    if (status == LS_OK) {
        lsi_inventory_sample(inventory, config->device.sample);
        status = judge(inventory, config, host, leases, &choice);
    }
    if (status == LS_OK) {
        lsi_inventory_list(inventory, &choice, out);
        lsi_text_append(out, "`gpus --explain` tells why a process sees the GPUs it sees\n");
    }
    lsi_lease_close(&leases);
    lsi_inventory_close(&inventory);
    return status;
}
