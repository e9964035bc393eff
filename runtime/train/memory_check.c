/* Whether what a trainer is about to allocate fits, asked before anything is allocated; and what is said when it does
 * not, then or later. */
#include "train/memory.h"

#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/proc.h"
#include "base/text.h"

size_t lsi_sizes_total(const lsi_sizes *sizes)
{
    size_t total = 0;

    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        total += sizes->bytes[c];
    }
    return total;
}

/* ---- what ranks need of each pool ------------------------------------------------------------------------------ */

enum { PLACE_BYTES = 40 };

typedef struct need {
    bool known;
    uint64_t bytes[LSI_MEMORY_SIDE_COUNT];
    uint64_t free_bytes[LSI_MEMORY_SIDE_COUNT], total_bytes[LSI_MEMORY_SIDE_COUNT]; /* as this rank sees them */
    char place[PLACE_BYTES];                                          /* of its device's memory */
} need;

/* What one pool has to give, and those who take it. */
typedef struct demand {
    int n_sharing;
    uint64_t together, free_bytes, total_bytes; /* free: the lowest size that one of them saw */
} demand;

static bool shares(const ls_runtime *rt, lsi_memory_side pool, const need *all, int a, int b)
{
    return a == b ||
           (rt->job->node[a] == rt->job->node[b] && (pool == LSI_MEMORY_SIDE_HOST || strcmp(all[a].place, all[b].place) == 0));
}

static demand demand_of(const ls_runtime *rt, lsi_memory_side pool, const need *all, int rank)
{
    demand d = {.free_bytes = UINT64_MAX};

    for (int r = 0; r < rt->job->world; r++) {
        if (shares(rt, pool, all, rank, r)) {
            d.n_sharing++;
            d.together += all[r].bytes[pool];
            d.free_bytes = all[r].free_bytes[pool] < d.free_bytes ? all[r].free_bytes[pool] : d.free_bytes;
            d.total_bytes = all[r].total_bytes[pool];
        }
    }
    return d;
}

static bool fits(const ls_runtime *rt, const need *all, int rank, lsi_memory_side pool)
{
    demand d = demand_of(rt, pool, all, rank);

    return d.together <= d.free_bytes;
}

/* The same answer on every rank. */
static bool all_fit(const ls_runtime *rt, const need *all)
{
    for (int r = 0; r < rt->job->world; r++) {
        if (!all[r].known || !fits(rt, all, r, LSI_MEMORY_SIDE_DEVICE) || !fits(rt, all, r, LSI_MEMORY_SIDE_HOST)) {
            return false;
        }
    }
    return true;
}

/* held: what this rank has taken already, which is free for another plan. */
static ls_status measure(const ls_runtime *rt, const size_t held[LSI_MEMORY_SIDE_COUNT], need *out)
{
    size_t free_bytes = 0, total_bytes = 0;

    *out = (need){.known = true};
    LS_TRY(rt->backend->memory_info(rt->device, &free_bytes, &total_bytes));
    out->free_bytes[LSI_MEMORY_SIDE_DEVICE] = free_bytes + held[LSI_MEMORY_SIDE_DEVICE];
    out->total_bytes[LSI_MEMORY_SIDE_DEVICE] = total_bytes;
    if (!lsi_proc_memory(&free_bytes, &total_bytes)) {
        free_bytes = total_bytes = SIZE_MAX / 2; /* the system does not tell: nothing is held against it */
    }
    out->free_bytes[LSI_MEMORY_SIDE_HOST] = free_bytes + held[LSI_MEMORY_SIDE_HOST];
    out->total_bytes[LSI_MEMORY_SIDE_HOST] = total_bytes;
    snprintf(out->place, sizeof out->place, "%s", rt->backend->place(rt->device));
    return LS_OK;
}

static ls_status exchange(const ls_runtime *rt, const lsi_sizes *sizes, need *mine, need *all)
{
    for (int p = 0; p < LSI_MEMORY_SIDE_COUNT; p++) {
        mine->bytes[p] = sizes->pool[p];
    }
    return lsi_job_all_gather(rt->job, mine, sizeof *mine, all);
}

/* ---- the way out ----------------------------------------------------------------------------------------------- */

/* What smaller micro-batches cannot take less of: with as many lanes or more, only activations and slots shrink. */
static void count_rest(const lsi_sizes *sizes, lsi_sizes *out)
{
    size_t shrinks = sizes->bytes[LSI_MEMORY_ACTIVATIONS] + sizes->bytes[LSI_MEMORY_BATCH];

    *out = *sizes;
    for (int p = 0; p < LSI_MEMORY_SIDE_COUNT; p++) {
        out->pool[p] -= shrinks < out->pool[p] ? shrinks : out->pool[p];
    }
}

/* Collective: the largest micro_batch below the configured one that divides the global batch and fits on all ranks; 0:
 * none does. `configured`: the sizes now. */
static ls_status find_fit(const ls_runtime *rt, const lsi_sizes *configured, const lsi_sizes_trial *trial, need mine,
                          need *all, int64_t *out)
{
    int64_t global = rt->geometry.global_batch;
    lsi_sizes rest;

    *out = 0;
    /* Planning a large model takes a while: not where it cannot help. */
    count_rest(configured, &rest);
    LS_TRY(exchange(rt, &rest, &mine, all));
    if (!all_fit(rt, all)) {
        return LS_OK;
    }
    for (int64_t m = rt->geometry.micro_batch - 1; m > 0; m--) {
        lsi_sizes sizes = {0};

        if (global % m != 0) {
            continue;
        }
        mine.known = trial->sizes(trial->argument, m, &sizes) == LS_OK;
        LS_TRY(exchange(rt, &sizes, &mine, all));
        if (all_fit(rt, all)) {
            *out = m;
            return LS_OK;
        }
    }
    return LS_OK;
}

static void append_bytes(lsi_text *text, uint64_t bytes)
{
    lsi_number_append_bytes_human(text, (double)bytes);
}

static void append_way_out(lsi_text *text, const ls_runtime *rt, const lsi_sizes *sizes, int64_t micro_batch)
{
    const char *compute = rt->config->precision.compute;

    if (micro_batch > 0) {
        lsi_text_append(text, "train.micro_batch = %lld (now %lld) fits, with the same global batch",
                        (long long)micro_batch, (long long)rt->geometry.micro_batch);
        return;
    }
    lsi_text_append(text, "no smaller train.micro_batch fits; what takes less: a smaller model");
    if (strcmp(compute, "f32") == 0 || strcmp(compute, "tf32") == 0) {
        lsi_text_append(text, ", precision.compute = bf16 or f16");
    }
    if (!sizes->sharded && sizes->world > 1) {
        lsi_text_append(text, ", comm.zero = 1");
    }
    if (sizes->gradient_copies > 1) {
        lsi_text_append(text, ", fewer train.lanes (fewer copies of the gradient)");
    }
    if (!rt->backend->host_memory) {
        lsi_text_append(text, ", more GPUs (each keeps less of the optimizer's state), a GPU with more memory");
    }
}

/* ---- what is said ---------------------------------------------------------------------------------------------- */

static void append_classes(lsi_text *text, const lsi_sizes *sizes)
{
    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        lsi_text_append(text, "%s%s ", c == 0 ? " (" : ", ", lsi_memory_class_text((lsi_memory_class)c));
        append_bytes(text, sizes->bytes[c]);
        if (c == LSI_MEMORY_GRADIENTS) {
            lsi_text_append(text, " in %d cop%s", sizes->gradient_copies, sizes->gradient_copies == 1 ? "y" : "ies");
        }
    }
    lsi_text_append(text, ", samples prepared ahead ");
    append_bytes(text, sizes->ahead_bytes);
    lsi_text_append(text, ")");
}

/* "1 GiB of 2 GiB are free, this process needs 3 GiB (...), the 2 processes of it together 6 GiB" */
static void append_demand(lsi_text *text, const ls_runtime *rt, const lsi_sizes *sizes, lsi_memory_side pool, demand d)
{
    append_bytes(text, d.free_bytes);
    lsi_text_append(text, " of ");
    append_bytes(text, d.total_bytes);
    lsi_text_append(text, " are free%s, this process needs ",
                    pool == LSI_MEMORY_SIDE_HOST      ? " of the host's memory"
                    : rt->backend->host_memory ? ""
                                               : " on its GPU");
    append_bytes(text, sizes->pool[pool]);
    if (sizes->pool[LSI_MEMORY_SIDE_HOST] > 0) {
        lsi_text_append(text, pool == LSI_MEMORY_SIDE_HOST ? " of it and " : " there and ");
        append_bytes(text, sizes->pool[pool == LSI_MEMORY_SIDE_HOST ? LSI_MEMORY_SIDE_DEVICE : LSI_MEMORY_SIDE_HOST]);
        lsi_text_append(text, pool == LSI_MEMORY_SIDE_HOST ? " of its GPU's" : " of the host's memory");
    }
    append_classes(text, sizes);
    if (d.n_sharing > 1) {
        lsi_text_append(text, ", the %d processes of %s together ", d.n_sharing,
                        rt->backend->host_memory || pool == LSI_MEMORY_SIDE_HOST ? rt->job->host : "that GPU");
        append_bytes(text, d.together);
    }
}

static ls_status finish(lsi_text *text)
{
    ls_status status = lsi_text_status(text);

    if (status == LS_OK) {
        status = LS_FAIL(LS_ERR_MEMORY, "%s", text->data);
    }
    lsi_text_free(text);
    return status;
}

static ls_status refuse(const ls_runtime *rt, const lsi_sizes *sizes, lsi_memory_side pool, demand d, int64_t micro_batch)
{
    lsi_text text = {0};

    lsi_text_append(&text, "not enough memory: ");
    append_demand(&text, rt, sizes, pool, d);
    lsi_text_append(&text, ". ");
    append_way_out(&text, rt, sizes, micro_batch);
    return finish(&text);
}

static ls_status compare(ls_runtime *rt, const lsi_sizes *sizes, const lsi_sizes_trial *trial, need *mine, need *all)
{
    int64_t micro_batch;

    LS_TRY(exchange(rt, sizes, mine, all));
    if (all_fit(rt, all)) {
        return LS_OK;
    }
    bool device = fits(rt, all, rt->job->rank, LSI_MEMORY_SIDE_DEVICE), host = fits(rt, all, rt->job->rank, LSI_MEMORY_SIDE_HOST);
    lsi_memory_side pool = device ? LSI_MEMORY_SIDE_HOST : LSI_MEMORY_SIDE_DEVICE;
    demand d = demand_of(rt, pool, all, rt->job->rank);

    LS_TRY(find_fit(rt, sizes, trial, *mine, all, &micro_batch));
    return device && host ? LS_OK : refuse(rt, sizes, pool, d, micro_batch);
}

ls_status lsi_sizes_check(ls_runtime *runtime, const lsi_sizes *sizes, const lsi_sizes_trial *trial)
{
    const size_t nothing[LSI_MEMORY_SIDE_COUNT] = {0};
    need mine = {0}, *all = NULL;
    ls_status status = measure(runtime, nothing, &mine);

    if (status == LS_OK) {
        status = lsi_memory_alloc((size_t)runtime->job->world * sizeof *all, "sizes of all ranks", (void **)&all);
    }
    status = lsi_runtime_agree(runtime, status);
    if (status == LS_OK) {
        status = lsi_runtime_agree(runtime, compare(runtime, sizes, trial, &mine, all));
    }
    lsi_memory_free(all);
    return status;
}

/* ---- after an allocation that failed --------------------------------------------------------------------------- */

static ls_status explain(const ls_runtime *rt, const lsi_sizes *sizes, bool planned, demand d, int64_t micro_batch,
                         const char *cause)
{
    lsi_text text = {0};

    lsi_text_append(&text, "%s. By the plan, ", cause);
    append_demand(&text, rt, sizes, LSI_MEMORY_SIDE_DEVICE, d);
    lsi_text_append(&text, ". ");
    if (planned) {
        lsi_text_append(&text, "That would fit: what is free is in pieces, or another process takes it. ");
    }
    append_way_out(&text, rt, sizes, micro_batch);
    return finish(&text);
}

ls_status lsi_sizes_explain(ls_runtime *runtime, const lsi_sizes *sizes, const lsi_sizes_trial *trial,
                            const size_t held[LSI_MEMORY_SIDE_COUNT], ls_status mine)
{
    double missing = mine == LS_ERR_MEMORY;
    need here = {0}, *all;
    lsi_failure cause;
    int64_t micro_batch;

    lsi_failure_take(&cause);
    ls_status status = lsi_job_max(runtime->job, &missing, 1);
    if (status != LS_OK || missing == 0) {
        return status != LS_OK ? status : mine;
    }
    status = measure(runtime, held, &here);
    here.known = status == LS_OK;
    status = lsi_memory_alloc((size_t)runtime->job->world * sizeof *all, "sizes of all ranks", (void **)&all);
    LS_TRY(lsi_runtime_agree(runtime, status));
    status = exchange(runtime, sizes, &here, all);
    bool planned = all_fit(runtime, all);
    demand d = demand_of(runtime, LSI_MEMORY_SIDE_DEVICE, all, runtime->job->rank);
    if (status == LS_OK) {
        status = find_fit(runtime, sizes, trial, here, all, &micro_batch);
    }
    lsi_memory_free(all);
    LS_TRY(status);
    if (mine == LS_ERR_MEMORY) {
        return explain(runtime, sizes, planned, d, micro_batch, cause.message);
    }
    return mine == LS_OK ? LS_OK : lsi_failure_adopt(&cause);
}
