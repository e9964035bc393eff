/* Lets a host compiler take a CUDA C file as C++: the project's kernels/cuda/launch.h includes it under CUSIM. No
 * standard C++ headers, exceptions or run-time types, so that programs link as C. */
#ifndef CUSIM_DEVICE_H
#define CUSIM_DEVICE_H

#ifdef __CUDACC__
#error "the simulator's device header is for a host compiler"
#endif

#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "cusim_exec.h"

/* ---- keywords: the toolkit's headers are through with them ---------------------------------- */

#undef __shared__
#undef __constant__
#undef __global__
#undef __device__
#undef __host__
#undef __launch_bounds__
#undef __forceinline__
#undef __noinline__
#undef __restrict__
/* A section of its own, so that the executor can poison all static shared memory before each block. */
#define __shared__ static __attribute__((section("cusim_shared")))
#define __constant__
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict

#define threadIdx (cusim_thread->index)
#define blockIdx (cusim_block.index)
#define blockDim (cusim_block.block)
#define gridDim (cusim_block.grid)
#define warpSize 32
#define DYN_SHARED(T, name) T *name = (T *)cusim_block.dynamic_shared

#define __trap() cusim_trap("__trap()", __FILE__, __LINE__)
#define __nanosleep(nanoseconds) cusim_sleep(nanoseconds)
#define clock64() ((long long)cusim_clock())
#define clock() ((int)cusim_clock())
#define __threadfence() cusim_fence()
#define __threadfence_block() cusim_fence()
#define __threadfence_system() cusim_fence()

#include "cusim_device_warp.h"
#include "cusim_device_atomic.h"
#include "cusim_device_math.h"

/* ---- launches ------------------------------------------------------------------------------- */

/* A kernel's arguments, converted to its parameter types and copied, as <<<>>> does. */
template <class... P> struct cusim_pack {
};
template <class T, class... Rest> struct cusim_pack<T, Rest...> {
    T value;
    cusim_pack<Rest...> rest;
};
static inline cusim_pack<> cusim_fill(cusim_pack<> *)
{
    return {};
}
template <class T, class... Rest, class A, class... B>
static inline cusim_pack<T, Rest...> cusim_fill(cusim_pack<T, Rest...> *, A first, B... others)
{
    return cusim_pack<T, Rest...>{(T)first, cusim_fill((cusim_pack<Rest...> *)0, others...)};
}
template <class Kernel, class... Done> static inline void cusim_apply(Kernel kernel, const cusim_pack<> &, Done... done)
{
    kernel(done...);
}
template <class Kernel, class T, class... Rest, class... Done>
static inline void cusim_apply(Kernel kernel, const cusim_pack<T, Rest...> &pack, Done... done)
{
    cusim_apply(kernel, pack.rest, done..., pack.value);
}
template <class... P> struct cusim_closure {
    void (*kernel)(P...);
    cusim_pack<P...> arguments;
};
template <class... P> static void cusim_call_closure(const void *memory)
{
    const cusim_closure<P...> *closure = (const cusim_closure<P...> *)memory;
    cusim_apply(closure->kernel, closure->arguments);
}
static inline cusim_dim3 cusim_shape(dim3 d)
{
    return cusim_dim3{d.x, d.y, d.z};
}
template <class... P, class... A>
static inline cudaError_t cusim_launch_kernel(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                              size_t shared, cudaStream_t stream, A... arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "wrong number of kernel arguments");
    cusim_closure<P...> closure = {kernel, cusim_fill((cusim_pack<P...> *)0, arguments...)};
    cusim_launch launch = {name,   (const void *)kernel,      cusim_shape(grid), cusim_shape(block),
                           shared, &cusim_call_closure<P...>, &closure,          sizeof closure};
    return (cudaError_t)cusim_enqueue_kernel(&launch, stream);
}
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    cusim_launch_kernel(#kernel, kernel, (grid), (block), (shared), (stream), ##__VA_ARGS__)

#endif
