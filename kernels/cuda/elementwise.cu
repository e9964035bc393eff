/* Activations, sums and products, one element at a time. NaN goes through all of them, ReLU included, as in PyTorch. */
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"
#include "kernels/gelu.h"
#include "kernels/math.h"

/* y = f(x); a thread's group is one access. */
template <typename T, typename F> static __device__ __forceinline__ void map1(ls_view x, ls_view y, F f)
{
    const int n = lsi_vector<T>();
    int64_t at = lsi_thread() * n, left = y.count - at;
    float v[n];

    if (left <= 0) {
        return;
    }
    lsi_read<T, n>((const T *)x.data + at, left, v);
#pragma unroll
    for (int i = 0; i < n; i++) {
        v[i] = f(v[i]);
    }
    lsi_write<T, n>((T *)y.data + at, left, v);
}

/* y = f(a, b); y may be one of them. */
template <typename T, typename F> static __device__ __forceinline__ void map2(ls_view a, ls_view b, ls_view y, F f)
{
    const int n = lsi_vector<T>();
    int64_t at = lsi_thread() * n, left = y.count - at;
    float v[n], w[n];

    if (left <= 0) {
        return;
    }
    lsi_read<T, n>((const T *)a.data + at, left, v);
    lsi_read<T, n>((const T *)b.data + at, left, w);
#pragma unroll
    for (int i = 0; i < n; i++) {
        v[i] = f(v[i], w[i]);
    }
    lsi_write<T, n>((T *)y.data + at, left, v);
}

/* The launcher of an op whose views are all of one type and `y` as long as the others. */
#define LAUNCHER(op, y, ...)                                                                                     \
    extern "C" ls_status lsi_cuda_##op(ls_stream *stream, const void *arguments)                                 \
    {                                                                                                            \
        lsi_##op##_args a = *(const lsi_##op##_args *)arguments;                                                 \
        LSI_CHECK_TYPES(#op, __VA_ARGS__);                                                                       \
        if (a.y.count == 0) {                                                                                    \
            return LS_OK;                                                                                        \
        }                                                                                                        \
        int64_t per_block = LSI_THREADS * lsi_cuda_group(a.y.dtype);                                                \
        return LSI_LAUNCH_TYPES(#op, op, a.y.dtype, lsi_cuda_grid(a.y.count, per_block), LSI_THREADS,            \
                                lsi_cuda_stream(stream), a);                                                     \
    }

/* An op with one input: y = value, an expression of x. */
#define UNARY(op, value)                                                                                         \
    struct op##_at {                                                                                             \
        __device__ float operator()(float x) const                                                               \
        {                                                                                                        \
            return value;                                                                                        \
        }                                                                                                        \
    };                                                                                                           \
    template <typename T> static __device__ __forceinline__ void op(const lsi_##op##_args &a)                    \
    {                                                                                                            \
        map1<T>(a.x, a.y, op##_at());                                                                            \
    }                                                                                                            \
    LSI_KERNEL_TYPES(op, (lsi_##op##_args a), (a))                                                               \
    LAUNCHER(op, y, &a.x, &a.y)

/* An op with two: out = value, an expression of the elements first and second. */
#define BINARY(op, first, second, out, value, ...)                                                               \
    struct op##_at {                                                                                             \
        __device__ float operator()(float first, float second) const                                             \
        {                                                                                                        \
            return value;                                                                                        \
        }                                                                                                        \
    };                                                                                                           \
    template <typename T> static __device__ __forceinline__ void op(const lsi_##op##_args &args)                 \
    {                                                                                                            \
        map2<T>(args.first, args.second, args.out, op##_at());                                                   \
    }                                                                                                            \
    LSI_KERNEL_TYPES(op, (lsi_##op##_args a), (a))                                                               \
    LAUNCHER(op, out, __VA_ARGS__)

UNARY(gelu_fwd, lsi_gelu(x))
BINARY(gelu_bwd, x, dy, dx, dy * lsi_gelu_slope(x), &a.x, &a.dy, &a.dx)
UNARY(relu_fwd, x < 0.0f ? 0.0f : x)
BINARY(relu_bwd, x, dy, dx, x <= 0.0f ? 0.0f : dy, &a.x, &a.dy, &a.dx)
UNARY(sigmoid_fwd, lsi_sigmoid(x).value)
BINARY(sigmoid_bwd, x, dy, dx, dy * lsi_sigmoid(x).slope, &a.x, &a.dy, &a.dx)
UNARY(tanh_fwd, lsi_tanh(x))
/* tanh x = 2 sigmoid(2x) - 1 */
BINARY(tanh_bwd, x, dy, dx, dy * (4.0f * lsi_sigmoid(2.0f * x).slope), &a.x, &a.dy, &a.dx)
BINARY(add, a, b, y, a + b, &a.a, &a.b, &a.y)
BINARY(mul, a, b, y, a * b, &a.a, &a.b, &a.y)
BINARY(add_into, y, x, y, y + x, &a.x, &a.y)
