/* Attention on tensor cores, backward, first kernel: gradients of queries, and dot = y . dy for the second. A block of
 * threads has some queries, 16 to a warp, and walks over their keys and values. */
#include "kernels/cuda/attention_mma.h"

/* Up to heads of 64 there is room for a second tile of keys and values, which are fetched while the first ones are in
 * use. */
template <int D> struct dq_shape {
    enum {
        QUERIES = D <= 128 ? 64 : 32,
        ROWS = QUERIES,
        PARTS = 1,
        KEYS = D <= 128 ? 64 : 16,
        STAGES = D <= 64 ? 2 : 1,
        THREADS = QUERIES / LSI_ATTENTION_WARP_ROWS * WARP_SIZE,
        BYTES = (2 * QUERIES + 2 * STAGES * KEYS) * D * (int)sizeof(uint16_t)
    };
};

/* y . dy of the thread's two rows, whole in each lane of a quad: lane t takes every fourth chunk from t on. */
template <class Math, int D>
static __device__ __forceinline__ void multiply_outputs(const uint16_t *dy_tile, const uint16_t *y, int n,
                                                        const lsi_attention_problem &p, float dot[2])
{
    const int lane = (int)threadIdx.x % WARP_SIZE;

    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + 8 * half;
        float sum = 0.0f;

        for (int chunk = lane % 4; chunk < D / LSI_ATTENTION_CHUNK; chunk += 4) {
            int left = row < n ? p.head_size - chunk * LSI_ATTENTION_CHUNK : 0;
            const uint16_t *from = y + row * p.out_row + chunk * LSI_ATTENTION_CHUNK;
            lsi_raw<uint16_t, LSI_ATTENTION_CHUNK> a, b;

            lsi_get<uint16_t, LSI_ATTENTION_CHUNK>(dy_tile + lsi_attention_at<D>(row, chunk), &b);
            if (p.aligned && left > 0) {
                lsi_get<uint16_t, LSI_ATTENTION_CHUNK>(from, &a);
            } else {
                lsi_attention_pick(a.element, from, left);
            }
#pragma unroll
            for (int i = 0; i < LSI_ATTENTION_CHUNK; i++) {
                sum = fmaf(Math::widen(a.element[i]), Math::widen(b.element[i]), sum);
            }
        }
        sum += __shfl_xor_sync(FULL_MASK, sum, 1);
        dot[half] = sum + __shfl_xor_sync(FULL_MASK, sum, 2);
    }
}

/* Scores become gradients of the products of queries and keys, still to be scaled. lse: in units of log 2. */
template <int KEYS>
static __device__ __forceinline__ void differentiate(const float (*scores)[4], float (*gradients)[4], int query,
                                                     int key, const float lse[2], const float dot[2],
                                                     const lsi_attention_draw &draw, const lsi_attention_problem &p)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, row = query + lane / 4, column = key + lane % 4 * 2;
    const float scale = p.scale * LSI_ATTENTION_LOG2E;
    const bool masked = key + KEYS - 1 > query;     /* some query does not see some key */

#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
        unsigned keep = draw.threshold > 0 ? lsi_attention_keep_keys(draw, query, key + 8 * n) : 15;

#pragma unroll
        for (int i = 0; i < 4; i++) {
            float weight = exp2f(fmaf(scores[n][i], scale, -lse[i / 2]));
            float kept = keep >> i & 1 ? p.rule.scale : 0.0f;

            weight = masked && column + 8 * n + i % 2 > row + i / 2 * 8 ? 0.0f : weight;
            gradients[n][i] = weight * fmaf(gradients[n][i], kept, -dot[i / 2]);
        }
    }
}

template <class Math, int D>
static __device__ __forceinline__ void run(const lsi_attention_problem &p, uint16_t *q_tile)
{
    typedef dq_shape<D> shape;
    constexpr int QUERIES = shape::QUERIES, KEYS = shape::KEYS, STAGES = shape::STAGES, THREADS = shape::THREADS;
    const int n_blocks = (p.context + QUERIES - 1) / QUERIES, lane = (int)threadIdx.x % WARP_SIZE;
    const int own = (int)threadIdx.x / WARP_SIZE * LSI_ATTENTION_WARP_ROWS;
    const int query = (n_blocks - 1 - (int)blockIdx.x / p.n_heads) * QUERIES;       /* the longest first */
    const int n_keys = min(query + QUERIES, p.context);
    const lsi_attention_place place = lsi_attention_find(p, (int)blockIdx.x % p.n_heads);
    const lsi_attention_draw draw = lsi_attention_draw_of(p, place);
    const uint16_t *k = (const uint16_t *)p.qkv + place.k;      /* values are out_row behind keys */
    uint16_t *dy_tile = q_tile + QUERIES * D, *k_tiles = dy_tile + QUERIES * D;     /* keys, values, keys, values */
    float dq[D / 8][4], lse[2], dot[2];

#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        dq[n][0] = dq[n][1] = dq[n][2] = dq[n][3] = 0.0f;
    }
    lsi_attention_load<Math, D, QUERIES>(q_tile, (const uint16_t *)p.qkv + place.q + query * p.row, p.row,
                                         p.context - query, p, THREADS);
    lsi_attention_load<Math, D, QUERIES>(dy_tile, (const uint16_t *)p.dy + place.out + query * p.out_row, p.out_row,
                                         p.context - query, p, THREADS);
    lsi_attention_load<Math, D, KEYS>(k_tiles, k, p.row, n_keys, p, THREADS);
    lsi_attention_load<Math, D, KEYS>(k_tiles + KEYS * D, k + p.out_row, p.row, n_keys, p, THREADS);
    Math::wait();
    __syncthreads();    /* all tiles are there */
    multiply_outputs<Math, D>(dy_tile + own * D, (const uint16_t *)p.y + place.out + (query + own) * p.out_row,
                              p.context - query - own, p, dot);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = query + own + lane / 4 + 8 * half;

        lse[half] = row < p.context ? p.lse[place.lse + row] * LSI_ATTENTION_LOG2E : INFINITY;
        if (lane % 4 == 0 && row < p.context) {
            p.dot[place.dot + row] = dot[half];
        }
    }

    for (int key = 0; key < n_keys; key += KEYS) {
        uint16_t *k_tile = k_tiles + (STAGES > 1 ? key / KEYS % 2 * 2 * KEYS * D : 0), *v_tile = k_tile + KEYS * D;
        uint16_t *k_next = k_tiles + (STAGES > 1 ? (key / KEYS + 1) % 2 * 2 * KEYS * D : 0);
        const int next = key + KEYS;
        float scores[KEYS / 8][4], gradients[KEYS / 8][4];
        uint32_t factors[KEYS / 16][4];

        if (STAGES > 1 && next < n_keys) {
            const uint16_t *from = k + next * p.row;

            lsi_attention_load<Math, D, KEYS>(k_next, from, p.row, n_keys - next, p, THREADS);
            lsi_attention_load<Math, D, KEYS>(k_next + KEYS * D, from + p.out_row, p.row, n_keys - next, p, THREADS);
        }
        lsi_attention_score<Math, D, KEYS>(q_tile + own * D, k_tile, scores);
        lsi_attention_score<Math, D, KEYS>(dy_tile + own * D, v_tile, gradients);
        differentiate<KEYS>(scores, gradients, query + own, key, lse, dot, draw, p);
        lsi_attention_round<Math, KEYS>(gradients, factors);
        lsi_attention_add<Math, D, KEYS, D>(factors, k_tile, 0, dq);
        if (STAGES == 1) {
            __syncthreads();    /* no warp needs these tiles */
            if (next < n_keys) {
                const uint16_t *from = k + next * p.row;

                lsi_attention_load<Math, D, KEYS>(k_tile, from, p.row, n_keys - next, p, THREADS);
                lsi_attention_load<Math, D, KEYS>(v_tile, from + p.out_row, p.row, n_keys - next, p, THREADS);
            }
        }
        Math::wait();
        __syncthreads();    /* the next tiles are there, and no warp needs these */
    }
    const float factor[2] = {p.scale, p.scale};
    lsi_attention_finish<Math, D, D>(dq, factor, q_tile + own * D, 0,
                                     (uint16_t *)p.out + place.q + (query + own) * p.row, p.row,
                                     p.context - query - own, p);
}

template <class Math, int D>
static __device__ __forceinline__ void start(const lsi_attention_problem &p, uint16_t *shared)
{
    if constexpr (Math::HERE) {
        run<Math, D>(p, shared);
    } else {
        __trap();
    }
}

#define KERNEL(math, size)                                                                          \
    extern "C" __global__ void __launch_bounds__(dq_shape<size>::THREADS,                       \
                                                 lsi_attention_blocks<lsi_attention_##math, size>()) \
        lsi_attention_dq_##math##_##size(lsi_attention_problem p)                                   \
    {                                                                                               \
        DYN_SHARED(uint16_t, shared);                                                               \
        start<lsi_attention_##math, size>(p, shared);                                               \
    }
LSI_ATTENTION_MATHS(KERNEL)

extern "C" cudaError_t lsi_attention_mma_dq(const lsi_attention_problem *p, lsi_attention_path path,
                                            cudaStream_t stream)
{
    LSI_ATTENTION_LAUNCH(attention_dq, dq_shape);
}
