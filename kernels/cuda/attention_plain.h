/* Attention in plain f32 arithmetic, for f32 and, where tensor cores do not take it, f16: tiles of rows in shared
 * memory, widened when they are loaded.
 *
 * 128 threads, 8 to a row: thread (y, x) has rows y, y + 16, .. of the block's own tile and meets rows x, x + 8, .. of
 * a streamed tile with them. The 8 threads of a row are in one warp; what they tell each other (scores) goes through
 * shared memory with no barrier of the block. Of a sum over rows, thread x has columns 4x .. 4x + 3 of every 32. */
#ifndef LSI_KERNELS_CUDA_ATTENTION_PLAIN_H
#define LSI_KERNELS_CUDA_ATTENTION_PLAIN_H

#include "kernels/cuda/launch.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/vector.h"
#include "kernels/math.h"

enum { LSI_PLAIN_X = 8, LSI_PLAIN_Y = 16, LSI_PLAIN_THREADS = LSI_PLAIN_X * LSI_PLAIN_Y };

/* A block's own rows and the rows of a streamed tile, for heads of up to D elements: as many as 48 to 64 KiB of shared
 * memory have room for. A thread has OWN / 16 x STREAMED / 8 scores. */
template <int D> struct lsi_plain_forward_shape {
    enum { OWN = D <= 128 ? 32 : 16, STREAMED = D <= 128 ? 32 : 16 };
};
template <int D> struct lsi_plain_backward_shape {
    enum { OWN = D <= 128 ? 32 : 16, STREAMED = D <= 64 ? 32 : D <= 128 ? 16 : 8 };
};

/* Floats from one row of a tile to the next: rows x, x + 1, .. begin in different banks. */
template <int D> static __host__ __device__ constexpr int lsi_plain_pitch(void)
{
    return D + 4;
}
static __host__ __device__ constexpr int lsi_plain_score_pitch(int streamed)
{
    return streamed + 1;
}

static __device__ __forceinline__ int lsi_plain_x(void)
{
    return (int)threadIdx.x % LSI_PLAIN_X;
}

static __device__ __forceinline__ int lsi_plain_y(void)
{
    return (int)threadIdx.x / LSI_PLAIN_X;
}

/* n rows, `step` elements apart, to a tile of ROWS; the rest is zero. There after a barrier. */
template <typename T, int D, int ROWS>
static __device__ __forceinline__ void lsi_plain_load(float *tile, const T *rows, int64_t step, int n, int head_size)
{
    for (int i = (int)threadIdx.x; i < ROWS * D / 4; i += LSI_PLAIN_THREADS) {
        int row = i / (D / 4), column = i % (D / 4) * 4;

        lsi_read<T, 4>(rows + row * step + column, row < n ? head_size - column : 0,
                       tile + row * lsi_plain_pitch<D>() + column);
    }
}

/* Which queries keep which keys, bit i of keep[query][quad] for key 4 * quad + i. There after a barrier. */
template <int QUERIES, int KEYS>
static __device__ __forceinline__ void lsi_plain_draw(unsigned char *keep, const lsi_attention_draw &draw, int query,
                                                      int key)
{
    if (draw.threshold == 0) {
        return;
    }
    for (int i = (int)threadIdx.x; i < QUERIES * (KEYS / 4); i += LSI_PLAIN_THREADS) {
        keep[i] = (unsigned char)lsi_attention_keep(draw, query + i / (KEYS / 4), key / 4 + i % (KEYS / 4));
    }
}

template <int KEYS>
static __device__ __forceinline__ bool lsi_plain_is_kept(const unsigned char *keep, const lsi_attention_draw &draw,
                                                         int query, int key)
{
    return draw.threshold == 0 || (keep[query * (KEYS / 4) + key / 4] >> key % 4 & 1) != 0;
}

/* sums[r][c] = own row y + 16 r times streamed row x + 8 c. */
template <int D, int OWN, int STREAMED>
static __device__ __forceinline__ void lsi_plain_score(const float *own, const float *streamed, int head_size,
                                                       float (*sums)[STREAMED / LSI_PLAIN_X])
{
    const float *a = own + lsi_plain_y() * lsi_plain_pitch<D>(), *b = streamed + lsi_plain_x() * lsi_plain_pitch<D>();

#pragma unroll
    for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
#pragma unroll
        for (int c = 0; c < STREAMED / LSI_PLAIN_X; c++) {
            sums[r][c] = 0.0f;
        }
    }
#pragma unroll 2
    for (int k = 0; k < head_size; k += 4) {
        float4 left[OWN / LSI_PLAIN_Y], right;

#pragma unroll
        for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
            left[r] = *(const float4 *)(const void *)(a + r * LSI_PLAIN_Y * lsi_plain_pitch<D>() + k);
        }
#pragma unroll
        for (int c = 0; c < STREAMED / LSI_PLAIN_X; c++) {
            right = *(const float4 *)(const void *)(b + c * LSI_PLAIN_X * lsi_plain_pitch<D>() + k);
#pragma unroll
            for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
                float sum = fmaf(left[r].x, right.x, sums[r][c]);

                sum = fmaf(left[r].y, right.y, sum);
                sum = fmaf(left[r].z, right.z, sum);
                sums[r][c] = fmaf(left[r].w, right.w, sum);
            }
        }
    }
}

/* The thread's scores to shared memory, where the others of its rows find them after __syncwarp. */
template <int OWN, int STREAMED>
static __device__ __forceinline__ void lsi_plain_share(const float (*sums)[STREAMED / LSI_PLAIN_X], float *scores)
{
#pragma unroll
    for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
#pragma unroll
        for (int c = 0; c < STREAMED / LSI_PLAIN_X; c++) {
            scores[(lsi_plain_y() + r * LSI_PLAIN_Y) * lsi_plain_score_pitch(STREAMED) + lsi_plain_x() +
                   c * LSI_PLAIN_X] = sums[r][c];
        }
    }
}

/* out[r] += scores of own row y + 16 r times the streamed rows. */
template <int D, int OWN, int STREAMED>
static __device__ __forceinline__ void lsi_plain_add(const float *scores, const float *streamed,
                                                     float (*out)[D / LSI_PLAIN_X])
{
#pragma unroll 2
    for (int k = 0; k < STREAMED; k++) {
#pragma unroll
        for (int n = 0; n < D / 32; n++) {
            const float *row = streamed + k * lsi_plain_pitch<D>();
            float4 b = *(const float4 *)(const void *)(row + 4 * lsi_plain_x() + 32 * n);

#pragma unroll
            for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
                float a = scores[(lsi_plain_y() + r * LSI_PLAIN_Y) * lsi_plain_score_pitch(STREAMED) + k];
                float *sum = out[r] + 4 * n;

                sum[0] = fmaf(a, b.x, sum[0]);
                sum[1] = fmaf(a, b.y, sum[1]);
                sum[2] = fmaf(a, b.z, sum[2]);
                sum[3] = fmaf(a, b.w, sum[3]);
            }
        }
    }
}

template <int D, int OWN> static __device__ __forceinline__ void lsi_plain_clear(float (*out)[D / LSI_PLAIN_X])
{
#pragma unroll
    for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
#pragma unroll
        for (int n = 0; n < D / LSI_PLAIN_X; n++) {
            out[r][n] = 0.0f;
        }
    }
}

/* The thread's sums, times a factor per row, to n rows `step` elements apart. */
template <typename T, int D, int OWN>
static __device__ __forceinline__ void lsi_plain_store(float (*out)[D / LSI_PLAIN_X], const float *factor, T *rows,
                                                       int64_t step, int n, int head_size)
{
#pragma unroll
    for (int r = 0; r < OWN / LSI_PLAIN_Y; r++) {
        int row = lsi_plain_y() + r * LSI_PLAIN_Y;

#pragma unroll
        for (int i = 0; i < D / 32; i++) {
            int column = 4 * lsi_plain_x() + 32 * i, left = row < n ? head_size - column : 0;

#pragma unroll
            for (int e = 0; e < 4; e++) {
                out[r][4 * i + e] *= factor[r];
            }
            if (left > 0) {
                lsi_write<T, 4>(rows + row * step + column, left, out[r] + 4 * i);
            }
        }
    }
}

/* ---- launches ------------------------------------------------------------------------------------------------ */

/* Kernels of one name: suffix, type, largest head. */
#define LSI_PLAIN_KERNELS(X) \
    X(f32, float, 64) X(f32, float, 128) X(f32, float, 256) X(f16, __half, 64) X(f16, __half, 128) X(f16, __half, 256)

/* Body of a launcher: starts lsi_NAME_TYPE_SIZE with what SHAPE<SIZE> says, and returns. */
#define LSI_PLAIN_LAUNCH(name, shape)                                   \
    do {                                                                \
        if (path == LSI_ATTENTION_F32) {                                \
            LSI_PLAIN_LAUNCH_TYPE(name##_f32, shape);                   \
        }                                                               \
        LSI_PLAIN_LAUNCH_TYPE(name##_f16, shape);                       \
    } while (0)
#define LSI_PLAIN_LAUNCH_TYPE(name, shape)                              \
    if (p->head_size <= 64) {                                           \
        LSI_PLAIN_LAUNCH_SIZE(lsi_##name##_64, shape<64>);              \
    }                                                                   \
    if (p->head_size <= 128) {                                          \
        LSI_PLAIN_LAUNCH_SIZE(lsi_##name##_128, shape<128>);            \
    }                                                                   \
    LSI_PLAIN_LAUNCH_SIZE(lsi_##name##_256, shape<256>)
#define LSI_PLAIN_LAUNCH_SIZE(kernel, shape)                                                                  \
    do {                                                                                                      \
        unsigned grid = (unsigned)((p->context + shape::OWN - 1) / shape::OWN * p->n_heads);                  \
        cudaError_t allowed = lsi_attention_allow_shared((const void *)kernel, shape::BYTES);                 \
        return allowed != cudaSuccess ? allowed                                                               \
                                      : LAUNCH(kernel, grid, LSI_PLAIN_THREADS, shape::BYTES, stream, *p);    \
    } while (0)

#endif
