/* What the two directions of attention share: tiles, how they are loaded, the random words of dropout.
 *
 * Causal attention without a T x T matrix (Dao et al., "FlashAttention", 2022): blocks of queries meet blocks of keys,
 * the forward keeps a running maximum and sum per query, the backward makes the probabilities again from their
 * log-sum-exp.
 *
 * Tiles of scores lie transposed, [key][query]: what happens per query (maximum, sum, rescaling) is then one lane of a
 * vector and never a sum across one, and every product finds its right-hand matrix with contiguous rows. Keys are
 * walked in ascending order for each query and queries in ascending order for each key, in one thread; threads only
 * share out heads and, in the forward, blocks of queries. Tiles are f32 whatever the views hold: converted when they
 * are loaded, rounded once when a finished sum is stored. */
#ifndef LSI_KERNELS_CPU_ATTENTION_H
#define LSI_KERNELS_CPU_ATTENTION_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/dropout.h"
#include "kernels/cpu/tile.h"

#define LSI_ALIGNED _Alignas(64)    /* a vector load across cache lines takes two turns */

/* Queries and keys per block; a multiple of 4, the words of one random draw. Element-wise loops go over halves. */
enum { LSI_ATTENTION_TILE = 64, LSI_ATTENTION_HALF = LSI_ATTENTION_TILE / 2 };

typedef float lsi_score_tile[LSI_ATTENTION_TILE][LSI_ATTENTION_TILE];       /* [key][query] */
typedef float lsi_feature_tile[LSI_HEAD_SIZE_MAX][LSI_ATTENTION_TILE];      /* [feature][query] */
typedef float lsi_row_tile[LSI_ATTENTION_TILE * LSI_HEAD_SIZE_MAX];         /* rows of one head without gaps */

typedef struct lsi_attention_run {
    int64_t samples, context, heads, head_size, first_sample;
    int64_t row;            /* from one token to the next in qkv and dqkv */
    int64_t out_row;        /* and in y and dy */
    uint64_t key;
    uint32_t step;
    lsi_dropout_rule rule;
    float scale;
    ls_view qkv, y, dy, dqkv;
    float *lse;
} lsi_attention_run;

/* One head of one sample: where its rows begin. */
typedef struct lsi_attention_head {
    int64_t q, k, v;        /* in qkv and dqkv */
    int64_t out;            /* in y and dy */
    int64_t lse;
    int64_t head;
    uint32_t sample;        /* in the global batch */
} lsi_attention_head;

/* Keys [key, key + n_keys) meet queries [query, query + n_queries). */
typedef struct lsi_attention_pair {
    int64_t query, n_queries, key, n_keys;
} lsi_attention_pair;

static inline lsi_attention_head lsi_attention_view_head(const lsi_attention_run *r, int64_t index)
{
    int64_t sample = index / r->heads, head = index % r->heads;
    lsi_attention_head h = {
        .out = sample * r->context * r->out_row + head * r->head_size,
        .lse = index * r->context,
        .q = sample * r->context * r->row + head * r->head_size,
        .head = head,
        .sample = (uint32_t)(r->first_sample + sample),
    };

    h.k = h.q + r->out_row;
    h.v = h.k + r->out_row;
    return h;
}

/* n rows of the view that are `step` apart, the first at `at`. */
static inline void lsi_attention_load_rows(const ls_view *view, int64_t at, int64_t step, int64_t n,
                                           int64_t head_size, lsi_row_tile tile)
{
    for (int64_t i = 0; i < n; i++) {
        float *row = tile + i * head_size;
        const float *loaded = lsi_convert_load(view, at + i * step, head_size, row);

        if (loaded != row) {
            memcpy(row, loaded, (size_t)head_size * sizeof(float));
        }
    }
}

/* Rows as tile[feature][query], times a factor; queries beyond n are zero. */
static inline void lsi_attention_transpose(const lsi_row_tile rows, int64_t n, int64_t head_size, float factor,
                                           lsi_feature_tile tile)
{
    for (int64_t c = 0; c < head_size; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            tile[c][i] = rows[i * head_size + c] * factor;
        }
        for (int64_t i = n; i < LSI_ATTENTION_TILE; i++) {
            tile[c][i] = 0.0f;
        }
    }
}

/* On the diagonal, where keys and queries are the same tokens, no query of the first half sees a key of the second: of
 * that quarter of a tile nothing is computed, and nothing read. First query that is, for the key in row `key`. */
static inline int lsi_attention_first_query(const lsi_attention_pair *b, int64_t key)
{
    return b->key == b->query && key >= LSI_ATTENTION_HALF ? LSI_ATTENTION_HALF : 0;
}

/* scores[key][query] = dot products of rows of keys with the loaded queries. */
static inline void lsi_attention_multiply_rows(const lsi_attention_run *r, const lsi_attention_pair *b,
                                               const lsi_row_tile rows, lsi_feature_tile queries, lsi_score_tile scores)
{
    const int64_t size = r->head_size, half = LSI_ATTENTION_HALF, tile = LSI_ATTENTION_TILE;
    int64_t n = b->key == b->query ? lsi_min(half, b->n_keys) : b->n_keys;

    LSI_CPU_NAME(tile_multiply)(n, tile, size, (lsi_tile){rows, size, 1}, queries[0], tile, scores[0], tile, 0);
    if (n < b->n_keys) {
        LSI_CPU_NAME(tile_multiply)(b->n_keys - n, tile - half, size, (lsi_tile){rows + n * size, size, 1},
                                    queries[0] + half, tile, scores[n] + half, tile, 0);
    }
}

/* words[key % 4][query] for four keys from `key` on (a multiple of 4); see ops.def for the counters. */
static inline void lsi_attention_draw(const lsi_attention_run *r, const lsi_attention_head *h,
                                      const lsi_attention_pair *b, int64_t key, uint32_t words[4][LSI_ATTENTION_TILE])
{
    uint64_t groups = (uint64_t)lsi_blocks(r->context, 4);   /* per row */
    uint64_t first = (uint64_t)(h->head * r->context + b->query) * groups + (uint64_t)key / 4;

#pragma omp simd
    for (int i = 0; i < LSI_ATTENTION_TILE; i++) {
        uint64_t group = first + (uint64_t)i * groups;
        lsi_random4 drawn = lsi_random_philox(r->key, (uint32_t)group, h->sample, r->step,
                                              (uint32_t)(group >> 32) << 8 | LSI_DROPOUT_ATTENTION);

        words[0][i] = drawn.v[0];
        words[1][i] = drawn.v[1];
        words[2][i] = drawn.v[2];
        words[3][i] = drawn.v[3];
    }
}

LS_MUST_USE static inline ls_status lsi_attention_check(const char *op, const lsi_attention_run *r, ls_view qkv,
                                                        ls_view y, ls_view lse)
{
    LS_REQUIRE(r->head_size >= 1 && r->head_size <= LSI_HEAD_SIZE_MAX, LS_ERR_INTERNAL,
               "%s: head size %lld is not in 1..%d", op, (long long)r->head_size, (int)LSI_HEAD_SIZE_MAX);
    int64_t tokens = r->samples * r->context;
    LS_REQUIRE(qkv.count == tokens * r->row && y.count == tokens * r->out_row && lse.count == tokens * r->heads,
               LS_ERR_INTERNAL, "%s: views of %lld, %lld, %lld elements for %lld x %lld tokens, %lld heads of %lld", op,
               (long long)qkv.count, (long long)y.count, (long long)lse.count, (long long)r->samples,
               (long long)r->context, (long long)r->heads, (long long)r->head_size);
    return LS_OK;
}

/* What both argument structs hold. */
#define LSI_ATTENTION_RUN(a)                                                                                    \
    {                                                                                                           \
        .samples = (a)->samples, .context = (a)->context, .heads = (a)->heads, .head_size = (a)->head_size,     \
        .first_sample = (a)->first_sample, .row = 3 * (a)->heads * (a)->head_size,                              \
        .out_row = (a)->heads * (a)->head_size, .key = (a)->key, .qkv = (a)->qkv, .y = (a)->y,                  \
        .lse = (a)->lse.data, .scale = (float)(1.0 / sqrt((double)(a)->head_size)),                             \
    }

#endif
