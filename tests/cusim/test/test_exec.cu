/* Device features, each tried by one kernel. */
#include "kernels/cuda/mma.h"
#include "test_exec.h"

extern "C" __global__ void warp_kernel(float *out)
{
    int t = threadIdx.x;
    unsigned u = (unsigned)t;
    int k = 0;
#define PUT(value) out[k++ * 32 + t] = (float)(value)
    PUT(__shfl_sync(FULL_MASK, t, 5));
    PUT(__shfl_sync(FULL_MASK, t, 3, 8));
    PUT(__shfl_up_sync(FULL_MASK, t, 2));
    PUT(__shfl_down_sync(FULL_MASK, t, 4, 16));
    PUT(__shfl_xor_sync(FULL_MASK, (double)t, 31));
    PUT(__popc(__ballot_sync(FULL_MASK, t % 3 == 0)));
    PUT(__all_sync(FULL_MASK, t < 32));
    PUT(__any_sync(FULL_MASK, t == 32));
    PUT(__reduce_add_sync(FULL_MASK, u));
    PUT(__reduce_max_sync(FULL_MASK, t - 20));
    PUT(__reduce_min_sync(FULL_MASK, t - 20));
    PUT(__popc(__match_any_sync(FULL_MASK, t / 4)));
    PUT(t < 8 ? __shfl_xor_sync(0xffu, t, 1) : -1);
    PUT(__syncthreads_count(t < 7));
    PUT(__syncthreads_or(t == 31));
    PUT(__syncthreads_and(t < 31));
#undef PUT
}

extern "C" __global__ void atomic_kernel(int *ints, unsigned *words, float *floats, unsigned long long *longs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&ints[0], 1);
    atomicMax(&ints[1], i);
    atomicMin(&ints[2], -i);
    atomicSub(&ints[3], 2);
    atomicOr(&words[0], 1u << i % 32);
    atomicXor(&words[1], 1u << i % 32);
    atomicInc(&words[2], 9);
    atomicCAS(&words[3], 0u, 77u);
    atomicAdd(&floats[0], 0.5f);
    atomicAdd(&longs[0], 1ull << 33);
}

/* 16-bit types and the intrinsics that training kernels use. */
extern "C" __global__ void types_kernel(float *out)
{
    float x = 1.0f + (float)threadIdx.x / 64;
    __half h = __float2half_rn(x);
    __nv_bfloat16 b = __float2bfloat16(x);
    float2 pair = __half22float2(__floats2half2_rn(x, -x));
    float4 four = make_float4(x, 2 * x, 3 * x, 4 * x);
    out[threadIdx.x * 8 + 0] = __half2float(h);
    out[threadIdx.x * 8 + 1] = __bfloat162float(b);
    out[threadIdx.x * 8 + 2] = pair.y;
    out[threadIdx.x * 8 + 3] = four.w;
    out[threadIdx.x * 8 + 4] = rsqrtf(4.0f) + __expf(0.0f) + fmaxf(x, 0.0f);
    out[threadIdx.x * 8 + 5] = __uint_as_float(__float_as_uint(x));
    out[threadIdx.x * 8 + 6] = (float)__umulhi(1u << 31, 6u);
    out[threadIdx.x * 8 + 7] = (float)(min(3, 5) + max(3u, 5u)) + __ldg(&out[threadIdx.x * 8 + 1]) * 0;
}

/* One warp: d[16 x 8] = a[16 x K] b[8 x K]^T, a through cp.async and ldmatrix. */
template <bool F16, int Step>
static __device__ void tile(float *d, const uint16_t *a, const uint16_t *b, int k_all, uint16_t (*s)[16])
{
    int lane = threadIdx.x % WARP_SIZE, g = lane / 4, t = lane % 4;
    float sum[4] = {0, 0, 0, 0};
    for (int k = 0; k < k_all; k += 16) {
        cp_async_16(&s[lane / 2][lane % 2 * 8], a + lane / 2 * k_all + k + lane % 2 * 8);
        cp_async_commit();
        cp_async_wait<0>();
        __syncwarp();
        uint32_t fa[4], fb[2];
        ldmatrix_x4(fa, &s[lane % 16][lane / 16 * 8]);
        fb[0] = *(const uint32_t *)(b + g * k_all + k + t * 2);
        fb[1] = *(const uint32_t *)(b + g * k_all + k + t * 2 + 8);
        if (Step == 8) {
            mma_f16_1688(sum, fa, fb);
            mma_f16_1688(sum, fa + 2, fb + 1);
        } else if (F16) {
            mma_f16_16816(sum, fa, fb);
        } else {
            mma_bf16_16816(sum, fa, fb);
        }
        __syncwarp();
    }
    for (int i = 0; i < 4; i++)
        d[(g + (i >= 2 ? 8 : 0)) * 8 + t * 2 + i % 2] = sum[i];
}
extern "C" __global__ void tile_bf16_kernel(float *d, const uint16_t *a, const uint16_t *b, int k)
{
    __shared__ __align__(16) uint16_t s[16][16];
    tile<false, 16>(d, a, b, k, s);
}
extern "C" __global__ void tile_f16_kernel(float *d, const uint16_t *a, const uint16_t *b, int k)
{
    __shared__ __align__(16) uint16_t s[16][16];
    tile<true, 16>(d, a, b, k, s);
}
extern "C" __global__ void tile_f16_8_kernel(float *d, const uint16_t *a, const uint16_t *b, int k)
{
    __shared__ __align__(16) uint16_t s[16][16];
    tile<true, 8>(d, a, b, k, s);
}

/* A transposing load: lane (g, t) gets rows 2t, 2t+1 of column g of each matrix. */
extern "C" __global__ void transpose_kernel(float *out)
{
    __shared__ __align__(16) uint16_t s[8][16];
    int t = threadIdx.x;
    for (int i = t; i < 128; i += 32)
        s[i / 16][i % 16] = (uint16_t)i;
    __syncthreads();
    uint32_t r[2];
    ldmatrix_x2_trans(r, &s[t % 8][t / 8 % 2 * 8]);
    out[4 * t] = (float)(r[0] & 0xffff);
    out[4 * t + 1] = (float)(r[0] >> 16);
    out[4 * t + 2] = (float)(r[1] & 0xffff);
    out[4 * t + 3] = (float)(r[1] >> 16);
}

extern "C" __global__ void index_kernel(float *out)
{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned all = blockDim.x * blockDim.y * blockDim.z;
    atomicAdd(&out[block * all + thread], 1.0f);
}

extern "C" __global__ void fault_kernel(int which)
{
    if (which == 1 && threadIdx.x == 3)
        __trap();
}

extern "C" cudaError_t test_warp(float *out, cudaStream_t s)
{
    return LAUNCH(warp_kernel, 1, 32, 0, s, out);
}
extern "C" cudaError_t test_atomic(int *i, unsigned *w, float *f, unsigned long long *l, cudaStream_t s)
{
    return LAUNCH(atomic_kernel, 4, 64, 0, s, i, w, f, l);
}
extern "C" cudaError_t test_types(float *out, cudaStream_t s)
{
    return LAUNCH(types_kernel, 1, 64, 0, s, out);
}
extern "C" cudaError_t test_tile(int which, float *d, const void *a, const void *b, int k, cudaStream_t s)
{
    const uint16_t *x = (const uint16_t *)a, *y = (const uint16_t *)b;
    return which == 0   ? LAUNCH(tile_bf16_kernel, 1, 32, 0, s, d, x, y, k)
           : which == 1 ? LAUNCH(tile_f16_kernel, 1, 32, 0, s, d, x, y, k)
                        : LAUNCH(tile_f16_8_kernel, 1, 32, 0, s, d, x, y, k);
}
extern "C" cudaError_t test_transpose(float *out, cudaStream_t s)
{
    return LAUNCH(transpose_kernel, 1, 32, 0, s, out);
}
extern "C" cudaError_t test_index(float *out, int gx, int gy, int gz, int bx, int by, int bz, cudaStream_t s)
{
    return LAUNCH(index_kernel, dim3(gx, gy, gz), dim3(bx, by, bz), 0, s, out);
}
extern "C" cudaError_t test_fault(int which, cudaStream_t s)
{
    return LAUNCH(fault_kernel, 1, 32, 0, s, which);
}
