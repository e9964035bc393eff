/* Attention in plain f32 arithmetic, forward: a block of threads has some queries and walks over their keys. */
#include "kernels/cuda/attention_plain.h"

template <int D> struct shape_of {
    enum {
        OWN = lsi_plain_forward_shape<D>::OWN,
        STREAMED = lsi_plain_forward_shape<D>::STREAMED,
        FLOATS = (OWN + 2 * STREAMED) * lsi_plain_pitch<D>() + OWN * lsi_plain_score_pitch(STREAMED),
        BYTES = FLOATS * (int)sizeof(float) + OWN * STREAMED / 4
    };
};

/* Of one row: the largest scaled score so far, the sum of e^(score - largest); the same in all 8 threads of the row. */
struct running_softmax {
    float largest, sum;
};

/* Scores to e^(scaled score - largest), summed, then dropped. Evaluates to what the sums so far are to be multiplied
 * with. `first`: the first of the row's scores that the query does not see. */
template <int N>
static __device__ __forceinline__ float exponentiate(float *scores, int first, float scale, running_softmax *s)
{
    float largest = -INFINITY, sum = 0.0f;

#pragma unroll
    for (int c = 0; c < N; c++) {
        scores[c] = lsi_plain_x() + c * LSI_PLAIN_X < first ? scores[c] * scale : -INFINITY;
        largest = fmaxf(largest, scores[c]);
    }
#pragma unroll
    for (int distance = 1; distance < LSI_PLAIN_X; distance *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(FULL_MASK, largest, distance));
    }
    largest = fmaxf(s->largest, largest);
#pragma unroll
    for (int c = 0; c < N; c++) {
        scores[c] = lsi_exp(scores[c] - largest);
        sum += scores[c];
    }
#pragma unroll
    for (int distance = 1; distance < LSI_PLAIN_X; distance *= 2) {
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    }
    float rescale = lsi_exp(s->largest - largest);
    s->largest = largest;
    s->sum = fmaf(s->sum, rescale, sum);
    return rescale;
}

template <typename T, int D>
static __device__ __forceinline__ void run(const lsi_attention_problem &p, float *q_tile)
{
    typedef shape_of<D> shape;
    constexpr int OWN = shape::OWN, STREAMED = shape::STREAMED, R = OWN / LSI_PLAIN_Y, C = STREAMED / LSI_PLAIN_X;
    const int n_blocks = (p.context + OWN - 1) / OWN;
    const int query = (n_blocks - 1 - (int)blockIdx.x / p.n_heads) * OWN;       /* the longest first */
    const int n_keys = min(query + OWN, p.context);
    const lsi_attention_place place = lsi_attention_find(p, (int)blockIdx.x % p.n_heads);
    const lsi_attention_draw draw = lsi_attention_draw_of(p, place);
    const T *qkv = (const T *)p.qkv;
    float *k_tile = q_tile + OWN * lsi_plain_pitch<D>(), *v_tile = k_tile + STREAMED * lsi_plain_pitch<D>();
    float *shared_scores = v_tile + STREAMED * lsi_plain_pitch<D>();
    unsigned char *keep = (unsigned char *)(q_tile + shape::FLOATS);
    running_softmax softmax[R];
    float out[R][D / LSI_PLAIN_X], factor[R];

    lsi_plain_clear<D, OWN>(out);
#pragma unroll
    for (int r = 0; r < R; r++) {
        softmax[r].largest = -INFINITY;
        softmax[r].sum = 0.0f;
    }
    lsi_plain_load<T, D, OWN>(q_tile, qkv + place.q + query * p.row, p.row, p.context - query, p.head_size);
    for (int key = 0; key < n_keys; key += STREAMED) {
        float scores[R][C];

        __syncthreads();    /* no warp needs the tiles before */
        lsi_plain_load<T, D, STREAMED>(k_tile, qkv + place.k + key * p.row, p.row, n_keys - key, p.head_size);
        lsi_plain_load<T, D, STREAMED>(v_tile, qkv + place.v + key * p.row, p.row, n_keys - key, p.head_size);
        lsi_plain_draw<OWN, STREAMED>(keep, draw, query, key);
        __syncthreads();    /* all tiles are there */
        lsi_plain_score<D, OWN, STREAMED>(q_tile, k_tile, p.head_size, scores);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int row = lsi_plain_y() + r * LSI_PLAIN_Y;
            float rescale = exponentiate<C>(scores[r], query + row - key + 1, p.scale, &softmax[r]);

#pragma unroll
            for (int n = 0; n < D / LSI_PLAIN_X; n++) {
                out[r][n] *= rescale;
            }
#pragma unroll
            for (int c = 0; c < C; c++) {
                bool kept = lsi_plain_is_kept<STREAMED>(keep, draw, row, lsi_plain_x() + c * LSI_PLAIN_X);
                scores[r][c] = kept ? scores[r][c] : 0.0f;
            }
        }
        lsi_plain_share<OWN, STREAMED>(scores, shared_scores);
        __syncwarp();
        lsi_plain_add<D, OWN, STREAMED>(shared_scores, v_tile, out);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        int row = query + lsi_plain_y() + r * LSI_PLAIN_Y;

        factor[r] = p.rule.scale / softmax[r].sum;
        if (lsi_plain_x() == 0 && row < p.context) {
            p.lse[place.lse + row] = softmax[r].largest + lsi_log(softmax[r].sum);
        }
    }
    lsi_plain_store<T, D, OWN>(out, factor, (T *)p.out + place.out + query * p.out_row, p.out_row, p.context - query,
                               p.head_size);
}

#define KERNEL(suffix, type, size)                                                                \
    extern "C" __global__ void __launch_bounds__(LSI_PLAIN_THREADS, 2)                            \
        lsi_attention_plain_fwd_##suffix##_##size(lsi_attention_problem p)                        \
    {                                                                                             \
        DYN_SHARED(float, shared);                                                                \
        run<type, size>(p, shared);                                                             \
    }
LSI_PLAIN_KERNELS(KERNEL)

extern "C" cudaError_t lsi_attention_plain_fwd(const lsi_attention_problem *p, lsi_attention_path path,
                                               cudaStream_t stream)
{
    LSI_PLAIN_LAUNCH(attention_plain_fwd, shape_of);
}
