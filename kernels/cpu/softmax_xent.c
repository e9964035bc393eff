/* Softmax and cross-entropy in one: the probabilities are never stored, the backward makes them again from the row's
 * log-sum-exp. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"

/* Exponentials that are summed in f32; these sums are added in double. */
enum { CHUNK = 1024 };

static double sum_exp(const float *x, int64_t n, float max)
{
    double sum = 0.0;

    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        int64_t m = lsi_min(CHUNK, n - begin);
        float e[CHUNK];
        for (int64_t i = 0; i < m; i++) {
            e[i] = lsi_exp(x[begin + i] - max);
        }
        sum += (double)lsi_lanes_sum(e, m);
    }
    return sum;
}

/* Whether the target is the first among the largest. */
static bool is_first_max(const float *x, int64_t target, float max)
{
    if (x[target] != max) {
        return false;
    }
    for (int64_t i = 0; i < target; i++) {
        if (x[i] == max) {
            return false;
        }
    }
    return true;
}

static void fwd_row(const lsi_softmax_xent_fwd_args *a, int64_t row)
{
    const float *x = (const float *)a->logits.data + row * a->pitch;
    int32_t target = ((const int32_t *)a->targets.data)[row];
    float *loss = (float *)a->losses.data + row, *hit = (float *)a->hits.data + row;
    float max = lsi_lanes_max(x, a->classes);
    float log_sum = lsi_log((float)sum_exp(x, a->classes, max));

    ((float *)a->lse.data)[row] = max + log_sum;
    if (target < 0) {
        *loss = 0.0f;
        *hit = 0.0f;
        return;
    }
    *loss = log_sum + (max - x[target]);
    *hit = log_sum == log_sum && is_first_max(x, target, max) ? 1.0f : 0.0f;
}

static void fwd_block(void *argument, int64_t block)
{
    const lsi_softmax_xent_fwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->classes);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        fwd_row(a, row);
    }
}

ls_status LSI_CPU_KERNEL(softmax_xent_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_softmax_xent_fwd_args a = *(const lsi_softmax_xent_fwd_args *)arguments;
    const int32_t *targets = a.targets.data;

    for (int64_t row = 0; row < a.rows; row++) {
        LS_REQUIRE(targets[row] < a.classes, LS_ERR_DATA,
                   "target %d in row %lld of the micro-batch, but there are %lld classes", (int)targets[row],
                   (long long)row, (long long)a.classes);
    }
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.classes)), fwd_block, &a);
    return LS_OK;
}

static void bwd_row(const lsi_softmax_xent_bwd_args *a, int64_t row)
{
    const float *x = (const float *)a->logits.data + row * a->pitch;
    float *dx = (float *)a->dlogits.data + row * a->pitch;
    int32_t target = ((const int32_t *)a->targets.data)[row];
    float lse = ((const float *)a->lse.data)[row], scale = a->seed * a->state->loss_scale;
    int64_t written = 0;

    if (target >= 0) {
        float p_target = lsi_exp(x[target] - lse);

        LSI_INDEPENDENT
        for (int64_t i = 0; i < a->classes; i++) {
            dx[i] = lsi_exp(x[i] - lse) * scale;
        }
        dx[target] = (p_target - 1.0f) * scale;
        written = a->classes;
    }
    memset(dx + written, 0, (size_t)(a->pitch - written) * sizeof *dx);
}

static void bwd_block(void *argument, int64_t block)
{
    const lsi_softmax_xent_bwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->classes);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        bwd_row(a, row);
    }
}

ls_status LSI_CPU_KERNEL(softmax_xent_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_softmax_xent_bwd_args a = *(const lsi_softmax_xent_bwd_args *)arguments;

    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.classes)), bwd_block, &a);
    return LS_OK;
}
