/* SGD with momentum as PyTorch's torch.optim.SGD: decay is part of the gradient, no dampening. One pass, as AdamW's. */
#include "kernels/cuda/optimizer.h"

template <typename Copy> static __device__ __forceinline__ void sgd(const lsi_sgd_args &a)
{
    const int n = LSI_UPDATE_GROUP;
    const ls_step_state *state = a.state;

    if (state->skip) {
        return;
    }
    const float scale = (float)(state->unscale * state->clip_factor), decay = (float)a.weight_decay;
    const float factor = (float)a.factor, rate = state->learning_rate;
    const bool first = state->applied == 1;     /* no momentum yet: whatever the buffer holds is not used */
#pragma unroll
    for (int k = 0; k < LSI_UPDATE_ROUNDS; k++) {
        int64_t at = lsi_update_at(k), left = a.g.count - at;
        float g[n], w[n], momentum[n];

        if (left <= 0) {
            break;
        }
        lsi_read<float, n>((const float *)a.g.data + at, left, g);
        lsi_read<float, n>((const float *)a.w.data + at, left, w);
        lsi_read<float, n>((const float *)a.momentum.data + at, left, momentum);
#pragma unroll
        for (int i = 0; i < n; i++) {
            float gradient = g[i] * scale + decay * w[i];

            momentum[i] = first ? gradient : factor * momentum[i] + gradient;
            w[i] -= rate * momentum[i];
        }
        lsi_write<float, n>((float *)a.w.data + at, left, w);
        lsi_write<float, n>((float *)a.momentum.data + at, left, momentum);
        if (a.copy.count > 0) {
            lsi_write<Copy, n>((Copy *)a.copy.data + at, left, w);
        }
    }
}
/* Named by the type of the copy. */
LSI_KERNEL_TYPES(sgd, (lsi_sgd_args a), (a))

extern "C" ls_status lsi_cuda_sgd(ls_stream *stream, const void *arguments)
{
    lsi_sgd_args a = *(const lsi_sgd_args *)arguments;

    LS_REQUIRE(a.w.count == a.g.count && a.momentum.count == a.g.count, LS_ERR_INTERNAL,
               "sgd: %lld gradients for %lld weights, momentum %lld", (long long)a.g.count, (long long)a.w.count,
               (long long)a.momentum.count);
    LS_REQUIRE(a.copy.count == 0 || a.copy.count == a.w.count, LS_ERR_INTERNAL,
               "sgd: a copy of %lld elements for %lld weights", (long long)a.copy.count, (long long)a.w.count);
    LSI_CHECK_TYPES("sgd", &a.copy);
    if (a.g.count == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("sgd", sgd, a.copy.count > 0 ? a.copy.dtype : LS_F32,
                            lsi_cuda_grid(a.g.count, LSI_UPDATE_BLOCK), LSI_THREADS, lsi_cuda_stream(stream), a);
}
