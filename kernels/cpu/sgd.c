/* SGD with momentum as PyTorch's torch.optim.SGD: decay is part of the gradient, no dampening. */
#include "kernels/cpu/convert.h"

typedef struct sgd_run {
    const float *g;
    float *w, *momentum;
    ls_view copy;
    int64_t n;
    float gradient_scale, decay, factor, rate;
    int first;      /* no momentum yet: whatever the buffer holds is not read */
} sgd_run;

static void update_range(const sgd_run *run, int64_t begin, int64_t end)
{
    const sgd_run r = *run;
    const float *restrict g = r.g;
    float *restrict w = r.w, *restrict momentum = r.momentum;

#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float gradient = g[i] * r.gradient_scale + r.decay * w[i];
        float moved = r.first ? gradient : r.factor * momentum[i] + gradient;

        momentum[i] = moved;
        w[i] -= r.rate * moved;
    }
}

/* The copy is made of weights that are still in the cache. */
static void sgd_block(void *argument, int64_t block)
{
    const sgd_run *r = argument;
    int64_t end = lsi_min((block + 1) * LSI_BLOCK, r->n);

    for (int64_t begin = block * LSI_BLOCK; begin < end; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, end - begin);

        update_range(r, begin, begin + n);
        if (r->copy.count > 0) {
            lsi_convert_store(&r->copy, begin, n, r->w + begin);
        }
    }
}

ls_status LSI_CPU_KERNEL(sgd)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_sgd_args *a = arguments;
    const ls_step_state *state = a->state;

    LS_REQUIRE(a->w.count == a->g.count && a->momentum.count == a->g.count, LS_ERR_INTERNAL,
               "sgd: %lld gradients for %lld weights, momentum %lld", (long long)a->g.count, (long long)a->w.count,
               (long long)a->momentum.count);
    LS_REQUIRE(a->copy.count == 0 || a->copy.count == a->w.count, LS_ERR_INTERNAL,
               "sgd: a copy of %lld elements for %lld weights", (long long)a->copy.count, (long long)a->w.count);
    LS_TRY(LSI_CONVERT_CHECK("sgd", &a->copy));
    if (state->skip) {
        return LS_OK;
    }

    sgd_run r = {
        .g = a->g.data,
        .w = a->w.data,
        .momentum = a->momentum.data,
        .copy = a->copy,
        .n = a->g.count,
        .gradient_scale = (float)(state->unscale * state->clip_factor),
        .decay = (float)a->weight_decay,
        .factor = (float)a->factor,
        .rate = state->learning_rate,
        .first = state->applied == 1,
    };

    ls_parallel_for(run, lsi_blocks(r.n, LSI_BLOCK), sgd_block, &r);
    return LS_OK;
}
