/* Elements from one type to another. */
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

template <typename To, typename From> static __device__ __forceinline__ void cast(const lsi_cast_args &a)
{
    int64_t at = lsi_thread() * LSI_GROUP, left = a.y.count - at;
    float v[LSI_GROUP];

    if (left > 0) {
        lsi_read<From, LSI_GROUP>((const From *)a.x.data + at, left, v);
        lsi_write<To, LSI_GROUP>((To *)a.y.data + at, left, v);
    }
}
template <typename To> static __device__ __forceinline__ void cast_f32(const lsi_cast_args &a)
{
    cast<To, float>(a);
}
template <typename To> static __device__ __forceinline__ void cast_f16(const lsi_cast_args &a)
{
    cast<To, __half>(a);
}
template <typename To> static __device__ __forceinline__ void cast_bf16(const lsi_cast_args &a)
{
    cast<To, __nv_bfloat16>(a);
}
/* lsi_cast_FROM_TO */
LSI_KERNEL_TYPES(cast_f32, (lsi_cast_args a), (a))
LSI_KERNEL_TYPES(cast_f16, (lsi_cast_args a), (a))
LSI_KERNEL_TYPES(cast_bf16, (lsi_cast_args a), (a))

extern "C" ls_status lsi_cuda_cast(ls_stream *stream, const void *arguments)
{
    lsi_cast_args a = *(const lsi_cast_args *)arguments;
    cudaStream_t on = lsi_cuda_stream(stream);

    LSI_CHECK_TYPES("cast", &a.x);
    LSI_CHECK_TYPES("cast", &a.y);
    LS_REQUIRE(a.x.count == a.y.count, LS_ERR_INTERNAL, "cast: %lld elements to %lld", (long long)a.x.count,
               (long long)a.y.count);
    if (a.y.count == 0) {
        return LS_OK;
    }
    unsigned grid = lsi_cuda_grid(a.y.count, LSI_THREADS * LSI_GROUP);
    switch (a.x.dtype) {
    case LS_F16:
        return LSI_LAUNCH_TYPES("cast", cast_f16, a.y.dtype, grid, LSI_THREADS, on, a);
    case LS_BF16:
        return LSI_LAUNCH_TYPES("cast", cast_bf16, a.y.dtype, grid, LSI_THREADS, on, a);
    default:
        return LSI_LAUNCH_TYPES("cast", cast_f32, a.y.dtype, grid, LSI_THREADS, on, a);
    }
}
