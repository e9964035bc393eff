#include "kernels/cuda/mma.h"
#include "planted.h"

#define N PLANTED_THREADS

/* Each case: `good` decides at the one place where the bug is. Named so that a report's line says which it is. */

extern "C" __global__ void static_overrun_kernel(int good, float *data)
{
    __shared__ float s[N];
    int t = threadIdx.x;
    s[t + (!good && t == N - 1)] = (float)t;
    __syncthreads();
    if (t < N - 1)
        data[t] = s[t];
}

extern "C" __global__ void dynamic_overrun_kernel(int good, float *data)
{
    DYN_SHARED(float, s);
    int t = threadIdx.x;
    s[t + (!good && t == N - 1)] = (float)t;
    __syncthreads();
    if (t < N - 1)
        data[t] = s[t];
}

extern "C" __global__ void global_overrun_kernel(int good, float *data, int n)
{
    int i = blockIdx.x * N + threadIdx.x;
    if (good ? i < n : i <= n)
        data[i] = (float)i;
}

extern "C" __global__ void misaligned_kernel(int good, float *data)
{
    int t = threadIdx.x;
    if (t < 8)
        *(float4 *)(data + 4 * t + (good ? 0 : 1)) = make_float4(1, 2, 3, 4);
}

extern "C" __global__ void last_barrier_kernel(int good, float *data)
{
    __shared__ float s[N];
    int t = threadIdx.x;
    s[t] = 1;
    for (int o = N / 2; o > 0; o >>= 1) {
        __syncthreads();
        if (t < o)
            s[t] += s[t + o];
    }
    if (good)
        __syncthreads();
    data[t] = s[0];
}

/* A shared word is written again before everyone has read it. */
extern "C" __global__ void second_barrier_kernel(int good, float *data)
{
    __shared__ float s;
    int t = threadIdx.x;
    for (int round = 0; round < 2; round++) {
        if (t == 0)
            s = (float)round;
        __syncthreads();
        data[round * N + t] = s;
        if (good)
            __syncthreads();
    }
}

extern "C" __global__ void no_syncwarp_kernel(int good, float *data)
{
    __shared__ float s[WARP_SIZE];
    int t = threadIdx.x;
    if (t >= WARP_SIZE)
        return;
    s[t] = (float)t;
    if (good)
        __syncwarp();
    float other = s[t ^ 1];
    if (good)
        __syncwarp();
    s[t] += other;
    data[t] = s[t];
}

extern "C" __global__ void uninitialised_kernel(int good, float *data)
{
    __shared__ float s[N];
    int t = threadIdx.x;
    if (good || t < N / 2)
        s[t] = 1;
    __syncthreads();
    data[t] = s[t];
}

/* The last block to finish adds up what all have written. */
extern "C" __global__ void no_fence_kernel(int good, float *data, unsigned *counter)
{
    __shared__ int last;
    int t = threadIdx.x;
    if (t == 0) {
        data[1 + blockIdx.x] = (float)(blockIdx.x + 1);
        if (good)
            __threadfence();
        last = atomicAdd(counter, 1u) == gridDim.x - 1;
        if (good)
            __threadfence();
    }
    __syncthreads();
    if (last && t == 0) {
        float sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += data[1 + i];
        data[0] = sum;
    }
}

extern "C" __global__ void no_atomic_kernel(int good, float *data)
{
    if (threadIdx.x != 0)
        return;
    if (good)
        atomicAdd(data, 1.0f);
    else
        data[0] += 1.0f;
}

extern "C" __global__ void divergent_barrier_kernel(int good, float *data)
{
    __shared__ float s[N];
    int t = threadIdx.x;
    if (good) {
        s[t] = (float)t;
        __syncthreads();
    } else if (t < N / 2) {
        s[t] = (float)t;
        __syncthreads();
    } else {
        s[t] = (float)t;
        __syncthreads();
    }
    data[t] = s[N - 1 - t];
}

extern "C" __global__ void early_return_kernel(int good, float *data)
{
    __shared__ float s[N];
    int t = threadIdx.x;
    if (!good && t >= 100)
        return;
    s[t] = (float)t;
    __syncthreads();
    if (t < 100)
        data[t] = s[99 - t];
}

extern "C" __global__ void different_operations_kernel(int good, float *data)
{
    int t = threadIdx.x;
    float v = (float)t;
    if (good || t % WARP_SIZE < 16)
        v = __shfl_xor_sync(FULL_MASK, v, 1);
    else
        v = __any_sync(FULL_MASK, v > 3) ? 1.0f : 0.0f;
    data[t] = v;
}

extern "C" __global__ void mask_without_caller_kernel(int good, float *data)
{
    int t = threadIdx.x;
    data[t] = __shfl_xor_sync(good ? FULL_MASK : 0x0000ffffu, (float)t, 1);
}

extern "C" __global__ void mask_of_ended_kernel(int good, float *data)
{
    int t = threadIdx.x;
    if (!good && t % WARP_SIZE >= 16)
        return;
    data[t] = __shfl_xor_sync(FULL_MASK, (float)t, 1);
}

/* One lane goes to the barrier at once; the others of its warp wait for it in a shuffle, and everybody else at the
 * barrier. */
extern "C" __global__ void deadlock_kernel(int good, float *data)
{
    int t = threadIdx.x;
    if (t >= N / 2 && (good || t != N - 1))
        data[t] = __shfl_xor_sync(FULL_MASK, (float)t, 1);
    __syncthreads();
}

extern "C" __global__ void copy_not_awaited_kernel(int good, float *data)
{
    __shared__ __align__(16) float s[4 * N];
    int t = threadIdx.x;
    cp_async_16(s + 4 * t, data + 4 * t);
    cp_async_commit();
    if (good)
        cp_async_wait<0>();
    __syncthreads();
    data[4 * t] = s[4 * (N - 1 - t)] + 1;
}

extern "C" cudaError_t planted_launch(planted which, int good, int blocks, float *data, int n, unsigned *counter,
                                      cudaStream_t stream)
{
    switch (which) {
    case PLANTED_dynamic_overrun:
        return LAUNCH(dynamic_overrun_kernel, blocks, N, N * sizeof(float), stream, good, data);
    case PLANTED_global_overrun:
        return LAUNCH(global_overrun_kernel, blocks, N, 0, stream, good, data, n);
    case PLANTED_no_fence:
        return LAUNCH(no_fence_kernel, blocks, N, 0, stream, good, data, counter);
#define CASE(name)                                                                                                     \
    case PLANTED_##name:                                                                                               \
        return LAUNCH(name##_kernel, blocks, N, 0, stream, good, data)
        CASE(static_overrun);
        CASE(misaligned);
        CASE(last_barrier);
        CASE(second_barrier);
        CASE(no_syncwarp);
        CASE(uninitialised);
        CASE(no_atomic);
        CASE(divergent_barrier);
        CASE(early_return);
        CASE(different_operations);
        CASE(mask_without_caller);
        CASE(mask_of_ended);
        CASE(deadlock);
        CASE(copy_not_awaited);
#undef CASE
    case PLANTED_COUNT:
        break;
    }
    return cudaErrorInvalidValue;
}

extern "C" __global__ void fill(float *data, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = value;
}

extern "C" __global__ void axpy(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

extern "C" __global__ void stamp(uint64_t *ring, uint64_t *counter, int size, uint64_t id)
{
    uint64_t slot = *counter % (uint64_t)size;
    ring[2 * slot] = id;
    ring[2 * slot + 1] = global_timer_ns();
    *counter += 1;
}

extern "C" cudaError_t plain_fill(float *data, float value, int n, cudaStream_t stream)
{
    return LAUNCH(fill, (n + 31) / 32, 32, 0, stream, data, value, n);
}
extern "C" cudaError_t plain_axpy(float *y, const float *x, float a, int n, cudaStream_t stream)
{
    return LAUNCH(axpy, (n + 31) / 32, 32, 0, stream, y, x, a, n);
}
extern "C" cudaError_t plain_stamp(uint64_t *ring, uint64_t *counter, int size, uint64_t id, cudaStream_t stream)
{
    return LAUNCH(stamp, 1, 1, 0, stream, ring, counter, size, id);
}
