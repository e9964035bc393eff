/* Attention on tensor cores, backward, second kernel: gradients of keys and values. A block of threads has some keys,
 * 16 to a warp, and walks over the queries that see them; scores are those of the first kernel, transposed. */
#include "kernels/cuda/attention_mma.h"

/* Up to heads of 64 there is room for a second tile of queries and output gradients, which are fetched while the first
 * ones are in use. A thread has registers for sums of 128 columns of both gradients: beyond that, blocks share out the
 * columns and make the same probabilities each. */
template <int D> struct dkv_shape {
    enum {
        KEYS = D <= 128 ? 64 : 32,
        QUERIES = D <= 64 ? 64 : D <= 128 ? 32 : 16,
        OUT = D <= 128 ? D : 128,
        PARTS = D / OUT,
        STAGES = D <= 64 ? 2 : 1,
        ROWS = KEYS,
        THREADS = KEYS / LSI_ATTENTION_WARP_ROWS * WARP_SIZE,
        BLOCKS = D <= 64 ? 2 : 1,    /* per multiprocessor, that there are registers for */
        TILES = (2 * KEYS + 2 * STAGES * QUERIES) * D * (int)sizeof(uint16_t),
        BYTES = TILES + 2 * STAGES * QUERIES * (int)sizeof(float)
    };
};

/* A tile of queries and what belongs to it. */
struct query_tile {
    uint16_t *q, *dy;
    float *lse, *dot;       /* lse in units of log 2 */
};

template <int D> static __device__ __forceinline__ query_tile tile_of(uint16_t *tiles, float *terms, int stage)
{
    constexpr int QUERIES = dkv_shape<D>::QUERIES;
    query_tile t;

    t.q = tiles + stage * 2 * QUERIES * D;
    t.dy = t.q + QUERIES * D;
    t.lse = terms + stage * 2 * QUERIES;
    t.dot = t.lse + QUERIES;
    return t;
}

/* Queries from `query` on. Those beyond the last get an lse with which all their probabilities are 0. */
template <class Math, int D>
static __device__ __forceinline__ void load_queries(const query_tile &tile, int query, const lsi_attention_place &place,
                                                    const lsi_attention_problem &p)
{
    constexpr int QUERIES = dkv_shape<D>::QUERIES, THREADS = dkv_shape<D>::THREADS;
    const uint16_t *q = (const uint16_t *)p.qkv + place.q, *dy = (const uint16_t *)p.dy + place.out;

    lsi_attention_load<Math, D, QUERIES>(tile.q, q + query * p.row, p.row, p.context - query, p, THREADS);
    lsi_attention_load<Math, D, QUERIES>(tile.dy, dy + query * p.out_row, p.out_row, p.context - query, p, THREADS);
    for (int i = (int)threadIdx.x; i < QUERIES; i += THREADS) {
        bool there = query + i < p.context;

        tile.lse[i] = there ? p.lse[place.lse + query + i] * LSI_ATTENTION_LOG2E : INFINITY;
        tile.dot[i] = there ? p.dot[place.dot + query + i] : 0.0f;
    }
}

/* Scores become the probabilities as the forward used them, but for the factor of dropout; gradients of those become
 * gradients of the products of queries and keys, still to be scaled. Rows are keys, columns queries. */
template <int QUERIES>
static __device__ __forceinline__ void differentiate(float (*scores)[4], float (*gradients)[4], int query, int key,
                                                     const query_tile &tile, const lsi_attention_draw &draw,
                                                     const lsi_attention_problem &p)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, row = key + lane / 4;
    const float scale = p.scale * LSI_ATTENTION_LOG2E;
    const bool masked = key + LSI_ATTENTION_WARP_ROWS - 1 > query;      /* some query does not see some key */

#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++) {
        const int column = 8 * n + lane % 4 * 2;
        unsigned keep = draw.threshold > 0 ? lsi_attention_keep_queries(draw, query + 8 * n, key) : 15;

#pragma unroll
        for (int i = 0; i < 4; i++) {
            float weight = exp2f(fmaf(scores[n][i], scale, -tile.lse[column + i % 2]));
            bool kept = keep >> i & 1;

            weight = masked && row + i / 2 * 8 > query + column + i % 2 ? 0.0f : weight;
            scores[n][i] = kept ? weight : 0.0f;
            gradients[n][i] = weight * fmaf(gradients[n][i], kept ? p.rule.scale : 0.0f, -tile.dot[column + i % 2]);
        }
    }
}

template <class Math, int D>
static __device__ __forceinline__ void run(const lsi_attention_problem &p, uint16_t *k_tile)
{
    typedef dkv_shape<D> shape;
    constexpr int KEYS = shape::KEYS, QUERIES = shape::QUERIES, OUT = shape::OUT, STAGES = shape::STAGES;
    const int own = (int)threadIdx.x / WARP_SIZE * LSI_ATTENTION_WARP_ROWS, first = (int)blockIdx.y * OUT / 8;
    const int key = (int)blockIdx.x / p.n_heads * KEYS;     /* the first keys meet the most queries */
    const lsi_attention_place place = lsi_attention_find(p, (int)blockIdx.x % p.n_heads);
    const lsi_attention_draw draw = lsi_attention_draw_of(p, place);
    const uint16_t *k = (const uint16_t *)p.qkv + place.k, *v = (const uint16_t *)p.qkv + place.v;
    uint16_t *v_tile = k_tile + KEYS * D, *tiles = v_tile + KEYS * D;
    float *terms = (float *)(void *)(k_tile + shape::TILES / (int)sizeof(uint16_t));
    float dk[OUT / 8][4], dv[OUT / 8][4];

#pragma unroll
    for (int n = 0; n < OUT / 8; n++) {
        dk[n][0] = dk[n][1] = dk[n][2] = dk[n][3] = 0.0f;
        dv[n][0] = dv[n][1] = dv[n][2] = dv[n][3] = 0.0f;
    }
    lsi_attention_load<Math, D, KEYS>(k_tile, k + key * p.row, p.row, p.context - key, p, shape::THREADS);
    lsi_attention_load<Math, D, KEYS>(v_tile, v + key * p.row, p.row, p.context - key, p, shape::THREADS);
    load_queries<Math, D>(tile_of<D>(tiles, terms, 0), key, place, p);
    Math::wait();
    __syncthreads();    /* all tiles are there */

    for (int query = key, stage = 0; query < p.context; query += QUERIES, stage = STAGES > 1 ? 1 - stage : 0) {
        const query_tile tile = tile_of<D>(tiles, terms, stage);
        float scores[QUERIES / 8][4], gradients[QUERIES / 8][4];
        uint32_t factors[QUERIES / 16][4];

        if (STAGES > 1 && query + QUERIES < p.context) {
            load_queries<Math, D>(tile_of<D>(tiles, terms, 1 - stage), query + QUERIES, place, p);
        }
        lsi_attention_score<Math, D, QUERIES>(k_tile + own * D, tile.q, scores);
        lsi_attention_score<Math, D, QUERIES>(v_tile + own * D, tile.dy, gradients);
        differentiate<QUERIES>(scores, gradients, query, key + own, tile, draw, p);
        lsi_attention_round<Math, QUERIES>(scores, factors);
        lsi_attention_add<Math, D, QUERIES, OUT>(factors, tile.dy, first, dv);
        lsi_attention_round<Math, QUERIES>(gradients, factors);
        lsi_attention_add<Math, D, QUERIES, OUT>(factors, tile.q, first, dk);
        if (STAGES == 1) {
            __syncthreads();    /* no warp needs these tiles */
            if (query + QUERIES < p.context) {
                load_queries<Math, D>(tile, query + QUERIES, place, p);
            }
        }
        Math::wait();
        __syncthreads();    /* the next tiles are there, and no warp needs these */
    }
    const float k_factor[2] = {p.scale, p.scale}, v_factor[2] = {p.rule.scale, p.rule.scale};
    uint16_t *out = (uint16_t *)p.out + (key + own) * p.row;
    lsi_attention_finish<Math, D, OUT>(dk, k_factor, k_tile + own * D, first, out + place.k, p.row,
                                       p.context - key - own, p);
    lsi_attention_finish<Math, D, OUT>(dv, v_factor, v_tile + own * D, first, out + place.v, p.row,
                                       p.context - key - own, p);
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

#define KERNEL(math, size)                                                                                    \
    extern "C" __global__ void __launch_bounds__(dkv_shape<size>::THREADS, dkv_shape<size>::BLOCKS)           \
        lsi_attention_dkv_##math##_##size(lsi_attention_problem p)                                            \
    {                                                                                                         \
        DYN_SHARED(uint16_t, shared);                                                                         \
        start<lsi_attention_##math, size>(p, shared);                                                         \
    }
LSI_ATTENTION_MATHS(KERNEL)

extern "C" cudaError_t lsi_attention_mma_dkv(const lsi_attention_problem *p, lsi_attention_path path,
                                             cudaStream_t stream)
{
    LSI_ATTENTION_LAUNCH(attention_dkv, dkv_shape);
}
