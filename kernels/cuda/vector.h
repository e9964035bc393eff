/* Groups of consecutive elements in f32: read and written 16 bytes at a time where that is possible (8 where the group
 * has no more), else one by one. A type is known at load and store only. */
#ifndef LSI_KERNELS_CUDA_VECTOR_H
#define LSI_KERNELS_CUDA_VECTOR_H

#include "kernels/cuda/launch.h"

#include <stdint.h>

/* Elements of one access of 16 bytes: the group of element-wise kernels. */
template <typename T> static __host__ __device__ constexpr int lsi_vector(void)
{
    return 16 / (int)sizeof(T);
}

/* The largest of them: for reductions, so that the order of sums is the same for all types. */
enum { LSI_GROUP = 8 };

static __device__ __forceinline__ float lsi_widen(float x)
{
    return x;
}
static __device__ __forceinline__ float lsi_widen(__half x)
{
    return __half2float(x);
}
static __device__ __forceinline__ float lsi_widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* To the nearest, ties to even; f16 overflows to infinity. */
static __device__ __forceinline__ void lsi_narrow(float x, float *out)
{
    *out = x;
}
static __device__ __forceinline__ void lsi_narrow(float x, __half *out)
{
    *out = __float2half_rn(x);
}
static __device__ __forceinline__ void lsi_narrow(float x, __nv_bfloat16 *out)
{
    *out = __float2bfloat16_rn(x);
}

/* One access, to memory of any type. */
#ifdef __CUDACC__
#define LSI_ANY_TYPE
#else
#define LSI_ANY_TYPE __attribute__((may_alias))
#endif
typedef struct __align__(16) LSI_ANY_TYPE lsi_bytes16 {
    uint32_t words[4];
} lsi_bytes16;
typedef struct __align__(8) LSI_ANY_TYPE lsi_bytes8 {
    uint32_t words[2];
} lsi_bytes8;

template <typename T> static __device__ __forceinline__ bool lsi_is_aligned(const T *p, unsigned bytes)
{
    return (uintptr_t)p % bytes == 0;
}

/* A group as it lies in memory. */
template <typename T, int N> struct __align__(16) lsi_raw {
    T element[N];
};

template <typename T, int N> static __device__ __forceinline__ void lsi_get(const T *p, lsi_raw<T, N> *raw)
{
    const int bytes = N * (int)sizeof(T);

    if (bytes % 16 == 0) {
#pragma unroll
        for (int i = 0; i < bytes / 16; i++) {
            ((lsi_bytes16 *)(void *)raw)[i] = ((const lsi_bytes16 *)(const void *)p)[i];
        }
    } else {
        *(lsi_bytes8 *)(void *)raw = *(const lsi_bytes8 *)(const void *)p;
    }
}

template <typename T, int N> static __device__ __forceinline__ void lsi_put(T *p, const lsi_raw<T, N> *raw)
{
    const int bytes = N * (int)sizeof(T);

    if (bytes % 16 == 0) {
#pragma unroll
        for (int i = 0; i < bytes / 16; i++) {
            ((lsi_bytes16 *)(void *)p)[i] = ((const lsi_bytes16 *)(const void *)raw)[i];
        }
    } else {
        *(lsi_bytes8 *)(void *)p = *(const lsi_bytes8 *)(const void *)raw;
    }
}

/* Bytes of one access to a group. */
template <typename T, int N> static __host__ __device__ constexpr unsigned lsi_access(void)
{
    return N * sizeof(T) % 16 == 0 ? 16 : 8;
}

/* x[0 .. N); from x[left] on there is nothing, and the values are 0. */
template <typename T, int N> static __device__ __forceinline__ void lsi_read(const T *x, int64_t left, float *out)
{
    if (left >= N && lsi_is_aligned(x, lsi_access<T, N>())) {
        lsi_raw<T, N> raw;

        lsi_get<T, N>(x, &raw);
#pragma unroll
        for (int i = 0; i < N; i++) {
            out[i] = lsi_widen(raw.element[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        out[i] = i < left ? lsi_widen(x[i]) : 0.0f;
    }
}

/* y[0 .. N), but not from y[left] on. */
template <typename T, int N> static __device__ __forceinline__ void lsi_write(T *y, int64_t left, const float *values)
{
    if (left >= N && lsi_is_aligned(y, lsi_access<T, N>())) {
        lsi_raw<T, N> raw;

#pragma unroll
        for (int i = 0; i < N; i++) {
            lsi_narrow(values[i], &raw.element[i]);
        }
        lsi_put<T, N>(y, &raw);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i < left) {
            lsi_narrow(values[i], &y[i]);
        }
    }
}

#endif
