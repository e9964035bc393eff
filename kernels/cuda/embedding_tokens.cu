/* Gradient of the token table: row r is the sum of dy over the tokens r in their order. No atomics and no order but the
 * tokens': each tile of TILE tokens is sorted by (token, place), so that the tokens r of a tile are one segment in order.
 * The block of the first such token of all finds its segment in every tile by bisection and adds them tile by tile. */
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/vector.h"

enum {
    TILE_BITS = 10,
    TILE = 1 << TILE_BITS,
    SUM_THREADS = 128           /* of a block that sums; and tiles it searches at once */
};

typedef unsigned long long sort_key;    /* token * TILE + place in its tile; all ones behind the last */

/* ---- the segments of a tile ------------------------------------------------------------------------------------- */

/* Bitonic sort in shared memory: TILE / 2 pairs are compared in each of its 55 rounds. */
extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_embedding_sort(const int32_t *tokens, int64_t n, sort_key *out)
{
    __shared__ sort_key keys[TILE];
    int64_t first = (int64_t)blockIdx.x * TILE;

    for (unsigned i = threadIdx.x; i < TILE; i += blockDim.x) {
        keys[i] = first + i < n ? (sort_key)(uint32_t)tokens[first + i] << TILE_BITS | i : ~(sort_key)0;
    }
    for (unsigned size = 2; size <= TILE; size *= 2) {
        for (unsigned distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (unsigned pair = threadIdx.x; pair < TILE / 2; pair += blockDim.x) {
                unsigned i = 2 * pair - (pair & (distance - 1));
                sort_key low = keys[i], high = keys[i + distance];

                if ((low > high) == ((i & size) == 0)) {
                    keys[i] = high;
                    keys[i + distance] = low;
                }
            }
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TILE; i += blockDim.x) {
        out[first + i] = keys[i];
    }
}

/* The first place of a sorted tile whose token is `token` or greater; TILE if there is none. */
static __device__ __forceinline__ int find(const sort_key *tile, int64_t token)
{
    int low = 0, high = TILE;

    while (low < high) {
        int middle = (low + high) / 2;

        if ((int64_t)(tile[middle] >> TILE_BITS) < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

/* What a block looks for, and where it found it in SUM_THREADS tiles. */
typedef struct segments {
    int begin[SUM_THREADS], end[SUM_THREADS];
} segments;

/* Whether an earlier tile holds the token; the same answer in all threads. */
static __device__ __forceinline__ bool is_in_tiles(const sort_key *keys, int64_t n_tiles, int64_t token)
{
    int found = 0;

    for (int64_t t = threadIdx.x; t < n_tiles && !found; t += SUM_THREADS) {
        int place = find(keys + t * TILE, token);

        found = place < TILE && (int64_t)(keys[t * TILE + place] >> TILE_BITS) == token;
    }
    return __syncthreads_or(found) != 0;
}

/* Adds the rows of dy that a segment names; n columns from `column` on, as far as there are any. */
template <typename T, int N>
static __device__ __forceinline__ void add_segment(const lsi_embedding_bwd_args &a, const sort_key *tile, int64_t first,
                                                   int begin, int end, int64_t column, float *sum)
{
#pragma unroll 4
    for (int k = begin; k < end; k++) {
        int64_t row = first + (int64_t)(tile[k] & (TILE - 1));
        float v[N];

        lsi_read<T, N>((const T *)a.dy.data + row * a.width + column, a.width - column, v);
#pragma unroll
        for (int i = 0; i < N; i++) {
            sum[i] += v[i];
        }
    }
}

/* Block (x, y): the x-th of all sorted tokens, columns of part y. */
template <typename T>
static __device__ __forceinline__ void embedding_sum(const lsi_embedding_bwd_args &a, const sort_key *keys,
                                                     int64_t n_tiles, segments *shared)
{
    const int n = lsi_vector<T>();
    int64_t own = blockIdx.x / TILE, token = (int64_t)(keys[blockIdx.x] >> TILE_BITS);
    int64_t column = ((int64_t)blockIdx.y * SUM_THREADS + threadIdx.x) * n, left = a.width - column;
    float *dwte = (float *)a.dwte.data + token * a.width + column, sum[n];

    /* Whole blocks leave: the forward has reported a token that is outside of the table. */
    if (token >= a.rows || (blockIdx.x % TILE != 0 && (int64_t)(keys[blockIdx.x - 1] >> TILE_BITS) == token)) {
        return;
    }
    if (is_in_tiles(keys, own, token)) {
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        sum[i] = 0.0f;
    }
    if (a.accumulate_wte && left > 0) {
        lsi_read<float, n>(dwte, left, sum);
    }
    for (int64_t first = own; first < n_tiles; first += SUM_THREADS) {
        int64_t mine = first + threadIdx.x;

        if (mine < n_tiles) {
            shared->begin[threadIdx.x] = find(keys + mine * TILE, token);
            shared->end[threadIdx.x] = find(keys + mine * TILE, token + 1);
        }
        __syncthreads();
        for (int64_t t = first; t < lsi_least(first + SUM_THREADS, n_tiles) && left > 0; t++) {
            add_segment<T, n>(a, keys + t * TILE, t * TILE, shared->begin[t - first], shared->end[t - first], column,
                              sum);
        }
        __syncthreads();
    }
    if (left > 0) {
        lsi_write<float, n>(dwte, left, sum);
    }
}
#define EMBEDDING_SUM(suffix, type)                                                                                  \
    extern "C" __global__ void __launch_bounds__(SUM_THREADS, 8)                                                        \
        lsi_embedding_sum_##suffix(lsi_embedding_bwd_args a, const sort_key *keys, int64_t n_tiles)                  \
    {                                                                                                                \
        __shared__ segments shared;                                                                                  \
        embedding_sum<type>(a, keys, n_tiles, &shared);                                                              \
    }
EMBEDDING_SUM(f32, float)
EMBEDDING_SUM(f16, __half)
EMBEDDING_SUM(bf16, __nv_bfloat16)

/* ---- launches ------------------------------------------------------------------------------------------------ */

extern "C" ls_status lsi_cuda_embedding_tokens(ls_stream *stream, const lsi_embedding_bwd_args *arguments)
{
    lsi_embedding_bwd_args a = *arguments;
    cudaStream_t on = lsi_cuda_stream(stream);
    sort_key *keys = (sort_key *)lsi_cuda_workspace(stream);
    int64_t n = a.samples * a.context, n_tiles = lsi_cuda_blocks(n, TILE);
    int64_t per_block = (int64_t)SUM_THREADS * lsi_cuda_group(a.dy.dtype);

    LS_REQUIRE(n_tiles * TILE * (int64_t)sizeof(sort_key) <= LSI_CUDA_WORKSPACE_BYTES, LS_ERR_INTERNAL,
               "embedding_bwd: %lld tokens of one micro-batch are more than the workspace has room for", (long long)n);
    if (!a.accumulate_wte && a.rows * a.width > 0) {
        /* Apart from the sums: most rows are touched by no token. */
        LS_TRY(lsi_cuda_called("embedding_bwd", "cudaMemsetAsync", cudaMemsetAsync(a.dwte.data, 0,
                                                                  (size_t)(a.rows * a.width) * sizeof(float), on)));
    }
    if (n == 0 || a.width == 0) {
        return LS_OK;
    }
    LS_TRY(lsi_cuda_launched("embedding_bwd", LAUNCH(lsi_embedding_sort, (unsigned)n_tiles, LSI_THREADS, 0, on,
                                                     (const int32_t *)a.tokens.data, n, keys)));
    dim3 grid((unsigned)n, lsi_cuda_grid(a.width, per_block));
    return LSI_LAUNCH_TYPES("embedding_bwd", embedding_sum, a.dy.dtype, grid, SUM_THREADS, on, a, (const sort_key *)keys,
                            n_tiles);
}
