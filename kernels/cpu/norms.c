/* Sums of squares per block, in double: what the gradient norm and the non-finite check are made of. */
#include <math.h>

#include "kernels/commit.h"
#include "kernels/cpu/kernel.h"

enum { NORM_LANES = 16 };

/* The sum of element l, l + LANES, ... is lane l; lanes are then folded in halves. A square of an f32 cannot overflow a
 * double, so the sum is non-finite exactly when an element is. */
static double sum_of_squares(const float *g, int64_t n)
{
    double lane[NORM_LANES] = {0};
    int64_t i = 0;

    for (; i + NORM_LANES <= n; i += NORM_LANES) {
#pragma omp simd
        for (int l = 0; l < NORM_LANES; l++) {
            lane[l] += (double)g[i + l] * (double)g[i + l];
        }
    }
    for (int l = 0; i + l < n; l++) {
        lane[l] += (double)g[i + l] * (double)g[i + l];
    }
    for (int half = NORM_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

static int64_t first_not_finite(const float *g)
{
    int64_t i = 0;

    while (isfinite(g[i])) {
        i++;
    }
    return i;
}

static void block_norms_block(void *argument, int64_t block)
{
    const lsi_block_norms_args *a = argument;
    const float *g = (const float *)a->g.data + block * LSI_BLOCK;
    double sum = sum_of_squares(g, lsi_min(LSI_BLOCK, a->g.count - block * LSI_BLOCK));

    ((double *)a->sums.data)[block] = isfinite(sum) ? sum : lsi_bad_sum(first_not_finite(g));
}

ls_status LSI_CPU_KERNEL(block_norms)(const ls_cpu_run *run, const void *arguments)
{
    lsi_block_norms_args a = *(const lsi_block_norms_args *)arguments;
    int64_t n_blocks = lsi_blocks(a.g.count, LSI_BLOCK);

    LS_REQUIRE(a.sums.count == n_blocks, LS_ERR_INTERNAL, "block_norms: %lld sums for %lld blocks",
               (long long)a.sums.count, (long long)n_blocks);
    ls_parallel_for(run, n_blocks, block_norms_block, &a);
    return LS_OK;
}
