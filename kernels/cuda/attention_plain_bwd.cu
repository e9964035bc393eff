/* Attention in plain f32 arithmetic, backward: two kernels of one make. The first one has queries and output gradients
 * as its own rows and meets keys and values with them; the second has keys and values and meets queries. */
#include "kernels/cuda/attention_plain.h"

template <int D> struct shape_of {
    enum {
        OWN = lsi_plain_backward_shape<D>::OWN,
        STREAMED = lsi_plain_backward_shape<D>::STREAMED,
        TILES = 2 * (OWN + STREAMED) * lsi_plain_pitch<D>(),
        SCORES = OWN * lsi_plain_score_pitch(STREAMED),
        FLOATS = TILES + 2 * SCORES + 2 * STREAMED,
        BYTES = FLOATS * (int)sizeof(float) + OWN * STREAMED / 4
    };
};

/* The block's shared memory. */
template <int D> struct block_memory {
    float *own[2], *streamed[2];        /* q and dy, k and v; or k and v, q and dy */
    float *weights, *gradients;
    float *lse, *dot;                   /* of streamed queries */
    unsigned char *keep;

    __device__ explicit block_memory(float *shared)
    {
        typedef shape_of<D> shape;
        own[0] = shared;
        own[1] = own[0] + shape::OWN * lsi_plain_pitch<D>();
        streamed[0] = own[1] + shape::OWN * lsi_plain_pitch<D>();
        streamed[1] = streamed[0] + shape::STREAMED * lsi_plain_pitch<D>();
        weights = shared + shape::TILES;
        gradients = weights + shape::SCORES;
        lse = gradients + shape::SCORES;
        dot = lse + shape::STREAMED;
        keep = (unsigned char *)(shared + shape::FLOATS);
    }
};

/* A score becomes the probability as the forward used it, the gradient of that the gradient of the dot product of query
 * and key. */
static __device__ __forceinline__ void differentiate(const lsi_attention_problem &p, bool seen, bool kept, float lse,
                                                     float dot, float *score, float *gradient)
{
    float weight = seen ? lsi_exp(*score * p.scale - lse) : 0.0f, keep_scale = kept ? p.rule.scale : 0.0f;

    *score = weight * keep_scale;
    *gradient = weight * (*gradient * keep_scale - dot) * p.scale;
}

/* ---- gradients of queries ------------------------------------------------------------------------------------ */

/* y . dy of a row of the tile, the same in all 8 threads of the row. */
template <typename T, int D>
static __device__ __forceinline__ float multiply_outputs(const float *dy, const T *y, bool there, int head_size)
{
    float sum = 0.0f;

#pragma unroll
    for (int i = 0; i < D / 32; i++) {
        int column = 4 * lsi_plain_x() + 32 * i;
        float values[4];

        lsi_read<T, 4>(y + column, there ? head_size - column : 0, values);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum = fmaf(values[e], dy[column + e], sum);
        }
    }
#pragma unroll
    for (int distance = 1; distance < LSI_PLAIN_X; distance *= 2) {
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    }
    return sum;
}

template <typename T, int D>
static __device__ __forceinline__ void run_dq(const lsi_attention_problem &p, float *shared)
{
    typedef shape_of<D> shape;
    constexpr int OWN = shape::OWN, STREAMED = shape::STREAMED, R = OWN / LSI_PLAIN_Y, C = STREAMED / LSI_PLAIN_X;
    const int n_blocks = (p.context + OWN - 1) / OWN;
    const int query = (n_blocks - 1 - (int)blockIdx.x / p.n_heads) * OWN;       /* the longest first */
    const int n_keys = min(query + OWN, p.context);
    const lsi_attention_place place = lsi_attention_find(p, (int)blockIdx.x % p.n_heads);
    const lsi_attention_draw draw = lsi_attention_draw_of(p, place);
    const T *qkv = (const T *)p.qkv;
    const block_memory<D> m(shared);
    float dq[R][D / LSI_PLAIN_X], lse[R], dot[R], factor[R];

    lsi_plain_clear<D, OWN>(dq);
    lsi_plain_load<T, D, OWN>(m.own[0], qkv + place.q + query * p.row, p.row, p.context - query, p.head_size);
    lsi_plain_load<T, D, OWN>(m.own[1], (const T *)p.dy + place.out + query * p.out_row, p.out_row, p.context - query,
                              p.head_size);
    __syncthreads();    /* the output gradients are there */
#pragma unroll
    for (int r = 0; r < R; r++) {
        int row = lsi_plain_y() + r * LSI_PLAIN_Y;
        bool there = query + row < p.context;

        dot[r] = multiply_outputs<T, D>(m.own[1] + row * lsi_plain_pitch<D>(),
                                        (const T *)p.y + place.out + (query + row) * p.out_row, there, p.head_size);
        lse[r] = there ? p.lse[place.lse + query + row] : INFINITY;
        if (lsi_plain_x() == 0 && there) {
            p.dot[place.dot + query + row] = dot[r];
        }
        factor[r] = 1.0f;
    }
    for (int key = 0; key < n_keys; key += STREAMED) {
        float scores[R][C], gradients[R][C];

        __syncthreads();    /* no warp needs the tiles before */
        lsi_plain_load<T, D, STREAMED>(m.streamed[0], qkv + place.k + key * p.row, p.row, n_keys - key, p.head_size);
        lsi_plain_load<T, D, STREAMED>(m.streamed[1], qkv + place.v + key * p.row, p.row, n_keys - key, p.head_size);
        lsi_plain_draw<OWN, STREAMED>(m.keep, draw, query, key);
        __syncthreads();    /* all tiles are there */
        lsi_plain_score<D, OWN, STREAMED>(m.own[0], m.streamed[0], p.head_size, scores);
        lsi_plain_score<D, OWN, STREAMED>(m.own[1], m.streamed[1], p.head_size, gradients);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int row = lsi_plain_y() + r * LSI_PLAIN_Y;

#pragma unroll
            for (int c = 0; c < C; c++) {
                int column = lsi_plain_x() + c * LSI_PLAIN_X;

                differentiate(p, key + column <= query + row, lsi_plain_is_kept<STREAMED>(m.keep, draw, row, column),
                              lse[r], dot[r], &scores[r][c], &gradients[r][c]);
            }
        }
        lsi_plain_share<OWN, STREAMED>(gradients, m.gradients);
        __syncwarp();
        lsi_plain_add<D, OWN, STREAMED>(m.gradients, m.streamed[0], dq);
    }
    lsi_plain_store<T, D, OWN>(dq, factor, (T *)p.out + place.q + query * p.row, p.row, p.context - query, p.head_size);
}

/* ---- gradients of keys and values ---------------------------------------------------------------------------- */

template <typename T, int D>
static __device__ __forceinline__ void run_dkv(const lsi_attention_problem &p, float *shared)
{
    typedef shape_of<D> shape;
    constexpr int OWN = shape::OWN, STREAMED = shape::STREAMED, R = OWN / LSI_PLAIN_Y, C = STREAMED / LSI_PLAIN_X;
    const int key = (int)blockIdx.x / p.n_heads * OWN;      /* the first keys meet the most queries */
    const lsi_attention_place place = lsi_attention_find(p, (int)blockIdx.x % p.n_heads);
    const lsi_attention_draw draw = lsi_attention_draw_of(p, place);
    const T *qkv = (const T *)p.qkv, *dy = (const T *)p.dy;
    const block_memory<D> m(shared);
    float dk[R][D / LSI_PLAIN_X], dv[R][D / LSI_PLAIN_X], factor[R];

    lsi_plain_clear<D, OWN>(dk);
    lsi_plain_clear<D, OWN>(dv);
#pragma unroll
    for (int r = 0; r < R; r++) {
        factor[r] = 1.0f;
    }
    lsi_plain_load<T, D, OWN>(m.own[0], qkv + place.k + key * p.row, p.row, p.context - key, p.head_size);
    lsi_plain_load<T, D, OWN>(m.own[1], qkv + place.v + key * p.row, p.row, p.context - key, p.head_size);
    for (int query = key; query < p.context; query += STREAMED) {
        float scores[R][C], gradients[R][C];

        __syncthreads();    /* no warp needs the tiles before */
        lsi_plain_load<T, D, STREAMED>(m.streamed[0], qkv + place.q + query * p.row, p.row, p.context - query,
                                       p.head_size);
        lsi_plain_load<T, D, STREAMED>(m.streamed[1], dy + place.out + query * p.out_row, p.out_row, p.context - query,
                                       p.head_size);
        lsi_plain_draw<STREAMED, OWN>(m.keep, draw, query, key);
        if ((int)threadIdx.x < STREAMED) {      /* beyond the last query: an lse with which all probabilities are 0 */
            bool there = query + (int)threadIdx.x < p.context;

            m.lse[threadIdx.x] = there ? p.lse[place.lse + query + (int)threadIdx.x] : INFINITY;
            m.dot[threadIdx.x] = there ? p.dot[place.dot + query + (int)threadIdx.x] : 0.0f;
        }
        __syncthreads();    /* all tiles are there */
        lsi_plain_score<D, OWN, STREAMED>(m.own[0], m.streamed[0], p.head_size, scores);
        lsi_plain_score<D, OWN, STREAMED>(m.own[1], m.streamed[1], p.head_size, gradients);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int row = lsi_plain_y() + r * LSI_PLAIN_Y;

#pragma unroll
            for (int c = 0; c < C; c++) {
                int column = lsi_plain_x() + c * LSI_PLAIN_X;

                differentiate(p, key + row <= query + column, lsi_plain_is_kept<OWN>(m.keep, draw, column, row),
                              m.lse[column], m.dot[column], &scores[r][c], &gradients[r][c]);
            }
        }
        lsi_plain_share<OWN, STREAMED>(scores, m.weights);
        lsi_plain_share<OWN, STREAMED>(gradients, m.gradients);
        __syncwarp();
        lsi_plain_add<D, OWN, STREAMED>(m.weights, m.streamed[1], dv);
        lsi_plain_add<D, OWN, STREAMED>(m.gradients, m.streamed[0], dk);
    }
    T *out = (T *)p.out + key * p.row;
    lsi_plain_store<T, D, OWN>(dk, factor, out + place.k, p.row, p.context - key, p.head_size);
    lsi_plain_store<T, D, OWN>(dv, factor, out + place.v, p.row, p.context - key, p.head_size);
}

/* ---- launches ------------------------------------------------------------------------------------------------ */

#define KERNEL_DQ(suffix, type, size)                                                             \
    extern "C" __global__ void __launch_bounds__(LSI_PLAIN_THREADS, 2)                            \
        lsi_attention_plain_dq_##suffix##_##size(lsi_attention_problem p)                         \
    {                                                                                             \
        DYN_SHARED(float, shared);                                                                \
        run_dq<type, size>(p, shared);                                                            \
    }
LSI_PLAIN_KERNELS(KERNEL_DQ)

#define KERNEL_DKV(suffix, type, size)                                                            \
    extern "C" __global__ void __launch_bounds__(LSI_PLAIN_THREADS, 2)                            \
        lsi_attention_plain_dkv_##suffix##_##size(lsi_attention_problem p)                        \
    {                                                                                             \
        DYN_SHARED(float, shared);                                                                \
        run_dkv<type, size>(p, shared);                                                           \
    }
LSI_PLAIN_KERNELS(KERNEL_DKV)

extern "C" cudaError_t lsi_attention_plain_dq(const lsi_attention_problem *p, lsi_attention_path path,
                                              cudaStream_t stream)
{
    LSI_PLAIN_LAUNCH(attention_plain_dq, shape_of);
}

extern "C" cudaError_t lsi_attention_plain_dkv(const lsi_attention_problem *p, lsi_attention_path path,
                                               cudaStream_t stream)
{
    LSI_PLAIN_LAUNCH(attention_plain_dkv, shape_of);
}
