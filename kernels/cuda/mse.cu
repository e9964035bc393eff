/* Squared errors of real targets. A target that is NaN counts nowhere. */
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

static ls_status check(const char *op, const ls_view *x, const ls_view *targets)
{
    LSI_CHECK_TYPES(op, x);
    LS_REQUIRE(targets->dtype == LS_F32 && targets->count == x->count, LS_ERR_INTERNAL,
               "%s: %lld targets of %s for %lld values; they must be as many, and f32", op, (long long)targets->count,
               ls_dtype_name(targets->dtype), (long long)x->count);
    return LS_OK;
}

template <typename T> static __device__ __forceinline__ void mse_fwd(const lsi_mse_fwd_args &a)
{
    int64_t at = lsi_thread() * LSI_GROUP, left = a.x.count - at;
    float x[LSI_GROUP], target[LSI_GROUP];

    if (left <= 0) {
        return;
    }
    lsi_read<T, LSI_GROUP>((const T *)a.x.data + at, left, x);
    lsi_read<float, LSI_GROUP>((const float *)a.targets.data + at, left, target);
#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        float d = x[i] - target[i];
        x[i] = target[i] == target[i] ? d * d : 0.0f;
    }
    lsi_write<float, LSI_GROUP>((float *)a.losses.data + at, left, x);
}
LSI_KERNEL_TYPES(mse_fwd, (lsi_mse_fwd_args a), (a))

extern "C" ls_status lsi_cuda_mse_fwd(ls_stream *stream, const void *arguments)
{
    lsi_mse_fwd_args a = *(const lsi_mse_fwd_args *)arguments;

    LS_TRY(check("mse_fwd", &a.x, &a.targets));
    if (a.x.count == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("mse_fwd", mse_fwd, a.x.dtype, lsi_cuda_grid(a.x.count, LSI_THREADS * LSI_GROUP),
                            LSI_THREADS, lsi_cuda_stream(stream), a);
}

template <typename T> static __device__ __forceinline__ void mse_bwd(const lsi_mse_bwd_args &a)
{
    int64_t at = lsi_thread() * LSI_GROUP, left = a.x.count - at;
    float x[LSI_GROUP], target[LSI_GROUP], scale = 2.0f * a.seed * a.state->loss_scale;

    if (left <= 0) {
        return;
    }
    lsi_read<T, LSI_GROUP>((const T *)a.x.data + at, left, x);
    lsi_read<float, LSI_GROUP>((const float *)a.targets.data + at, left, target);
#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        float d = (x[i] - target[i]) * scale;
        x[i] = target[i] == target[i] ? d : 0.0f;
    }
    lsi_write<T, LSI_GROUP>((T *)a.dx.data + at, left, x);
}
LSI_KERNEL_TYPES(mse_bwd, (lsi_mse_bwd_args a), (a))

extern "C" ls_status lsi_cuda_mse_bwd(ls_stream *stream, const void *arguments)
{
    lsi_mse_bwd_args a = *(const lsi_mse_bwd_args *)arguments;

    LS_TRY(check("mse_bwd", &a.x, &a.targets));
    LSI_CHECK_TYPES("mse_bwd", &a.x, &a.dx);
    if (a.x.count == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("mse_bwd", mse_bwd, a.x.dtype, lsi_cuda_grid(a.x.count, LSI_THREADS * LSI_GROUP),
                            LSI_THREADS, lsi_cuda_stream(stream), a);
}
