#include "device/decide.h"

#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "device/lease_fault.h"

static const char *const priorities[] = {"low", "normal", "high"};

/* ---- what others have -------------------------------------------------------------------------------------------- */

static ls_status read_leases(const lsi_inventory *inventory, const lsi_decide_options *o, lsi_select_taken *taken)
{
    for (int i = 0; i < inventory->n; i++) {
        lsi_lease_holder holder;
        bool is_free = true;

        if (inventory->gpus[i].uuid[0] == '\0') {
            continue;
        }
        LS_TRY(lsi_lease_is_free(o->leases, inventory->gpus[i].uuid, o->rules.sharing, &is_free, &holder));
        taken[i].leased = !is_free;
        if (!is_free) {
            snprintf(taken[i].holder, sizeof taken[i].holder, "process %lld of %s (%.48s)", (long long)holder.pid,
                     holder.user, holder.what);
        }
    }
    return LS_OK;
}

static void read_faults(const lsi_inventory *inventory, const lsi_leases *leases, lsi_select_taken *taken)
{
    for (int i = 0; i < inventory->n; i++) {
        const char *uuid = inventory->gpus[lsi_inventory_whole(inventory, i)].uuid;

        taken[i].xid = uuid[0] != '\0' ? lsi_lease_fault_find(leases, uuid) : 0;
    }
}

static bool is_used(const lsi_gpu *gpu)
{
    return gpu->n_processes > 0;
}

/* The first n of a claim's GPUs that nobody has, those first that no process uses. */
static void reserve(const lsi_inventory *inventory, const lsi_claim *claim, lsi_select_taken *taken)
{
    int left = claim->n;

    for (int used = 0; used <= 1; used++) {
        for (int k = 0; k < claim->n_uuids && left > 0; k++) {
            int place = lsi_inventory_find_uuid(inventory, claim->uuids[k]);

            if (place == LSI_GPU_UNKNOWN || taken[place].leased || taken[place].reserved ||
                is_used(&inventory->gpus[place]) != (used == 1)) {
                continue;
            }
            taken[place].reserved = true;
            snprintf(taken[place].holder, sizeof taken[place].holder, "waiting process %lld of %s (%.32s), priority %s",
                     (long long)claim->owner.pid, claim->owner.user, claim->owner.what, priorities[claim->priority]);
            left--;
        }
    }
}

static ls_status read_claims(const lsi_inventory *inventory, const lsi_decide_options *o, lsi_select_taken *taken)
{
    lsi_claim *claims;
    int n = 0;

    LS_TRY(lsi_memory_alloc(LSI_CLAIMS_MAX * sizeof *claims, "claims on GPUs", (void **)&claims));
    ls_status status = lsi_lease_claims(o->leases, claims, &n);
    for (int i = 0; status == LS_OK && i < n; i++) {
        if (claims[i].priority > o->priority) {
            reserve(inventory, &claims[i], taken);
        }
    }
    lsi_memory_free(claims);
    return status;
}

/* ---- one's own claim ----------------------------------------------------------------------------------------------
 */

/* GPUs that this job could have at some time, those it could have now first. */
static ls_status put_claim(const lsi_inventory *inventory, const lsi_decide_options *o, const lsi_choice *choice)
{
    lsi_claim *claim;

    LS_TRY(lsi_memory_alloc(sizeof *claim, "a claim on GPUs", (void **)&claim));
    claim->priority = o->priority;
    claim->n = o->reserve;
    for (int later = 0; later <= 1; later++) {
        for (int i = 0; i < inventory->n; i++) {
            lsi_reject reject = choice->verdicts[i].reject;
            bool fits = later == 0 ? reject == LSI_REJECT_NO : reject >= LSI_REJECT_LEASED;

            if (fits && inventory->gpus[i].uuid[0] != '\0') {
                snprintf(claim->uuids[claim->n_uuids++], LSI_GPU_UUID, "%s", inventory->gpus[i].uuid);
            }
        }
    }
    ls_status status = lsi_lease_claim(o->leases, claim);
    lsi_memory_free(claim);
    return status;
}

/* Reads everything again. Load is the mean of what was watched before (lsi_inventory_sample) and of the looks since,
 * each of which counts a quarter: a pause of a moment does not make a GPU idle. */
static void look_again(lsi_inventory *inventory)
{
    int before[LSI_GPU_MAX];

    for (int i = 0; i < inventory->n; i++) {
        before[i] = inventory->gpus[i].utilization;
    }
    lsi_inventory_refresh(inventory);
    for (int i = 0; i < inventory->n; i++) {
        int now = inventory->gpus[i].utilization;

        if (before[i] != LSI_GPU_UNKNOWN && now != LSI_GPU_UNKNOWN) {
            inventory->gpus[i].utilization = (3 * before[i] + now + 2) / 4;
        }
    }
}

ls_status lsi_decide(lsi_inventory *inventory, const lsi_decide_options *options, const lsi_select_ranks *ranks,
                     lsi_choice *out)
{
    lsi_select_taken taken[LSI_GPU_MAX] = {{0}};
    lsi_failure why;

    look_again(inventory);
    for (int i = 0; i < inventory->n && options->occupied != NULL; i++) {
        taken[i].occupied = options->occupied[i];
    }
    if (options->leases != NULL) {
        LS_TRY(read_leases(inventory, options, taken));
        LS_TRY(read_claims(inventory, options, taken));
        read_faults(inventory, options->leases, taken);
    }
    ls_status status = lsi_select(inventory, &options->rules, taken, ranks, options->host, out);
    if (status != LS_OK && out->may_pass && options->reserve > 0 && options->leases != NULL) {
        lsi_failure_take(&why);
        LS_TRY(put_claim(inventory, options, out));
        (void)lsi_failure_adopt(&why);
    }
    return status;
}
