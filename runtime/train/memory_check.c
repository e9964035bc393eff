/* Whether what a trainer is about to allocate fits, asked before anything is allocated. */
#include "train/memory.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

size_t lsi_sizes_total(const lsi_sizes *sizes)
{
    size_t total = 0;

    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        total += sizes->bytes[c];
    }
    return total;
}

/* What the loader prepares ahead in ordinary memory. */
static size_t prefetched(const ls_config *config, const lsi_sizes *sizes)
{
    size_t share = (size_t)sizes->n_local * (sizes->input_bytes + sizes->target_bytes);

    return config->data.workers > 0 ? (size_t)config->data.prefetch * share : 0;
}

static void append_bytes(lsi_text *text, uint64_t bytes)
{
    lsi_number_append_bytes_human(text, (double)bytes);
}

/* One message: this process's sizes by class, and what those who share the memory need together. */
static ls_status refuse(const ls_runtime *rt, const lsi_sizes *sizes, size_t ahead, int n_sharing, uint64_t together,
                        uint64_t free_bytes)
{
    lsi_text text = {0};

    lsi_text_append(&text, "not enough memory: ");
    append_bytes(&text, free_bytes);
    lsi_text_append(&text, " are free, this process needs ");
    append_bytes(&text, lsi_sizes_total(sizes) + ahead);
    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        lsi_text_append(&text, "%s%s ", c == 0 ? " (" : ", ", lsi_memory_class_text((lsi_memory_class)c));
        append_bytes(&text, sizes->bytes[c]);
        if (c == LSI_MEMORY_GRADIENTS) {
            lsi_text_append(&text, " in %d cop%s", sizes->gradient_copies, sizes->gradient_copies == 1 ? "y" : "ies");
        }
    }
    lsi_text_append(&text, ", samples prepared ahead ");
    append_bytes(&text, ahead);
    lsi_text_append(&text, ")");
    if (n_sharing > 1) {
        lsi_text_append(&text, ", the %d processes of %s together ", n_sharing, rt->job->host);
        append_bytes(&text, together);
    }
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK) {
        status = LS_FAIL(LS_ERR_MEMORY, "%s", text.data);
    }
    lsi_text_free(&text);
    return status;
}

typedef struct need {
    uint64_t bytes, free_bytes;     /* free: as this rank sees it before it allocates */
} need;

/* Held against the lowest free size that one of those who share the memory saw. */
static ls_status compare(const ls_runtime *rt, const lsi_sizes *sizes, size_t ahead, const need *all)
{
    const lsi_job *job = rt->job;
    uint64_t together = 0, free_bytes = UINT64_MAX;
    int n_sharing = 0;

    for (int r = 0; r < job->world; r++) {
        if (r == job->rank || (rt->backend->host_memory && job->node[r] == job->node[job->rank])) {
            n_sharing++;
            together += all[r].bytes;
            free_bytes = all[r].free_bytes < free_bytes ? all[r].free_bytes : free_bytes;
        }
    }
    return together <= free_bytes ? LS_OK : refuse(rt, sizes, ahead, n_sharing, together, free_bytes);
}

ls_status lsi_sizes_check(ls_runtime *runtime, const lsi_sizes *sizes)
{
    size_t ahead = prefetched(runtime->config, sizes), free_bytes = 0, total_bytes = 0;
    need *all = NULL;

    ls_status status = runtime->backend->memory_info(runtime->device, &free_bytes, &total_bytes);
    if (status == LS_OK) {
        status = lsi_memory_alloc((size_t)runtime->job->world * sizeof *all, "sizes of all ranks", (void **)&all);
    }
    status = lsi_runtime_agree(runtime, status);
    if (status == LS_OK) {
        need mine = {lsi_sizes_total(sizes) + ahead, free_bytes};

        status = lsi_job_all_gather(runtime->job, &mine, sizeof mine, all);
        if (status == LS_OK) {
            status = compare(runtime, sizes, ahead, all);
        }
        status = lsi_runtime_agree(runtime, status);
    }
    lsi_memory_free(all);
    return status;
}
