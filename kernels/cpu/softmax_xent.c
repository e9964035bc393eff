/* Softmax and cross-entropy in one: the probabilities are never stored, the backward makes them again from the row's
 * log-sum-exp. Both at once do so while the row is in the cache. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/math.h"

static float row_max(const lsi_softmax_xent_fwd_args *a, int64_t row)
{
    float max[LSI_LANES], tile[LSI_CONVERT_TILE];

    for (int l = 0; l < LSI_LANES; l++) {
        max[l] = -INFINITY;
    }
    for (int64_t begin = 0; begin < a->classes; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->classes - begin);
        lsi_lanes_raise(max, lsi_convert_load(&a->logits, row * a->pitch + begin, n, tile), n);
    }
    return lsi_lanes_largest(max);
}

/* The exponentials of a tile are summed in f32, these sums in double. */
static double sum_exp(const lsi_softmax_xent_fwd_args *a, int64_t row, float max)
{
    double sum = 0.0;

    for (int64_t begin = 0; begin < a->classes; begin += LSI_CONVERT_TILE) {
        float tile[LSI_CONVERT_TILE], e[LSI_CONVERT_TILE];
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->classes - begin);
        const float *x = lsi_convert_load(&a->logits, row * a->pitch + begin, n, tile);

        for (int64_t i = 0; i < n; i++) {
            e[i] = lsi_exp(x[i] - max);
        }
        sum += (double)lsi_lanes_sum(e, n);
    }
    return sum;
}

/* Whether any of the first n logits of the row is as large. */
static bool has_max(const lsi_softmax_xent_fwd_args *a, int64_t row, int64_t n, float max)
{
    float tile[LSI_CONVERT_TILE];

    for (int64_t begin = 0; begin < n; begin += LSI_CONVERT_TILE) {
        int64_t m = lsi_min(LSI_CONVERT_TILE, n - begin);
        const float *x = lsi_convert_load(&a->logits, row * a->pitch + begin, m, tile);

        for (int64_t i = 0; i < m; i++) {
            if (x[i] == max) {
                return true;
            }
        }
    }
    return false;
}

/* Writes loss and hit, returns the log-sum-exp. */
static float fwd_row(const lsi_softmax_xent_fwd_args *a, int64_t row)
{
    int32_t target = ((const int32_t *)a->targets.data)[row];
    float *loss = (float *)a->losses.data + row, *hit = (float *)a->hits.data + row, tile[1];
    float max = row_max(a, row);
    float log_sum = lsi_log((float)sum_exp(a, row, max));

    if (target < 0) {
        *loss = 0.0f;
        *hit = 0.0f;
        return max + log_sum;
    }
    float x = *lsi_convert_load(&a->logits, row * a->pitch + target, 1, tile);
    *loss = log_sum + (max - x);
    /* the target is the first among the largest */
    *hit = log_sum == log_sum && x == max && !has_max(a, row, target, max) ? 1.0f : 0.0f;
    return max + log_sum;
}

static void fwd_block(void *argument, int64_t block)
{
    const lsi_softmax_xent_fwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->classes);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        ((float *)a->lse.data)[row] = fwd_row(a, row);
    }
}

static ls_status check_targets(const lsi_softmax_xent_fwd_args *a)
{
    const int32_t *targets = a->targets.data;

    for (int64_t row = 0; row < a->rows; row++) {
        LS_REQUIRE(targets[row] < a->classes, LS_ERR_DATA,
                   "target %d in row %lld of the micro-batch, but there are %lld classes", (int)targets[row],
                   (long long)row, (long long)a->classes);
    }
    return LS_OK;
}

ls_status LSI_CPU_KERNEL(softmax_xent_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_softmax_xent_fwd_args a = *(const lsi_softmax_xent_fwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("softmax_xent_fwd", &a.logits));
    LS_TRY(check_targets(&a));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.classes)), fwd_block, &a);
    return LS_OK;
}

static void bwd_row(const lsi_softmax_xent_bwd_args *a, int64_t row, float lse)
{
    int32_t target = ((const int32_t *)a->targets.data)[row];
    float scale = a->seed * a->state->loss_scale;
    float x_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
    int64_t written = target < 0 ? 0 : a->classes;
    size_t element_bytes = ls_dtype_bytes(a->dlogits.dtype);

    for (int64_t begin = 0; begin < written; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->classes - begin), at = row * a->pitch + begin;
        const float *x = lsi_convert_load(&a->logits, at, n, x_tile);
        float *dx = lsi_convert_target(&a->dlogits, at, dx_tile);
        bool has_target = target >= begin && target < begin + n;
        float p_target = has_target ? lsi_exp(x[target - begin] - lse) : 0.0f;

        LSI_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            dx[i] = lsi_exp(x[i] - lse) * scale;
        }
        if (has_target) {
            dx[target - begin] = (p_target - 1.0f) * scale;
        }
        lsi_convert_store(&a->dlogits, at, n, dx);
    }
    memset((unsigned char *)a->dlogits.data + (size_t)(row * a->pitch + written) * element_bytes, 0,
           (size_t)(a->pitch - written) * element_bytes);
}

static void bwd_block(void *argument, int64_t block)
{
    const lsi_softmax_xent_bwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->classes);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        bwd_row(a, row, ((const float *)a->lse.data)[row]);
    }
}

ls_status LSI_CPU_KERNEL(softmax_xent_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_softmax_xent_bwd_args a = *(const lsi_softmax_xent_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("softmax_xent_bwd", &a.logits, &a.dlogits));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.classes)), bwd_block, &a);
    return LS_OK;
}

typedef struct both {
    lsi_softmax_xent_fwd_args fwd;
    lsi_softmax_xent_bwd_args bwd;
} both;

static void both_block(void *argument, int64_t block)
{
    const both *b = argument;
    int64_t per_block = lsi_rows_per_block(b->fwd.classes);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, b->fwd.rows); row++) {
        bwd_row(&b->bwd, row, fwd_row(&b->fwd, row));
    }
}

ls_status LSI_CPU_KERNEL(softmax_xent)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_softmax_xent_args *a = arguments;
    both b = {
        .fwd = {.logits = a->logits,
                .targets = a->targets,
                .losses = a->losses,
                .hits = a->hits,
                .rows = a->rows,
                .pitch = a->pitch,
                .classes = a->classes},
        .bwd = {.logits = a->logits,
                .targets = a->targets,
                .dlogits = a->logits,
                .state = a->state,
                .rows = a->rows,
                .pitch = a->pitch,
                .classes = a->classes,
                .seed = a->seed},
    };

    LS_TRY(LSI_CONVERT_CHECK("softmax_xent", &a->logits));
    LS_TRY(check_targets(&b.fwd));
    ls_parallel_for(run, lsi_blocks(a->rows, lsi_rows_per_block(a->classes)), both_block, &b);
    return LS_OK;
}
