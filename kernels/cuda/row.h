/* Reductions along the rows of a matrix. A row up to LSI_ROW_SHORT elements belongs to a warp, a longer one to a block;
 * thread t of n takes elements 8 t .. 8 t + 7 of every 8 n, in order, and then the threads' values are folded in a fixed
 * order. The shape follows from the length of a row alone, so that the bits do, too. */
#ifndef LSI_KERNELS_CUDA_ROW_H
#define LSI_KERNELS_CUDA_ROW_H

#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

enum {
    LSI_ROW_KEPT = 4,                                               /* groups of a row that a thread can keep */
    LSI_ROW_SHORT = WARP_SIZE * LSI_GROUP * LSI_ROW_KEPT,
    LSI_ROW_LONG = LSI_THREADS * LSI_GROUP * LSI_ROW_KEPT,          /* longer rows cannot be kept */
    LSI_ROW_WARPS = LSI_THREADS / WARP_SIZE
};

/* Threads that share a row of `cols` elements. */
static __host__ __device__ __forceinline__ int lsi_row_threads(int64_t cols)
{
    return cols <= LSI_ROW_SHORT ? WARP_SIZE : LSI_THREADS;
}

static inline unsigned lsi_row_grid(int64_t rows, int64_t cols)
{
    return lsi_cuda_grid(rows, LSI_THREADS / lsi_row_threads(cols));
}

/* What this thread does: row `index`, first elements at `first`, `step` apart. Where a row belongs to a warp, the warps
 * behind the last row leave together; no barrier follows in that case. */
typedef struct lsi_row {
    int64_t index, first, step;
    int threads;
} lsi_row;

static __device__ __forceinline__ lsi_row lsi_row_mine(int64_t cols)
{
    lsi_row r;

    r.threads = lsi_row_threads(cols);
    r.index = (int64_t)blockIdx.x * (LSI_THREADS / r.threads) + threadIdx.x / r.threads;
    r.first = (int64_t)(threadIdx.x % r.threads) * LSI_GROUP;
    r.step = (int64_t)r.threads * LSI_GROUP;
    return r;
}

/* Sum over the threads of a row, the same in all of them. `slot`: LSI_ROW_WARPS values of shared memory that nothing
 * else in the kernel uses. */
template <typename F> static __device__ __forceinline__ F lsi_row_sum(const lsi_row *r, F value, F *slot)
{
#pragma unroll
    for (int distance = WARP_SIZE / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(FULL_MASK, value, distance);
    }
    if (r->threads == WARP_SIZE) {
        return value;
    }
    if (threadIdx.x % WARP_SIZE == 0) {
        slot[threadIdx.x / WARP_SIZE] = value;
    }
    __syncthreads();
    value = slot[0];
#pragma unroll
    for (int w = 1; w < LSI_ROW_WARPS; w++) {
        value += slot[w];
    }
    return value;
}

/* The value of an f32 and the first place where it is. */
typedef struct lsi_first_max {
    float value;
    int64_t at;
} lsi_first_max;

/* The larger one, of equal ones the first. */
static __device__ __forceinline__ lsi_first_max lsi_max_of(lsi_first_max a, lsi_first_max b)
{
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* Maximum over the threads of a row, the same in all of them; slots as for lsi_row_sum. */
static __device__ __forceinline__ lsi_first_max lsi_row_max(const lsi_row *r, lsi_first_max mine, lsi_first_max *slot)
{
#pragma unroll
    for (int distance = WARP_SIZE / 2; distance > 0; distance /= 2) {
        lsi_first_max other;

        other.value = __shfl_xor_sync(FULL_MASK, mine.value, distance);
        other.at = __shfl_xor_sync(FULL_MASK, (long long)mine.at, distance);
        mine = lsi_max_of(mine, other);
    }
    if (r->threads == WARP_SIZE) {
        return mine;
    }
    if (threadIdx.x % WARP_SIZE == 0) {
        slot[threadIdx.x / WARP_SIZE] = mine;
    }
    __syncthreads();
    mine = slot[0];
#pragma unroll
    for (int w = 1; w < LSI_ROW_WARPS; w++) {
        mine = lsi_max_of(mine, slot[w]);
    }
    return mine;
}

#endif
