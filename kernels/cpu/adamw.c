/* AdamW as PyTorch's torch.optim.AdamW: decoupled decay, bias-corrected moments, eps outside the root. */
#include <math.h>

#include "kernels/cpu/convert.h"

/* Scalars of one step: made in double, rounded once. */
typedef struct adamw_run {
    const float *g;
    float *w, *m, *v;
    ls_view copy;
    int64_t n;
    float gradient_scale, keep, beta1, beta2, rest1, rest2, root2, eps, rate;
} adamw_run;

static void update_range(const adamw_run *run, int64_t begin, int64_t end)
{
    const adamw_run r = *run;
    const float *restrict g = r.g;
    float *restrict w = r.w, *restrict m = r.m, *restrict v = r.v;

#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float gradient = g[i] * r.gradient_scale;
        float first = r.beta1 * m[i] + r.rest1 * gradient;
        float second = r.beta2 * v[i] + r.rest2 * gradient * gradient;

        m[i] = first;
        v[i] = second;
        w[i] = w[i] * r.keep - r.rate * (first / (sqrtf(second) / r.root2 + r.eps));
    }
}

/* The copy is made of weights that are still in the cache. */
static void adamw_block(void *argument, int64_t block)
{
    const adamw_run *r = argument;
    int64_t end = lsi_min((block + 1) * LSI_BLOCK, r->n);

    for (int64_t begin = block * LSI_BLOCK; begin < end; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, end - begin);

        update_range(r, begin, begin + n);
        if (r->copy.count > 0) {
            lsi_convert_store(&r->copy, begin, n, r->w + begin);
        }
    }
}

ls_status LSI_CPU_KERNEL(adamw)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_adamw_args *a = arguments;
    const ls_step_state *state = a->state;

    LS_REQUIRE(a->w.count == a->g.count && a->m.count == a->g.count && a->v.count == a->g.count, LS_ERR_INTERNAL,
               "adamw: %lld gradients for %lld weights, moments %lld and %lld", (long long)a->g.count,
               (long long)a->w.count, (long long)a->m.count, (long long)a->v.count);
    LS_REQUIRE(a->copy.count == 0 || a->copy.count == a->w.count, LS_ERR_INTERNAL,
               "adamw: a copy of %lld elements for %lld weights", (long long)a->copy.count, (long long)a->w.count);
    LS_TRY(LSI_CONVERT_CHECK("adamw", &a->copy));
    if (state->skip) {
        return LS_OK;
    }

    double learning_rate = state->learning_rate;
    adamw_run r = {
        .g = a->g.data,
        .w = a->w.data,
        .m = a->m.data,
        .v = a->v.data,
        .copy = a->copy,
        .n = a->g.count,
        .gradient_scale = (float)(state->unscale * state->clip_factor),
        .keep = (float)(1.0 - learning_rate * a->weight_decay),
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .rest1 = (float)(1.0 - a->beta1),
        .rest2 = (float)(1.0 - a->beta2),
        .root2 = (float)sqrt(1.0 - state->beta2_power),
        .eps = (float)a->eps,
        .rate = (float)(learning_rate / (1.0 - state->beta1_power)),
    };

    ls_parallel_for(run, lsi_blocks(r.n, LSI_BLOCK), adamw_block, &r);
    return LS_OK;
}
