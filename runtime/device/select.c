#include "device/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/gpu_list.h"
#include "device/judge.h"
#include "device/pick.h"

static const char automatic[] = "auto", in_order[] = "visible";

lsi_select_rules lsi_select_rules_of(const ls_config *config)
{
    const char *links = config->device.links;

    return (lsi_select_rules){
        .select = config->device.select,
        .min_free = config->device.min_free,
        .max_utilization = (int)config->device.max_utilization,
        .min_capability = (int)(config->device.min_capability * 10 + 0.5),
        .name = config->device.name,
        .exclude = config->device.exclude,
        .idle = config->device.idle,
        .links = strcmp(links, "require") == 0  ? LSI_LINKS_REQUIRE
                 : strcmp(links, "ignore") == 0 ? LSI_LINKS_IGNORE
                                                : LSI_LINKS_PREFER,
        .sharing = strcmp(config->device.sharing, "allow") == 0,
        .mixed = strcmp(config->device.mixed, "allow") == 0,
    };
}

/* One call of lsi_select. */
typedef struct selection {
    const lsi_inventory *inventory;
    const lsi_select_rules *rules;
    const lsi_select_ranks *ranks;
    const char *host;
    lsi_judge judge;
    uint64_t own_view[LSI_GPU_MAX]; /* where the caller gives no views: what the inventory sees, for each process */
    const uint64_t *sees;
    bool alike;                        /* all processes see the same */
    int listed[LSI_GPU_MAX], n_listed; /* candidates in the order of device.select, before they are judged */
    lsi_choice *out;
} selection;

/* ---- what processes see
 * ----------------------------------------------------------------------------------------------- */

static void take_views(selection *s)
{
    uint64_t visible = 0;

    for (int i = 0; i < s->inventory->n; i++) {
        visible |= (uint64_t)(s->inventory->gpus[i].ordinal != LSI_GPU_UNKNOWN) << i;
    }
    s->alike = true;
    s->judge.seen = s->ranks->sees == NULL ? visible : 0;
    for (int i = 0; i < LSI_GPU_MAX; i++) {
        s->own_view[i] = visible;
    }
    s->sees = s->ranks->sees != NULL ? s->ranks->sees : s->own_view;
    for (int i = 0; (i < s->ranks->n || i == 0) && s->ranks->sees != NULL; i++) {
        s->judge.seen |= s->sees[i];
        s->alike = s->alike && s->sees[i] == s->sees[0];
    }
}

/* ---- device.select and device.exclude
 * --------------------------------------------------------------------------------- */

static ls_status bad_item(const selection *s, const char *key, const lsi_gpu_item *item, lsi_gpu_name why)
{
    switch (why) {
    case LSI_GPU_NAME_AMBIGUOUS:
        return LS_FAIL(LS_ERR_CONFIG, "device.%s: '%s' fits several GPUs of host %s; write more of the UUID", key,
                       item->text, s->host);
    case LSI_GPU_NAME_NOT_HERE:
        if (item->is_index) {
            return LS_FAIL(LS_ERR_DEVICE,
                           "device.%s: GPU %s does not exist on host %s: %d are visible to this process, "
                           "numbered from 0 by CUDA (see `gpus --explain`)",
                           key, item->text, s->host, s->inventory->n_visible);
        }
        return LS_FAIL(LS_ERR_DEVICE, "device.%s: host %s has no GPU '%s' (`gpus` lists those there are)%s%s", key,
                       s->host, item->text, s->inventory->nvml_trouble[0] != '\0' ? "; NVML: " : "",
                       s->inventory->nvml_trouble);
    default:
        return LS_FAIL(LS_ERR_CONFIG, "device.%s: '%s' is no number, UUID (GPU-...) or PCI address (0000:07:00.0)", key,
                       item->text);
    }
}

/* Asked for by name, and out of reach: no other GPU is taken in its place. */
static ls_status check_visible(const selection *s, const lsi_gpu_item *item)
{
    const lsi_gpu *gpu = &s->inventory->gpus[item->place];
    const char *variable = getenv("CUDA_VISIBLE_DEVICES");

    if ((s->judge.seen >> item->place & 1) != 0 || gpu->mig || gpu->lost) {
        return LS_OK;
    }
    if (variable != NULL) {
        return LS_FAIL(LS_ERR_DEVICE,
                       "device.select asks for %s on host %s, which CUDA_VISIBLE_DEVICES = '%.200s' hides; "
                       "add it there, or unset the variable (`gpus --explain` shows how CUDA reads it)",
                       gpu->uuid, s->host, variable);
    }
    return LS_FAIL(LS_ERR_DEVICE,
                   "device.select asks for %s on host %s, which is there but not shown to this process (a "
                   "container, a cgroup, or the scheduler; see `gpus --explain`)",
                   gpu->uuid, s->host);
}

static ls_status add_listed(selection *s, const lsi_gpu_item *item)
{
    LS_TRY(check_visible(s, item));
    if ((s->judge.listed >> item->place & 1) != 0 && !s->rules->sharing) {
        return LS_FAIL(LS_ERR_CONFIG,
                       "device.select names GPU %s twice on host %s ('%s' is the second): two processes on "
                       "one GPU need device.sharing = allow",
                       s->inventory->gpus[item->place].uuid, s->host, item->text);
    }
    s->judge.listed |= (uint64_t)1 << item->place;
    LS_REQUIRE(s->n_listed < LSI_GPU_MAX, LS_ERR_CONFIG, "device.select names more than %d GPUs", LSI_GPU_MAX);
    s->listed[s->n_listed++] = item->place;
    return LS_OK;
}

static ls_status read_select(selection *s)
{
    const char *list = s->rules->select;
    lsi_gpu_item item;
    lsi_gpu_name found;

    while ((found = lsi_gpu_list_next(s->inventory, &list, &item)) != LSI_GPU_NAME_ENDED) {
        if (found != LSI_GPU_NAME_FOUND) {
            return bad_item(s, "select", &item, found);
        }
        LS_REQUIRE(
            !item.is_index || s->alike, LS_ERR_CONFIG,
            "device.select = '%.100s': the processes on host %s see different GPUs, so that numbers mean different "
            "ones; write UUIDs, or select = visible",
            s->rules->select, s->host);
        LS_TRY(add_listed(s, &item));
    }
    return LS_OK;
}

/* A UUID or address that is another host's is no mistake here. */
static ls_status read_exclude(selection *s)
{
    const char *list = s->rules->exclude[0] != '\0' ? s->rules->exclude : NULL;
    lsi_gpu_item item;
    lsi_gpu_name found;

    while ((found = lsi_gpu_list_next(s->inventory, &list, &item)) != LSI_GPU_NAME_ENDED) {
        if (found == LSI_GPU_NAME_FOUND) {
            s->judge.excluded |= (uint64_t)1 << item.place;
        } else if (found != LSI_GPU_NAME_NOT_HERE || item.is_index) {
            return bad_item(s, "exclude", &item, found);
        }
    }
    return LS_OK;
}

static void list_all(selection *s)
{
    bool by_number = s->alike && s->judge.seen == s->own_view[0];

    s->judge.listed = ~(uint64_t)0;
    for (int i = 0; i < s->inventory->n; i++) {
        int place = by_number ? lsi_inventory_find_ordinal(s->inventory, i) : i;

        if (place != LSI_GPU_UNKNOWN) {
            s->listed[s->n_listed++] = place;
        }
    }
}

/* ---- judging and ranking
 * ------------------------------------------------------------------------------------------------ */

static void rank_all(selection *s)
{
    lsi_choice *out = s->out;

    for (int i = 0; i < s->inventory->n; i++) {
        lsi_judge_gpu(&s->judge, i, &out->verdicts[i]);
    }
    for (int i = 0; i < s->n_listed; i++) {
        if (out->verdicts[s->listed[i]].reject == LSI_REJECT_NO) {
            out->ranking[out->n_ranked++] = s->listed[i];
        }
    }
    if (strcmp(s->rules->select, automatic) != 0) {
        return;
    }
    for (int i = 1; i < out->n_ranked; i++) {
        for (int k = i; k > 0 && lsi_judge_compare(s->inventory, out->ranking[k - 1], out->ranking[k]) > 0; k--) {
            int place = out->ranking[k];

            out->ranking[k] = out->ranking[k - 1];
            out->ranking[k - 1] = place;
        }
    }
}

/* ---- messages
 * ------------------------------------------------------------------------------------------------------------ */

/* Why the others cannot be had, as far as a line reaches. */
static void append_reasons(const selection *s, lsi_text *out)
{
    enum { SHOWN = 6 };
    int shown = 0;

    for (int i = 0; i < s->inventory->n; i++) {
        const lsi_gpu *gpu = &s->inventory->gpus[i];
        const lsi_verdict *v = &s->out->verdicts[i];

        if (v->reject == LSI_REJECT_NOT_LISTED || v->reject == LSI_REJECT_NO) {
            continue;
        }
        if (shown++ < SHOWN) {
            lsi_text_append(out, "%s%s: %s", shown == 1 ? ". " : "; ", gpu->uuid[0] != '\0' ? gpu->uuid : "a GPU",
                            v->reason);
        }
    }
    if (shown > SHOWN) {
        lsi_text_append(out, "; %d more", shown - SHOWN);
    }
}

/* " (GPU-..., GPU-...)": which can be had; nothing where one model leaves some of them out. */
static void append_had(const selection *s, int n_had, lsi_text *out)
{
    enum { SHOWN = 4 };

    for (int i = 0; i < n_had && i < SHOWN && n_had == s->out->n_ranked; i++) {
        lsi_text_append(out, "%s%s", i == 0 ? " (" : ", ", s->inventory->gpus[s->out->ranking[i]].uuid);
    }
    if (n_had > 0 && n_had == s->out->n_ranked) {
        lsi_text_append(out, "%s", n_had > SHOWN ? ", ...)" : ")");
    }
}

static bool sees_instance(const selection *s)
{
    for (int i = 0; i < s->inventory->n; i++) {
        if ((s->judge.seen >> i & 1) != 0 && s->inventory->gpus[i].parent != LSI_GPU_UNKNOWN) {
            return true;
        }
    }
    return false;
}

/* n_had: GPUs that the job could have. */
static void append_way_out(const selection *s, int n_had, lsi_text *out)
{
    if (sees_instance(s) && s->ranks->n > 1) {
        lsi_text_append(out, ". A process sees one MIG instance: give each its own by CUDA_VISIBLE_DEVICES = MIG-UUID, "
                             "as `launch` does");
    } else if (s->out->may_pass) {
        lsi_text_append(out, ". device.wait = 10m waits for a free one");
        if (n_had > 0) {
            lsi_text_append(out, "; %d process%s here would fit now", n_had, n_had == 1 ? "" : "es");
        }
    } else if (n_had > 0) {
        lsi_text_append(out, ". Start at most %d process%s on this host, or set device.sharing = allow (slower)", n_had,
                        n_had == 1 ? "" : "es");
    } else {
        lsi_text_append(out, ". `gpus --explain` tells more");
    }
}

static ls_status fail_with(const selection *s, const char *what, int n_had)
{
    lsi_text text = {0};

    for (int i = 0; i < s->inventory->n; i++) {
        s->out->may_pass = s->out->may_pass || s->out->verdicts[i].reject >= LSI_REJECT_LEASED;
    }
    lsi_text_append(&text, "host %s: %s", s->host, what);
    append_had(s, n_had, &text);
    append_reasons(s, &text);
    append_way_out(s, n_had, &text);
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK) {
        status = LS_FAIL(LS_ERR_DEVICE, "%s", text.data);
    }
    lsi_text_free(&text);
    return status;
}

static ls_status too_few(const selection *s, int n_had)
{
    char what[256], models[64] = "";
    int n = s->ranks->n;

    if (s->judge.seen == 0) {
        snprintf(what, sizeof what, "no GPU for %d process%s: %s", n, n == 1 ? "" : "es",
                 s->inventory->cuda_trouble[0] != '\0' ? s->inventory->cuda_trouble : "none is visible");
        return fail_with(s, what, 0);
    }
    if (n_had < s->out->n_ranked) {
        snprintf(models, sizeof models, " of one model (device.mixed = allow takes different ones)");
    }
    snprintf(what, sizeof what, "%d process%s need%s %d GPU%s%s, %d can be had", n, n == 1 ? "" : "es",
             n == 1 ? "s" : "", n, n == 1 ? "" : "s", models, n_had);
    return fail_with(s, what, n_had);
}

/* ---- choosing
 * ------------------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* All processes see the same GPUs: the best set of one model. */
static ls_status choose_set(selection *s)
{
    lsi_choice *out = s->out;
    int alike[LSI_GPU_MAX], most = 0;
    bool automatically = strcmp(s->rules->select, automatic) == 0, unconnected = false;

    for (int first = 0; first < out->n_ranked; first++) {
        int m = lsi_pick_alike(s->inventory, out->ranking, out->n_ranked, first, s->rules->mixed, alike);
        int n = s->ranks->n < m ? s->ranks->n : m;

        most = m > most ? m : most;
        if (m < s->ranks->n && !s->rules->sharing) {
            continue;
        }
        lsi_links links = automatically || s->rules->links == LSI_LINKS_REQUIRE ? s->rules->links : LSI_LINKS_IGNORE;
        if (!lsi_pick_connected(s->inventory, alike, m, n, links, out->gpus)) {
            unconnected = true;
            continue;
        }
        out->n = n;
        if (automatically) {
            qsort(out->gpus, (size_t)n, sizeof *out->gpus, by_place); /* neighbours are neighbours */
        }
        return LS_OK;
    }
    if (unconnected) {
        return fail_with(
            s,
            "no set of GPUs that can be had is connected by NVLink throughout; device.links = prefer takes "
            "the best there is",
            0);
    }
    return too_few(s, most);
}

/* Processes see different GPUs, as under Slurm's --gpus-per-task. */
static ls_status choose_matching(selection *s)
{
    lsi_choice *out = s->out;
    int alike[LSI_GPU_MAX], n = s->ranks->n, most = 0;

    LS_REQUIRE(n <= LSI_GPU_MAX, LS_ERR_DEVICE,
               "host %s: %d processes that see different GPUs, at most %d can be told "
               "apart",
               s->host, n, LSI_GPU_MAX);
    for (int first = 0; first < out->n_ranked; first++) {
        int m = lsi_pick_alike(s->inventory, out->ranking, out->n_ranked, first, s->rules->mixed, alike);
        int matched = lsi_pick_matching(alike, m, s->sees, n, out->gpus);

        for (int i = 0; i < n && s->rules->sharing; i++) {
            for (int c = 0; c < m && out->gpus[i] == LSI_GPU_UNKNOWN; c++) {
                if ((s->sees[i] >> alike[c] & 1) != 0) {
                    out->gpus[i] = alike[c];
                    matched++;
                }
            }
        }
        most = matched > most ? matched : most;
        if (matched == n) {
            out->n = n;
            return LS_OK;
        }
    }
    return too_few(s, most);
}

ls_status lsi_select(const lsi_inventory *inventory, const lsi_select_rules *rules, const lsi_select_taken *taken,
                     const lsi_select_ranks *ranks, const char *host, lsi_choice *out)
{
    selection s = {.inventory = inventory,
                   .rules = rules,
                   .ranks = ranks,
                   .host = host,
                   .judge = {.inventory = inventory, .rules = rules, .taken = taken},
                   .out = out};

    *out = (lsi_choice){0};
    take_views(&s);
    if (strcmp(rules->select, automatic) == 0 || strcmp(rules->select, in_order) == 0) {
        list_all(&s);
    } else {
        s.judge.named = true;
        LS_TRY(read_select(&s));
    }
    LS_TRY(read_exclude(&s));
    rank_all(&s);
    if (ranks->n == 0) {
        return LS_OK;
    }
    return s.alike ? choose_set(&s) : choose_matching(&s);
}
