/* Attention on tensor cores, forward. A block of threads has 64 queries, 16 to a warp, and walks over their keys. Keys
 * of the next tile are fetched while the values of this one are multiplied, values while scores are made. */
#include "kernels/cuda/attention_mma.h"

#include "kernels/math.h"

enum { QUERIES = 64 };

template <int D> struct forward_shape {
    enum {
        ROWS = QUERIES,
        PARTS = 1,
        KEYS = D <= 128 ? 64 : 16,
        THREADS = QUERIES / LSI_ATTENTION_WARP_ROWS * WARP_SIZE,
        BYTES = (QUERIES + 2 * KEYS) * D * (int)sizeof(uint16_t)
    };
};

/* Of the thread's two rows, in units of log 2: the largest scaled score so far; and the thread's part of the sum of
 * 2^(score - largest). */
struct running_softmax {
    float largest[2], sum[2];
};

/* Scores to 2^(scaled score - largest); rescale = what everything summed so far is to be multiplied with. Rows are
 * queries from `query` on, columns keys from `key` on. */
template <int KEYS>
static __device__ __forceinline__ void exponentiate(float (*scores)[4], int query, int key, float scale,
                                                    running_softmax *s, float rescale[2])
{
    const int lane = (int)threadIdx.x % WARP_SIZE, row = query + lane / 4, column = key + lane % 4 * 2;
    float largest[2] = {-INFINITY, -INFINITY};

    if (key + KEYS - 1 > query) {       /* some query does not see some key */
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                scores[n][i] = column + 8 * n + i % 2 > row + i / 2 * 8 ? -INFINITY : scores[n][i];
            }
        }
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            largest[i / 2] = fmaxf(largest[i / 2], scores[n][i]);
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(FULL_MASK, largest[half], 1));
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(FULL_MASK, largest[half], 2));
        largest[half] = fmaxf(s->largest[half], largest[half] * scale);
        rescale[half] = exp2f(s->largest[half] - largest[half]);
        s->largest[half] = largest[half];
        s->sum[half] *= rescale[half];
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[n][i] = exp2f(fmaf(scores[n][i], scale, -largest[i / 2]));
            s->sum[i / 2] += scores[n][i];
        }
    }
}

template <int KEYS>
static __device__ __forceinline__ void drop(float (*scores)[4], const lsi_attention_draw &draw, int query, int key)
{
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
        unsigned keep = lsi_attention_keep_keys(draw, query, key + 8 * n);

#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[n][i] = keep >> i & 1 ? scores[n][i] : 0.0f;
        }
    }
}

/* Output and lse of the warp's rows. */
template <class Math, int D>
static __device__ __forceinline__ void finish(const float (*out)[4], const running_softmax &s, uint16_t *tile,
                                              const lsi_attention_place &place, int query,
                                              const lsi_attention_problem &p)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    float factor[2];

#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = query + lane / 4 + 8 * half;
        float sum = s.sum[half] + __shfl_xor_sync(FULL_MASK, s.sum[half], 1);

        sum += __shfl_xor_sync(FULL_MASK, sum, 2);
        factor[half] = p.rule.scale / sum;
        if (lane % 4 == 0 && row < p.context) {
            p.lse[place.lse + row] = fmaf(s.largest[half], LSI_ATTENTION_LN2, lsi_log(sum));
        }
    }
    lsi_attention_finish<Math, D, D>(out, factor, tile, 0, (uint16_t *)p.out + place.out + query * p.out_row,
                                     p.out_row, p.context - query, p);
}

template <class Math, int D>
static __device__ __forceinline__ void run(const lsi_attention_problem &p, uint16_t *q_tile)
{
    constexpr int KEYS = forward_shape<D>::KEYS, THREADS = forward_shape<D>::THREADS;
    const int n_blocks = (p.context + QUERIES - 1) / QUERIES;
    const int own = (int)threadIdx.x / WARP_SIZE * LSI_ATTENTION_WARP_ROWS;
    const int query = (n_blocks - 1 - (int)blockIdx.x / p.n_heads) * QUERIES;       /* the longest first */
    const int n_keys = min(query + QUERIES, p.context);
    const lsi_attention_place place = lsi_attention_find(p, (int)blockIdx.x % p.n_heads);
    const lsi_attention_draw draw = lsi_attention_draw_of(p, place);
    const uint16_t *q = (const uint16_t *)p.qkv + place.q, *k = (const uint16_t *)p.qkv + place.k;
    const uint16_t *v = (const uint16_t *)p.qkv + place.v;
    uint16_t *k_tile = q_tile + QUERIES * D, *v_tile = k_tile + KEYS * D;
    running_softmax softmax = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    float out[D / 8][4], scale = p.scale * LSI_ATTENTION_LOG2E;

#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        out[n][0] = out[n][1] = out[n][2] = out[n][3] = 0.0f;
    }
    lsi_attention_load<Math, D, QUERIES>(q_tile, q + query * p.row, p.row, p.context - query, p, THREADS);
    lsi_attention_load<Math, D, KEYS>(k_tile, k, p.row, n_keys, p, THREADS);
    for (int key = 0; key < n_keys; key += KEYS) {
        float scores[KEYS / 8][4], rescale[2];
        uint32_t factors[KEYS / 16][4];

        Math::wait();
        __syncthreads();    /* the keys are there, and no warp needs the values before */
        lsi_attention_load<Math, D, KEYS>(v_tile, v + key * p.row, p.row, n_keys - key, p, THREADS);
        lsi_attention_score<Math, D, KEYS>(q_tile + own * D, k_tile, scores);
        Math::wait();
        __syncthreads();    /* the values are there, and no warp needs these keys */
        if (key + KEYS < n_keys) {
            const int next = key + KEYS;

            lsi_attention_load<Math, D, KEYS>(k_tile, k + next * p.row, p.row, n_keys - next, p, THREADS);
        }
        exponentiate<KEYS>(scores, query + own, key, scale, &softmax, rescale);
        if (draw.threshold > 0) {
            drop<KEYS>(scores, draw, query + own, key);
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            out[n][0] *= rescale[0];
            out[n][1] *= rescale[0];
            out[n][2] *= rescale[1];
            out[n][3] *= rescale[1];
        }
        lsi_attention_round<Math, KEYS>(scores, factors);
        lsi_attention_add<Math, D, KEYS, D>(factors, v_tile, 0, out);
    }
    finish<Math, D>(out, softmax, q_tile + own * D, place, query + own, p);
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
    extern "C" __global__ void __launch_bounds__(forward_shape<size>::THREADS,                  \
                                                 lsi_attention_blocks<lsi_attention_##math, size>()) \
        lsi_attention_fwd_##math##_##size(lsi_attention_problem p)                                  \
    {                                                                                               \
        DYN_SHARED(uint16_t, shared);                                                               \
        start<lsi_attention_##math, size>(p, shared);                                               \
    }
LSI_ATTENTION_MATHS(KERNEL)

extern "C" cudaError_t lsi_attention_mma_fwd(const lsi_attention_problem *p, lsi_attention_path path,
                                             cudaStream_t stream)
{
    LSI_ATTENTION_LAUNCH(attention_fwd, forward_shape);
}
