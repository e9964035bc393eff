#include "data/slice.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"

static const uint64_t spread_key = 0x534C494345535052u;    /* constant: the choice must not follow train.seed */

typedef struct shared_dataset {
    ls_dataset *whole;
    int n_users;
} shared_dataset;

typedef struct slice_dataset {
    ls_dataset base;
    shared_dataset *shared;
    int64_t n_first, n_second;
    lsi_slice_choice choice;
    bool is_second;
    lsi_text content;
} slice_dataset;

static void slice_close(ls_dataset *dataset)
{
    slice_dataset *slice = (slice_dataset *)dataset;

    if (slice->shared != NULL && --slice->shared->n_users == 0) {
        slice->shared->whole->ops->close(slice->shared->whole);
        lsi_memory_free(slice->shared);
    }
    lsi_text_free(&slice->content);
    lsi_memory_free(slice);
}

/* First sample of stratum v: floor(v * n / n_second). v * n fits: IDX files, the only ones split this way, have less
 * than 2^32 samples. */
static int64_t stratum_start(const slice_dataset *slice, int64_t v)
{
    return (int64_t)((uint64_t)v * (uint64_t)(slice->n_first + slice->n_second) / (uint64_t)slice->n_second);
}

/* The sample of stratum v that belongs to the second part. */
static int64_t stratum_pick(const slice_dataset *slice, int64_t v)
{
    int64_t start = stratum_start(slice, v), length = stratum_start(slice, v + 1) - start;
    uint32_t bits = lsi_random_philox(spread_key, (uint32_t)v, (uint32_t)((uint64_t)v >> 32), 0, 0).v[0];

    return start + (int64_t)(((uint64_t)bits * (uint64_t)length) >> 32);
}

/* Sample i of the first part: `start - v` samples of it lie before stratum v. */
static int64_t unpicked(const slice_dataset *slice, int64_t i)
{
    int64_t low = 0, high = slice->n_second;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (stratum_start(slice, middle) - middle <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    int64_t index = i + low;

    return index < stratum_pick(slice, low) ? index : index + 1;
}

static int64_t slice_index(const slice_dataset *slice, int64_t i)
{
    if (slice->choice == LSI_SLICE_LAST) {
        return slice->is_second ? slice->n_first + i : i;
    }
    return slice->is_second ? stratum_pick(slice, i) : unpicked(slice, i);
}

static ls_status slice_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const slice_dataset *slice = (const slice_dataset *)dataset;
    const ls_dataset *whole = slice->shared->whole;

    return whole->ops->read(whole, slice_index(slice, index), input, targets);
}

static const ls_dataset_ops slice_ops = {sizeof(ls_dataset_ops), "slice", slice_close, slice_read};

/* Of a whole that does not say what it holds, a part cannot either. */
static ls_status describe_content(slice_dataset *slice, const char *whole)
{
    if (whole == NULL) {
        return LS_OK;
    }
    lsi_text_append(&slice->content, "%s; %s%lld %s of %lld", whole, slice->is_second ? "" : "all but ",
                    (long long)slice->n_second, slice->choice == LSI_SLICE_LAST ? "at the end" : "spread",
                    (long long)(slice->n_first + slice->n_second));
    slice->base.content = slice->content.data;
    return lsi_text_status(&slice->content);
}

ls_status lsi_slice_split(ls_dataset *whole, int64_t n_second, lsi_slice_choice choice, ls_dataset **first,
                          ls_dataset **second)
{
    void *shared = NULL, *part[2] = {NULL, NULL};
    int64_t n_first = whole->n_samples - n_second;
    ls_status status;

    LS_TRY_GOTO(status, failed, lsi_memory_alloc(sizeof(shared_dataset), "split data set", &shared));
    LS_TRY_GOTO(status, failed, lsi_memory_alloc(sizeof(slice_dataset), "split data set", &part[0]));
    LS_TRY_GOTO(status, failed, lsi_memory_alloc(sizeof(slice_dataset), "split data set", &part[1]));
    *(shared_dataset *)shared = (shared_dataset){whole, 2};
    for (int i = 0; i < 2; i++) {
        slice_dataset *slice = part[i];

        *slice = (slice_dataset){*whole, shared, n_first, n_second, choice, i == 1, {0}};
        slice->base.ops = &slice_ops;
        slice->base.n_samples = i == 0 ? n_first : n_second;
        LS_TRY_GOTO(status, failed, describe_content(slice, whole->content));
    }
    *first = part[0];
    *second = part[1];
    return LS_OK;

failed:
    for (int i = 0; i < 2; i++) {
        if (part[i] != NULL) {
            lsi_text_free(&((slice_dataset *)part[i])->content);
        }
        lsi_memory_free(part[i]);
    }
    lsi_memory_free(shared);
    return status;
}
