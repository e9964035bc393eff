#include "device/binding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "device/cuda_driver.h"
#include "device/decide.h"
#include "device/inventory_source.h"
#include "device/local_rank.h"
#include "device/shared_memory.h"
#include "device/visibility.h"
#include "job/stop.h"

enum { VIEW_MAX = 16, POLL_MILLISECONDS = 250 };

/* How long a GPU that CUDA refused is left alone by a job that waits. */
static const double occupied_seconds = 5;

typedef struct uuid_text {
    char text[LSI_GPU_UUID];
} uuid_text;

/* What a process sees, for the one that decides. */
typedef struct brief {
    char uuid[LSI_GPU_UUID], name[LSI_GPU_NAME];
    int ordinal, pci_domain, pci_bus, pci_device, capability, parent;
    int64_t memory_total;
} brief;

typedef struct view {
    unsigned char folder[16]; /* of leases; zero: none */
    int n;
    brief gpus[VIEW_MAX];
} view;

/* What the one that decides tells all: the GPU of each process of its host, one after the other. */
typedef struct decision {
    ls_status status;
    int may_pass, n;
    char uuids[LSI_GPU_MAX][LSI_GPU_UUID];
} decision;

typedef struct binder {
    lsi_job *job;
    const ls_config *config;
    lsi_inventory *inventory;
    lsi_binding *binding;
    lsi_watchdog *watchdog;
    view *views;         /* of all ranks */
    decision *decisions; /* of all ranks; those that do not decide leave theirs empty */
    uint64_t *sees;      /* of the ranks of this host, for the decider */
    int decider;         /* rank that decides for this host */
    int turn, n_turns;   /* containers of one machine are hosts that share a folder of leases: they decide in turn */
    double deadline;     /* on this process's clock */
    bool said;           /* that the job waits */
    uuid_text *refused;       /* of all ranks: the GPU that CUDA refused in this round, "": none */
    double occupied_until[LSI_GPU_MAX]; /* by place */
} binder;

static bool decides(const binder *b)
{
    return b->decider == b->job->rank;
}

/* ---- what each process sees
 * --------------------------------------------------------------------------------------------- */

static void fill_view(const lsi_inventory *inventory, view *out)
{
    for (int ordinal = 0; ordinal < inventory->n_visible && out->n < VIEW_MAX; ordinal++) {
        int place = lsi_inventory_find_ordinal(inventory, ordinal);

        if (place == LSI_GPU_UNKNOWN) {
            continue;
        }
        const lsi_gpu *gpu = &inventory->gpus[place];
        brief *b = &out->gpus[out->n++];
        memcpy(b->uuid, gpu->uuid, sizeof b->uuid);
        memcpy(b->name, gpu->name, sizeof b->name);
        b->pci_domain = gpu->pci_domain;
        b->pci_bus = gpu->pci_bus;
        b->pci_device = gpu->pci_device;
        b->capability = gpu->capability;
        b->memory_total = gpu->memory_total;
        b->parent = gpu->parent;
        b->ordinal = ordinal;
    }
}

/* A GPU that another process of this host sees and this one, without NVML, does not know. */
static int add_foreign(lsi_inventory *inventory, const brief *b)
{
    if (inventory->n == LSI_GPU_MAX) {
        return LSI_GPU_UNKNOWN;
    }
    lsi_gpu *gpu = &inventory->gpus[inventory->n];

    lsi_inventory_blank(gpu);
    gpu->pci_domain = b->pci_domain;
    gpu->pci_bus = b->pci_bus;
    gpu->pci_device = b->pci_device;
    gpu->parent = b->parent == LSI_GPU_UNKNOWN ? LSI_GPU_UNKNOWN : inventory->n;
    gpu->capability = b->capability;
    gpu->memory_total = b->memory_total;
    memcpy(gpu->uuid, b->uuid, sizeof gpu->uuid);
    memcpy(gpu->name, b->name, sizeof gpu->name);
    memset(inventory->link[inventory->n], LSI_LINK_UNKNOWN, sizeof inventory->link[0]);
    for (int i = 0; i < LSI_GPU_MAX; i++) {
        inventory->link[i][inventory->n] = LSI_LINK_UNKNOWN;
    }
    return inventory->n++;
}

static void merge_views(binder *b)
{
    int local = 0;

    for (int r = 0; r < b->job->world; r++) {
        if (b->job->node[r] != b->job->node[b->job->rank]) {
            continue;
        }
        for (int i = 0; i < b->views[r].n; i++) {
            const brief *seen = &b->views[r].gpus[i];
            int place = lsi_inventory_find_uuid(b->inventory, seen->uuid);

            place = place == LSI_GPU_UNKNOWN ? add_foreign(b->inventory, seen) : place;
            if (place != LSI_GPU_UNKNOWN) {
                b->sees[local] |= (uint64_t)1 << place;
            }
        }
        local++;
    }
}

/* The rank that decides for the host of rank r. */
static int decider_of(const lsi_job *job, int r)
{
    int first = 0;

    while (job->node[first] != job->node[r]) {
        first++;
    }
    return first;
}

/* How many hosts before that of rank r have its folder of leases. */
static int turn_of(const binder *b, int r)
{
    static const unsigned char none[16];
    int decider = decider_of(b->job, r), turn = 0;

    for (int q = 0; q < decider; q++) {
        turn += decider_of(b->job, q) == q && memcmp(b->views[q].folder, none, sizeof none) != 0 &&
                memcmp(b->views[q].folder, b->views[decider].folder, sizeof none) == 0;
    }
    return turn;
}

static void share_out_turns(binder *b)
{
    b->decider = decider_of(b->job, b->job->rank);
    b->turn = turn_of(b, b->job->rank);
    for (int r = 0; r < b->job->world; r++) {
        int turn = turn_of(b, r);

        b->n_turns = turn >= b->n_turns ? turn + 1 : b->n_turns;
    }
}

/* ---- one turn
 * ----------------------------------------------------------------------------------------------------------- */

static void log_choice(const binder *b, const lsi_choice *choice)
{
    for (int i = 0; i < b->inventory->n; i++) {
        const lsi_gpu *gpu = &b->inventory->gpus[i];

        lsi_reject why = choice->verdicts[i].reject;

        if (why != LSI_REJECT_NO && why != LSI_REJECT_HIDDEN && why != LSI_REJECT_NOT_LISTED) {
            lsi_log_info("GPU %s, %s: not taken: %s", gpu->uuid[0] != '\0' ? gpu->uuid : "(lost)",
                         gpu->name[0] != '\0' ? gpu->name : "name n/a", choice->verdicts[i].reason);
        }
    }
}

/* The decider: with the folder locked from here on. */
static ls_status decide(binder *b, decision *out)
{
    lsi_select_ranks ranks = {b->job->n_local, b->sees};
    lsi_choice choice;
    bool occupied[LSI_GPU_MAX];
    lsi_decide_options options = {
        .rules = lsi_select_rules_of(b->config),
        .priority = lsi_lease_priority(b->config->device.priority),
        .reserve = b->config->device.wait > 0 ? (int)b->config->device.reserve : 0,
        .occupied = occupied,
        .leases = b->binding->leases,
        .host = b->job->host,
    };

    for (int i = 0; i < LSI_GPU_MAX; i++) {
        occupied[i] = lsi_clock_seconds() < b->occupied_until[i];
    }
    if (b->binding->leases != NULL) {
        LS_TRY(lsi_lease_lock(b->binding->leases, LSI_DECIDE_LOCK_SECONDS));
    }
    memset(&choice, 0, sizeof choice);
    ls_status status = lsi_decide(b->inventory, &options, &ranks, &choice);
    out->may_pass = status != LS_OK && choice.may_pass;
    LS_TRY(status);
    log_choice(b, &choice);
    out->n = choice.n;
    for (int i = 0; i < choice.n; i++) {
        memcpy(out->uuids[i], b->inventory->gpus[choice.gpus[i]].uuid, LSI_GPU_UUID);
    }
    return LS_OK;
}

/* The assigned one, in this process's own inventory. */
static ls_status find_own(binder *b)
{
    const decision *d = &b->decisions[b->decider];
    const char *uuid = d->uuids[b->job->local_rank % d->n];
    int place = lsi_inventory_find_uuid(b->inventory, uuid);

    LS_REQUIRE(place != LSI_GPU_UNKNOWN && b->inventory->gpus[place].ordinal != LSI_GPU_UNKNOWN, LS_ERR_INTERNAL,
               "host %s: process %d of this host was given GPU %s and does not see it", b->job->host,
               b->job->local_rank, uuid);
    b->binding->gpu = b->inventory->gpus[place];
    return b->binding->leases != NULL
               ? lsi_lease_take(b->binding->leases, uuid, strcmp(b->config->device.sharing, "allow") == 0)
               : LS_OK;
}

/* Collective. *again: waiting may help; the failure is then this process's own. Without *again it is agreed. */
static ls_status one_turn(binder *b, int turn, bool *again)
{
    decision mine = {0};
    lsi_failure why = {0};
    bool failed = false, may_pass = true, acts = decides(b) && b->turn == turn;
    ls_status status = LS_OK;

    *again = false;
    lsi_watchdog_enter(b->watchdog, "choosing GPUs");
    if (acts) {
        mine.status = decide(b, &mine);
        lsi_failure_take(&why);
    }
    LS_TRY(lsi_job_agree(b->job, lsi_job_all_gather(b->job, &mine, sizeof mine, b->decisions)));
    for (int r = 0; r < b->job->world; r++) {
        failed = failed || b->decisions[r].status != LS_OK;
        may_pass = may_pass && (b->decisions[r].status == LS_OK || b->decisions[r].may_pass);
    }
    *again = failed && may_pass && b->config->device.wait > 0;
    if (!failed) {
        /* Leases are taken before the folder is unlocked. */
        status = lsi_job_agree(b->job, b->turn == turn ? find_own(b) : LS_OK);
    }
    if (acts && b->binding->leases != NULL) {
        lsi_lease_unlock(b->binding->leases);
    }
    if (failed) {
        status = mine.status != LS_OK ? lsi_failure_adopt(&why) : LS_OK;
        status = *again ? status : lsi_job_agree(b->job, status);
    }
    return status;
}

/* ---- GPUs in exclusive compute mode ------------------------------------------------------------------------------ */

static void give_back(lsi_binding *binding)
{
    if (binding->held) {
        lsi_cuda_driver_let_go(binding->gpu.ordinal);
        binding->held = false;
    }
    if (binding->leases != NULL) {
        lsi_lease_release(binding->leases);
    }
}

/* A job that does not wait, or has waited long enough, does not try it again: so every round has one GPU less. */
static void remember_refused(binder *b, int rank)
{
    const char *text = b->refused[rank].text;
    int place = lsi_inventory_find_uuid(b->inventory, text);
    double now = lsi_clock_seconds();

    if (place == LSI_GPU_UNKNOWN) {
        return;
    }
    if (rank == b->job->rank && b->occupied_until[place] == 0) {
        lsi_log_warn("host %s: rank %d was given GPU %s in exclusive compute mode, and another process had it first: "
                     "the job chooses again",
                     b->job->host, rank, text);
    }
    b->occupied_until[place] = now < b->deadline ? now + occupied_seconds : HUGE_VAL;
}

/* Collective. Such a GPU is the process's that first makes a context on it, whatever was seen when it was chosen; so
 * contexts are made here, where another one can still be chosen. *refused: some rank came too late, and all have given
 * back what they had. */
static ls_status hold_exclusive(binder *b, bool *refused)
{
    lsi_binding *binding = b->binding;
    uuid_text mine = {""};

    *refused = false;
    if (binding->gpu.compute_mode == LSI_COMPUTE_EXCLUSIVE) {
        lsi_cuda_hold hold = lsi_cuda_driver_hold(binding->gpu.ordinal);

        binding->held = hold == LSI_CUDA_HELD;
        if (hold == LSI_CUDA_OCCUPIED) {
            memcpy(mine.text, binding->gpu.uuid, sizeof mine.text);
        }
    }
    LS_TRY(lsi_job_agree(b->job, lsi_job_all_gather(b->job, &mine, sizeof mine, b->refused)));
    for (int r = 0; r < b->job->world; r++) {
        if (b->refused[r].text[0] != '\0') {
            *refused = true;
            remember_refused(b, r);
        }
    }
    return LS_OK;
}

/* Collective. All hosts have GPUs, or none keeps any: two jobs that wait for each other's halves would wait for ever.
 */
static ls_status one_round(binder *b, bool *again, bool *refused)
{
    ls_status status = LS_OK;

    *again = *refused = false;
    for (int turn = 0; turn < b->n_turns && status == LS_OK && !*again; turn++) {
        status = one_turn(b, turn, again);
    }
    if (status == LS_OK && !*again) {
        status = hold_exclusive(b, refused);
        *again = *refused;
    }
    if (*again) {
        give_back(b->binding);
    }
    return status;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static ls_status check_stop(void)
{
    int reason = lsi_stop_requested();

    return reason == LSI_STOP_NONE
               ? LS_OK
               : LS_FAIL(LS_STOPPED, "stopped by %s while waiting for GPUs; nothing was begun", lsi_stop_text(reason));
}

static void say_waiting(binder *b)
{
    if (!b->said && decides(b)) {
        lsi_text text = {0};

        lsi_number_append_seconds_human(&text, b->config->device.wait);
        lsi_log_info("waiting up to %s for GPUs: %s", text.data != NULL ? text.data : "?", ls_failure_message());
        lsi_text_free(&text);
        b->said = true;
    }
}

/* Collective. All ranks go on together: rank 0's clock decides, and a request to stop that one has ends it for all. */
static ls_status wait_or_fail(binder *b, ls_status mine)
{
    double left = b->deadline - lsi_clock_seconds();
    lsi_failure why;

    lsi_failure_take(&why);
    LS_TRY(lsi_job_broadcast(b->job, &left, sizeof left, 0));
    if (left <= 0) {
        return lsi_job_agree(b->job, mine != LS_OK ? lsi_failure_adopt(&why) : LS_OK);
    }
    if (mine != LS_OK) {
        (void)lsi_failure_adopt(&why);
        say_waiting(b);
    }
    usleep(POLL_MILLISECONDS * 1000);
    return lsi_job_agree(b->job, check_stop());
}

/* Collective. */
static ls_status choose(binder *b)
{
    ls_status status = LS_OK;
    bool again = true, refused;

    b->deadline = lsi_clock_seconds() + b->config->device.wait;
    /* Load is worth watching where there is a choice. */
    if (decides(b) && (b->inventory->n_visible > b->job->n_local || b->config->device.max_utilization < 100)) {
        lsi_inventory_sample(b->inventory, b->config->device.sample);
    }
    while (again) {
        status = one_round(b, &again, &refused);
        if (again && !refused) {
            LS_TRY(wait_or_fail(b, status));
        } else if (again) {
            LS_TRY(lsi_job_barrier(b->job));    /* nobody chooses while another one still holds its lease */
        }
    }
    if (decides(b) && b->binding->leases != NULL) {
        lsi_lease_unclaim(b->binding->leases);
    }
    return status;
}

/* ---- before anything is opened ------------------------------------------------------------------------------------ */

/* Two containers of one machine are two hosts to MPI, and their GPUs may be one. */
static ls_status check_duplicates(const binder *b, const brief *given)
{
    if (strcmp(b->config->device.sharing, "allow") == 0) {
        return LS_OK;
    }
    for (int r = 0; r < b->job->world; r++) {
        for (int q = 0; q < r; q++) {
            LS_REQUIRE(
                given[r].uuid[0] == '\0' || strcmp(given[r].uuid, given[q].uuid) != 0, LS_ERR_DEVICE,
                "ranks %d (host %s) and %d (host %s) have the same GPU %s: give each container GPUs of its own, or "
                "set device.sharing = allow",
                q, b->job->hosts[q], r, b->job->hosts[r], given[r].uuid);
        }
    }
    return LS_OK;
}

static ls_status check_models(const binder *b, const brief *given)
{
    if (strcmp(b->config->device.mixed, "allow") == 0) {
        return LS_OK;
    }
    for (int r = 1; r < b->job->world; r++) {
        LS_REQUIRE(
            strcmp(given[r].name, given[0].name) == 0 && given[r].capability == given[0].capability, LS_ERR_DEVICE,
            "rank 0 has an %s (host %s, %s), rank %d an %s (host %s, %s): unlike GPUs round differently, so that no "
            "other set of GPUs would give the same bits. device.name chooses one model, device.mixed = allow "
            "takes both",
            given[0].name, b->job->hosts[0], given[0].uuid, r, given[r].name, b->job->hosts[r], given[r].uuid);
    }
    return LS_OK;
}

static void print_table(const binder *b, const brief *given)
{
    for (int r = 0; r < b->job->world; r++) {
        lsi_log_info("rank %d on %s: cuda:%d, %s, %s, PCI %04x:%02x:%02x.0", r, b->job->hosts[r], given[r].ordinal,
                     given[r].name, given[r].uuid, (unsigned)given[r].pci_domain, (unsigned)given[r].pci_bus,
                     (unsigned)given[r].pci_device);
    }
}

/* Collective. */
static ls_status compare(const binder *b)
{
    brief mine = {0}, *given;
    const lsi_gpu *gpu = &b->binding->gpu;

    memcpy(mine.uuid, gpu->uuid, sizeof mine.uuid);
    memcpy(mine.name, gpu->name, sizeof mine.name);
    mine.ordinal = gpu->ordinal;
    mine.pci_domain = gpu->pci_domain;
    mine.pci_bus = gpu->pci_bus;
    mine.pci_device = gpu->pci_device;
    mine.capability = gpu->capability;
    LS_TRY(lsi_job_agree(
        b->job, lsi_memory_alloc((size_t)b->job->world * sizeof *given, "the GPUs of all ranks", (void **)&given)));
    ls_status status = lsi_job_all_gather(b->job, &mine, sizeof mine, given);
    if (status == LS_OK && b->job->rank == 0) {
        status = check_duplicates(b, given);
        status = status == LS_OK ? check_models(b, given) : status;
        if (status == LS_OK) {
            print_table(b, given);
        }
    }
    lsi_memory_free(given);
    return lsi_job_agree(b->job, status);
}

/* ---- life
 * ---------------------------------------------------------------------------------------------------------------------
 */

static ls_status prepare(binder *b, const char *name)
{
    int world = b->job->world;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof *b->binding, "the binding", (void **)&b->binding));
    snprintf(b->binding->what, sizeof b->binding->what, "%s", name);
    LS_TRY(lsi_memory_alloc((size_t)world * sizeof *b->views, "views of GPUs", &memory));
    b->views = memory;
    LS_TRY(lsi_memory_alloc((size_t)world * sizeof *b->decisions, "choices of GPUs", &memory));
    b->decisions = memory;
    LS_TRY(lsi_memory_alloc((size_t)world * sizeof *b->sees, "views of GPUs", &memory));
    b->sees = memory;
    LS_TRY(lsi_memory_alloc((size_t)world * sizeof *b->refused, "choices of GPUs", &memory));
    b->refused = memory;
    LS_TRY(lsi_inventory_open(&b->inventory));
    if (b->config->device.leases[0] != '\0') {
        LS_TRY(lsi_lease_open(b->config->device.leases, b->binding->what, &b->binding->leases));
    }
    return LS_OK;
}

/* Collective. */
static ls_status bind(binder *b)
{
    view mine = {0};

    fill_view(b->inventory, &mine);
    if (b->binding->leases != NULL) {
        lsi_lease_folder_id(b->binding->leases, mine.folder);
    }
    LS_TRY(lsi_job_agree(b->job, lsi_job_all_gather(b->job, &mine, sizeof mine, b->views)));
    share_out_turns(b);
    if (decides(b)) {
        merge_views(b);
    }
    LS_TRY(choose(b));
    return compare(b);
}

static void warn(lsi_text *text)
{
    if (text->length > 0) {
        lsi_log_warn("%s", text->data);
    }
    lsi_text_clear(text);
}

ls_status lsi_binding_open(lsi_job *job, const ls_config *config, const char *name, lsi_watchdog *watchdog,
                           lsi_binding **out)
{
    binder b = {.job = job, .config = config, .watchdog = watchdog};
    lsi_text warning = {0};

    *out = NULL;
    lsi_local_rank_check(job->local_rank, job->n_local, job->host, &warning);
    warn(&warning);
    if (job->local_rank == 0) {
        lsi_shared_memory_check("/dev/shm", job->n_local, job->host, &warning);
        warn(&warning);
    }
    lsi_text_free(&warning);
    ls_status status = lsi_job_agree(job, prepare(&b, name));
    if (status == LS_OK) {
        status = bind(&b);
    }
    lsi_inventory_close(&b.inventory);
    lsi_memory_free(b.views);
    lsi_memory_free(b.decisions);
    lsi_memory_free(b.sees);
    lsi_memory_free(b.refused);
    if (status != LS_OK) {
        lsi_binding_close(&b.binding);
        return status;
    }
    *out = b.binding;
    return LS_OK;
}

void lsi_binding_close(lsi_binding **binding)
{
    if (*binding != NULL) {
        give_back(*binding);
        lsi_lease_close(&(*binding)->leases);
        lsi_memory_free(*binding);
        *binding = NULL;
    }
}
