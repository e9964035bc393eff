/* Attention on tensor cores: tiles of 16-bit rows in shared memory and the products of them.
 *
 * A warp owns 16 rows of a tile and meets all rows of a streamed tile with them. What a product of rows leaves in a
 * thread's registers (scores) is, rounded to 16 bits, what the next product takes from there, so that scores never pass
 * through memory. Sums are f32; rounded to 16 bits are only the factors: probabilities and their gradients.
 *
 * Lane = 4 g + t. Of a warp's 16 x 8 tile n of f32 sums, sums[n], a thread has row g, columns 2t and 2t+1, then row
 * g + 8 (mma.h). */
#ifndef LSI_KERNELS_CUDA_ATTENTION_MMA_H
#define LSI_KERNELS_CUDA_ATTENTION_MMA_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/vector.h"

/* ---- the three ways ------------------------------------------------------------------------------------------ */

#ifdef __CUDA_ARCH__
#define LSI_ATTENTION_ARCH __CUDA_ARCH__
#else
#define LSI_ATTENTION_ARCH 0    /* the host's pass, the simulator: everything is there */
#endif

static __device__ __forceinline__ uint32_t lsi_attention_pack_f16(float low, float high)
{
    __half2 pair = __floats2half2_rn(low, high);
    uint32_t bits;

    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* d += a b, a 16 x 16, b 16 x 8; copies of 16 bytes to shared memory, which `wait` waits for. HERE: the architecture
 * being compiled for has what it takes; newer ones take an older way beside an older GPU (device.mixed). */
struct lsi_attention_f16_sm80 {
    enum { HERE = LSI_ATTENTION_ARCH == 0 || LSI_ATTENTION_ARCH >= 800, SMALL_BLOCKS = 3 };
    static __device__ __forceinline__ void multiply(float *d, const uint32_t *a, const uint32_t *b)
    {
        mma_f16_16816(d, a, b);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high)
    {
        return lsi_attention_pack_f16(low, high);
    }
    static __device__ __forceinline__ float widen(uint16_t bits)
    {
        return __half2float(__ushort_as_half(bits));
    }
    static __device__ __forceinline__ void copy(void *shared, const void *global)
    {
        cp_async_16(shared, global);
    }
    static __device__ __forceinline__ void wait(void)
    {
        cp_async_commit();
        cp_async_wait<0>();
    }
};

struct lsi_attention_bf16_sm80 {
    enum { HERE = LSI_ATTENTION_ARCH == 0 || LSI_ATTENTION_ARCH >= 800, SMALL_BLOCKS = 3 };
    static __device__ __forceinline__ void multiply(float *d, const uint32_t *a, const uint32_t *b)
    {
        mma_bf16_16816(d, a, b);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high)
    {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        uint32_t bits;

        memcpy(&bits, &pair, sizeof bits);
        return bits;
    }
    static __device__ __forceinline__ float widen(uint16_t bits)
    {
        return __bfloat162float(__ushort_as_bfloat16(bits));
    }
    static __device__ __forceinline__ void copy(void *shared, const void *global)
    {
        cp_async_16(shared, global);
    }
    static __device__ __forceinline__ void wait(void)
    {
        cp_async_commit();
        cp_async_wait<0>();
    }
};

/* Half the depth at a time, and copies through registers. */
struct lsi_attention_f16_sm75 {
    enum { HERE = LSI_ATTENTION_ARCH == 0 || LSI_ATTENTION_ARCH >= 750, SMALL_BLOCKS = 2 };
    static __device__ __forceinline__ void multiply(float *d, const uint32_t *a, const uint32_t *b)
    {
        mma_f16_1688(d, a, b);
        mma_f16_1688(d, a + 2, b + 1);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high)
    {
        return lsi_attention_pack_f16(low, high);
    }
    static __device__ __forceinline__ float widen(uint16_t bits)
    {
        return __half2float(__ushort_as_half(bits));
    }
    static __device__ __forceinline__ void copy(void *shared, const void *global)
    {
        *(lsi_bytes16 *)shared = *(const lsi_bytes16 *)global;
    }
    static __device__ __forceinline__ void wait(void)
    {
    }
};

/* ---- tiles --------------------------------------------------------------------------------------------------- */

enum {
    LSI_ATTENTION_CHUNK = 8,        /* elements of 16 bytes, the unit of tiles */
    LSI_ATTENTION_WARP_ROWS = 16
};

/* Where a chunk of a row lies in a tile of rows of D elements (a power of two, at least 32). Chunks are permuted within
 * a row, so that one chunk of 8 consecutive rows lies in 8 different groups of banks. */
template <int D> static __device__ __forceinline__ int lsi_attention_at(int row, int chunk)
{
    constexpr int chunks = D / LSI_ATTENTION_CHUNK;
    constexpr int rows_per_turn = chunks < 8 ? 8 / chunks : 1, mask = chunks < 8 ? chunks - 1 : 7;

    return row * D + (chunk ^ (row / rows_per_turn & mask)) * LSI_ATTENTION_CHUNK;
}

/* A chunk of which only `left` elements are there: the others are 0. One by one, for any alignment. */
static __device__ __forceinline__ void lsi_attention_pick(uint16_t *chunk, const uint16_t *from, int left)
{
    lsi_raw<uint16_t, LSI_ATTENTION_CHUNK> raw;

#pragma unroll
    for (int i = 0; i < LSI_ATTENTION_CHUNK; i++) {
        raw.element[i] = i < left ? from[i] : (uint16_t)0;
    }
    lsi_put<uint16_t, LSI_ATTENTION_CHUNK>(chunk, &raw);
}

/* Begins to fill a tile: n rows, `step` elements apart, the rest zero. By the whole block of `threads`; there after
 * Math::wait and a barrier. */
template <class Math, int D, int ROWS>
static __device__ __forceinline__ void lsi_attention_load(uint16_t *tile, const uint16_t *rows, int64_t step, int n,
                                                          const lsi_attention_problem &p, int threads)
{
    constexpr int chunks = D / LSI_ATTENTION_CHUNK;

    for (int i = (int)threadIdx.x; i < ROWS * chunks; i += threads) {
        int row = i / chunks, column = i % chunks * LSI_ATTENTION_CHUNK;
        int left = row < n ? p.head_size - column : 0;
        uint16_t *to = tile + lsi_attention_at<D>(row, i % chunks);
        const uint16_t *from = rows + row * step + column;

        if (p.aligned && left > 0) {
            Math::copy(to, from);
        } else {
            lsi_attention_pick(to, from, left);
        }
    }
}

/* Rows of a warp, from the tile to memory: N chunks of each from `first` on. */
template <int D, int N>
static __device__ __forceinline__ void lsi_attention_store(const uint16_t *tile, int first, uint16_t *rows,
                                                           int64_t step, int n, const lsi_attention_problem &p)
{
    for (int i = (int)threadIdx.x % WARP_SIZE; i < LSI_ATTENTION_WARP_ROWS * N; i += WARP_SIZE) {
        int row = i / N, chunk = first + i % N, left = p.head_size - chunk * LSI_ATTENTION_CHUNK;
        const uint16_t *from = tile + lsi_attention_at<D>(row, chunk);
        uint16_t *to = rows + row * step + chunk * LSI_ATTENTION_CHUNK;

        if (row >= n || left <= 0) {
            continue;
        }
        if (p.aligned) {
            *(lsi_bytes16 *)to = *(const lsi_bytes16 *)from;
        } else {
            for (int e = 0; e < left && e < LSI_ATTENTION_CHUNK; e++) {
                to[e] = from[e];
            }
        }
    }
}

/* ---- products ------------------------------------------------------------------------------------------------ */

/* sums[n][..] = the warp's 16 rows at `own` times the N rows at `streamed`. */
template <class Math, int D, int N>
static __device__ __forceinline__ void lsi_attention_score(const uint16_t *own, const uint16_t *streamed,
                                                           float (*sums)[4])
{
    const int lane = (int)threadIdx.x % WARP_SIZE, low = lane % 8, second = lane / 8 % 2, third = lane / 16;

#pragma unroll
    for (int n = 0; n < N / 8; n++) {
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4], b[4];

        ldmatrix_x4(a, own + lsi_attention_at<D>(low + second * 8, 2 * k + third));
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            ldmatrix_x4(b, streamed + lsi_attention_at<D>(16 * n + low + third * 8, 2 * k + second));
            Math::multiply(sums[2 * n], a, b);
            Math::multiply(sums[2 * n + 1], a, b + 2);
        }
    }
}

/* Scores to factors of the next product: 16 columns of them to each four registers. */
template <class Math, int N>
static __device__ __forceinline__ void lsi_attention_round(const float (*sums)[4], uint32_t (*factors)[4])
{
#pragma unroll
    for (int n = 0; n < N / 16; n++) {
        factors[n][0] = Math::pack(sums[2 * n][0], sums[2 * n][1]);
        factors[n][1] = Math::pack(sums[2 * n][2], sums[2 * n][3]);
        factors[n][2] = Math::pack(sums[2 * n + 1][0], sums[2 * n + 1][1]);
        factors[n][3] = Math::pack(sums[2 * n + 1][2], sums[2 * n + 1][3]);
    }
}

/* out += factors times the N rows at `streamed`, columns [8 first, 8 first + OUT) of them. */
template <class Math, int D, int N, int OUT>
static __device__ __forceinline__ void lsi_attention_add(const uint32_t (*factors)[4], const uint16_t *streamed,
                                                         int first, float (*out)[4])
{
    const int lane = (int)threadIdx.x % WARP_SIZE, low = lane % 8, second = lane / 8 % 2, third = lane / 16;

#pragma unroll
    for (int k = 0; k < N / 16; k++) {
#pragma unroll
        for (int n = 0; n < OUT / 16; n++) {
            uint32_t b[4];

            ldmatrix_x4_trans(b, streamed + lsi_attention_at<D>(16 * k + low + second * 8, first + 2 * n + third));
            Math::multiply(out[2 * n], factors[k], b);
            Math::multiply(out[2 * n + 1], factors[k], b + 2);
        }
    }
}

/* Two elements of a tile. */
typedef uint32_t LSI_ANY_TYPE lsi_attention_pair;

/* The warp's sums, times a factor per row, to 16 bits, by way of its rows of a tile that no other warp reads;
 * since it read them itself it has been at a barrier. */
template <class Math, int D, int OUT>
static __device__ __forceinline__ void lsi_attention_finish(const float (*sums)[4], const float factor[2],
                                                            uint16_t *tile, int first, uint16_t *rows, int64_t step,
                                                            int n_rows, const lsi_attention_problem &p)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, t = lane % 4;

#pragma unroll
    for (int n = 0; n < OUT / 8; n++) {
#pragma unroll
        for (int part = 0; part < 2; part++) {
            uint32_t pair = Math::pack(sums[n][2 * part] * factor[part], sums[n][2 * part + 1] * factor[part]);

            *(lsi_attention_pair *)(tile + lsi_attention_at<D>(g + 8 * part, first + n) + 2 * t) = pair;
        }
    }
    __syncwarp();
    lsi_attention_store<D, OUT / LSI_ATTENTION_CHUNK>(tile, first, rows, step, n_rows, p);
}

/* ---- dropout ------------------------------------------------------------------------------------------------- */

/* Which of the thread's four scores of a tile are kept, bit i; two lanes or four need bits of the same draw, and each
 * draws one. Rows are queries from `query` on, columns are keys from `key` on (a multiple of 8). */
static __device__ __forceinline__ unsigned lsi_attention_keep_keys(const lsi_attention_draw &d, int query, int key)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, t = lane % 4, odd = t % 2;
    unsigned mine = lsi_attention_keep(d, query + g + 8 * odd, key / 4 + t / 2);
    unsigned other = __shfl_xor_sync(FULL_MASK, mine, 1);
    unsigned upper = odd ? other : mine, lower = odd ? mine : other;

    return (upper >> 2 * odd & 3) | (lower >> 2 * odd & 3) << 2;
}

/* Rows are keys from `key` on (a multiple of 16), columns queries from `query` on. */
static __device__ __forceinline__ unsigned lsi_attention_keep_queries(const lsi_attention_draw &d, int query, int key)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, t = lane % 4, r = g % 4;
    unsigned mine = lsi_attention_keep(d, query + 2 * t + r % 2, key / 4 + g / 4 + r / 2 * 2), keep = 0;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        keep |= (__shfl_sync(FULL_MASK, mine, (lane & ~12) | i << 2) >> r & 1) << i;
    }
    return keep;
}

/* ---- launches ------------------------------------------------------------------------------------------------ */

#define LSI_ATTENTION_LOG2E 1.44269504f
#define LSI_ATTENTION_LN2 0.693147181f

/* Head sizes that kernels are made for: a smaller one is padded. */
#define LSI_ATTENTION_SIZES(X, math) X(math, 32) X(math, 64) X(math, 128) X(math, 256)
#define LSI_ATTENTION_MATHS(X) \
    LSI_ATTENTION_SIZES(X, f16_sm80) LSI_ATTENTION_SIZES(X, bf16_sm80) LSI_ATTENTION_SIZES(X, f16_sm75)

/* Blocks per multiprocessor that a kernel is to leave registers for: what its shared memory allows at least. */
template <class Math, int D> static __host__ __device__ constexpr int lsi_attention_blocks(void)
{
    return D <= 64 ? Math::SMALL_BLOCKS : D <= 128 ? 2 : 1;
}

/* Body of a launcher: starts lsi_NAME_MATH_SIZE with what SHAPE<SIZE> says, and returns. shape<SIZE>::ROWS
 * rows of a head belong to a block, which is PARTS times there. */
#define LSI_ATTENTION_LAUNCH(name, shape)                                    \
    do {                                                                     \
        switch (path) {                                                      \
        case LSI_ATTENTION_F16_SM80:                                         \
            LSI_ATTENTION_LAUNCH_MATH(name##_f16_sm80, shape);               \
        case LSI_ATTENTION_BF16_SM80:                                        \
            LSI_ATTENTION_LAUNCH_MATH(name##_bf16_sm80, shape);              \
        case LSI_ATTENTION_F16_SM75:                                         \
            LSI_ATTENTION_LAUNCH_MATH(name##_f16_sm75, shape);               \
        default:                                                             \
            return cudaErrorInvalidValue;                                    \
        }                                                                    \
    } while (0)
#define LSI_ATTENTION_LAUNCH_MATH(name, shape)                               \
    if (p->head_size <= 32) {                                                \
        LSI_ATTENTION_LAUNCH_SIZE(lsi_##name##_32, shape<32>);         \
    }                                                                        \
    if (p->head_size <= 64) {                                                \
        LSI_ATTENTION_LAUNCH_SIZE(lsi_##name##_64, shape<64>);         \
    }                                                                        \
    if (p->head_size <= 128) {                                               \
        LSI_ATTENTION_LAUNCH_SIZE(lsi_##name##_128, shape<128>);       \
    }                                                                        \
    LSI_ATTENTION_LAUNCH_SIZE(lsi_##name##_256, shape<256>)
#define LSI_ATTENTION_LAUNCH_SIZE(kernel, shape)                                                        \
    do {                                                                                                \
        dim3 grid((unsigned)((p->context + shape::ROWS - 1) / shape::ROWS * p->n_heads), shape::PARTS); \
        cudaError_t allowed = lsi_attention_allow_shared((const void *)kernel, shape::BYTES);           \
        return allowed != cudaSuccess                                                                   \
                   ? allowed                                                                            \
                   : LAUNCH(kernel, grid, shape::THREADS, shape::BYTES, stream, *p);                    \
    } while (0)

#endif
