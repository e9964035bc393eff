/* AdamW as PyTorch's torch.optim.AdamW: decoupled decay, bias-corrected moments, eps outside the root. One pass reads
 * gradients, weights and moments and writes weights, moments and the 16-bit copy; a step that is skipped touches none. */
#include "kernels/cuda/optimizer.h"

/* Scalars of one step: made in double, rounded once. */
typedef struct adamw_step {
    float gradient_scale, keep, beta1, beta2, rest1, rest2, root2, eps, rate;
} adamw_step;

static __device__ __forceinline__ void make_step(const lsi_adamw_args &a, adamw_step *out)
{
    const ls_step_state *state = a.state;
    double learning_rate = state->learning_rate;

    out->gradient_scale = (float)(state->unscale * state->clip_factor);
    out->keep = (float)(1.0 - learning_rate * a.weight_decay);
    out->beta1 = (float)a.beta1;
    out->beta2 = (float)a.beta2;
    out->rest1 = (float)(1.0 - a.beta1);
    out->rest2 = (float)(1.0 - a.beta2);
    out->root2 = (float)sqrt(1.0 - state->beta2_power);
    out->eps = (float)a.eps;
    out->rate = (float)(learning_rate / (1.0 - state->beta1_power));
}

template <typename Copy>
static __device__ __forceinline__ void adamw(const lsi_adamw_args &a, adamw_step *shared)
{
    const int n = LSI_UPDATE_GROUP;

    if (a.state->skip) {
        return;     /* the whole grid does */
    }
    if (threadIdx.x == 0) {
        make_step(a, shared);
    }
    __syncthreads();
    const adamw_step r = *shared;
#pragma unroll
    for (int k = 0; k < LSI_UPDATE_ROUNDS; k++) {
        int64_t at = lsi_update_at(k), left = a.g.count - at;
        float g[n], w[n], m[n], v[n];

        if (left <= 0) {
            break;
        }
        lsi_read<float, n>((const float *)a.g.data + at, left, g);
        lsi_read<float, n>((const float *)a.w.data + at, left, w);
        lsi_read<float, n>((const float *)a.m.data + at, left, m);
        lsi_read<float, n>((const float *)a.v.data + at, left, v);
#pragma unroll
        for (int i = 0; i < n; i++) {
            float gradient = g[i] * r.gradient_scale;

            m[i] = r.beta1 * m[i] + r.rest1 * gradient;
            v[i] = r.beta2 * v[i] + r.rest2 * gradient * gradient;
            w[i] = w[i] * r.keep - r.rate * (m[i] / (sqrtf(v[i]) / r.root2 + r.eps));
        }
        lsi_write<float, n>((float *)a.w.data + at, left, w);
        lsi_write<float, n>((float *)a.m.data + at, left, m);
        lsi_write<float, n>((float *)a.v.data + at, left, v);
        if (a.copy.count > 0) {
            lsi_write<Copy, n>((Copy *)a.copy.data + at, left, w);
        }
    }
}

/* Named by the type of the copy. */
#define ADAMW(suffix, type)                                                                                          \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_adamw_##suffix(lsi_adamw_args a)                   \
    {                                                                                                                \
        __shared__ adamw_step step;                                                                                  \
        adamw<type>(a, &step);                                                                                       \
    }
ADAMW(f32, float)
ADAMW(f16, __half)
ADAMW(bf16, __nv_bfloat16)

extern "C" ls_status lsi_cuda_adamw(ls_stream *stream, const void *arguments)
{
    lsi_adamw_args a = *(const lsi_adamw_args *)arguments;

    LS_REQUIRE(a.w.count == a.g.count && a.m.count == a.g.count && a.v.count == a.g.count, LS_ERR_INTERNAL,
               "adamw: %lld gradients for %lld weights, moments %lld and %lld", (long long)a.g.count,
               (long long)a.w.count, (long long)a.m.count, (long long)a.v.count);
    LS_REQUIRE(a.copy.count == 0 || a.copy.count == a.w.count, LS_ERR_INTERNAL,
               "adamw: a copy of %lld elements for %lld weights", (long long)a.copy.count, (long long)a.w.count);
    LSI_CHECK_TYPES("adamw", &a.copy);
    if (a.g.count == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("adamw", adamw, a.copy.count > 0 ? a.copy.dtype : LS_F32,
                            lsi_cuda_grid(a.g.count, LSI_UPDATE_BLOCK), LSI_THREADS, lsi_cuda_stream(stream), a);
}
