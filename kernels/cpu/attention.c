/* Causal attention without a T x T matrix (Dao et al., "FlashAttention", 2022): blocks of queries meet blocks of keys,
 * the forward keeps a running maximum and sum per query, the backward makes the probabilities again from their
 * log-sum-exp.
 *
 * Tiles of scores lie transposed, [key][query]: what happens per query (maximum, sum, rescaling) is then one lane of a
 * vector and never a sum across one, and every product finds its right-hand matrix with contiguous rows. Keys are
 * walked in ascending order for each query and queries in ascending order for each key, in one thread; threads only
 * share out heads and, in the forward, blocks of queries. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/tile.h"

#define ALIGNED _Alignas(64)    /* a vector load across cache lines takes two turns */

enum { TILE = 64 };   /* queries and keys per block; a multiple of 4, the words of one random draw */

typedef float score_tile[TILE][TILE];               /* [key][query] */
typedef float feature_tile[LSI_HEAD_SIZE_MAX][TILE];    /* [feature][query] */
typedef float row_tile[TILE * LSI_HEAD_SIZE_MAX];       /* rows of one head, as they are but without gaps */

typedef struct attention_run {
    int64_t samples, context, heads, head_size, first_sample;
    int64_t row;            /* from one token to the next in qkv and dqkv */
    int64_t out_row;        /* and in y and dy */
    uint64_t key;
    uint32_t step;
    lsi_dropout_rule rule;
    float scale;
    const float *qkv, *dy, *y_in, *lse_in;
    float *y, *lse, *dqkv;
} attention_run;

/* One head of one sample: where its rows begin. */
typedef struct head_view {
    const float *q, *k, *v;
    int64_t out;            /* offset in y and dy */
    int64_t lse;            /* offset in lse */
    int64_t qkv;            /* offset in qkv and dqkv */
    int64_t head;
    uint32_t sample;        /* in the global batch */
} head_view;

/* Keys [key, key + n_keys) meet queries [query, query + n_queries). */
typedef struct block_pair {
    int64_t query, n_queries, key, n_keys;
} block_pair;

static head_view view_head(const attention_run *r, int64_t index)
{
    int64_t sample = index / r->heads, head = index % r->heads;
    head_view h = {
        .out = sample * r->context * r->out_row + head * r->head_size,
        .lse = index * r->context,
        .qkv = sample * r->context * r->row + head * r->head_size,
        .head = head,
        .sample = (uint32_t)(r->first_sample + sample),
    };

    h.q = r->qkv + h.qkv;
    h.k = h.q + r->out_row;
    h.v = h.k + r->out_row;
    return h;
}

/* n rows that are `step` apart. */
static void load_rows(const float *rows, int64_t step, int64_t n, int64_t head_size, row_tile tile)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(tile + i * head_size, rows + i * step, (size_t)head_size * sizeof(float));
    }
}

/* The same as tile[feature][query]; queries beyond n are zero. */
static void load_transposed(const float *rows, int64_t step, int64_t n, int64_t head_size, feature_tile tile)
{
    for (int64_t c = 0; c < head_size; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            tile[c][i] = rows[i * step + c];
        }
        for (int64_t i = n; i < TILE; i++) {
            tile[c][i] = 0.0f;
        }
    }
}

/* scores[key][query] = dot products of rows of keys with the loaded queries. */
static void multiply_rows(const attention_run *r, const block_pair *b, row_tile rows, feature_tile queries,
                          score_tile scores)
{
    LSI_CPU_NAME(tile_multiply)(b->n_keys, TILE, r->head_size, (lsi_tile){rows, r->head_size, 1}, queries[0], TILE,
                                scores[0], TILE, 0);
}

/* words[key % 4][query] for four keys from `key` on (a multiple of 4); see ops.def for the counters. */
static void draw_words(const attention_run *r, const head_view *h, const block_pair *b, int64_t key,
                       uint32_t words[4][TILE])
{
    uint64_t groups = (uint64_t)lsi_blocks(r->context, 4);   /* per row */
    uint64_t first = (uint64_t)(h->head * r->context + b->query) * groups + (uint64_t)key / 4;

#pragma omp simd
    for (int i = 0; i < TILE; i++) {
        uint64_t group = first + (uint64_t)i * groups;
        lsi_random4 drawn = lsi_random_philox(r->key, (uint32_t)group, h->sample, r->step,
                                              (uint32_t)(group >> 32) << 8 | LSI_DROPOUT_ATTENTION);

        words[0][i] = drawn.v[0];
        words[1][i] = drawn.v[1];
        words[2][i] = drawn.v[2];
        words[3][i] = drawn.v[3];
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------- */

/* Per query: the largest score so far, and the sum of exp(score - largest). */
typedef struct running_softmax {
    float largest[TILE], sum[TILE];
} running_softmax;

/* Scales the scores, puts -inf where the key comes after the query, and raises the maximum; rescale = what everything
 * summed so far is to be multiplied with. */
static void raise_maximum(const attention_run *r, const block_pair *b, score_tile scores, running_softmax *s,
                          float rescale[TILE])
{
    const float scale = r->scale;
    float largest[TILE];

    memcpy(largest, s->largest, sizeof(largest));
    for (int64_t k = 0; k < b->n_keys; k++) {
        int first = (int)(b->key + k - b->query);   /* the first query that sees this key */

#pragma omp simd
        for (int i = 0; i < TILE; i++) {
            float score = scores[k][i] * scale;

            score = i >= first ? score : -INFINITY;
            scores[k][i] = score;
            largest[i] = score > largest[i] ? score : largest[i];
        }
    }
#pragma omp simd
    for (int i = 0; i < TILE; i++) {
        rescale[i] = lsi_exp(s->largest[i] - largest[i]);
        s->largest[i] = largest[i];
        s->sum[i] *= rescale[i];
    }
}

/* Scores to exp(score - largest), summed, then dropped. */
static void exponentiate(score_tile scores, int64_t n_keys, running_softmax *s)
{
    for (int64_t k = 0; k < n_keys; k++) {
#pragma omp simd
        for (int i = 0; i < TILE; i++) {
            float p = lsi_exp(scores[k][i] - s->largest[i]);

            scores[k][i] = p;
            s->sum[i] += p;
        }
    }
}

/* The kept ones are scaled once, in the output. */
static void drop_scores(const attention_run *r, const head_view *h, const block_pair *b, score_tile scores)
{
    const uint32_t threshold = r->rule.threshold;
    ALIGNED uint32_t words[4][TILE];

    for (int64_t k = 0; k < b->n_keys; k++) {
        if (k % 4 == 0) {
            draw_words(r, h, b, b->key + k, words);
        }
#pragma omp simd
        for (int i = 0; i < TILE; i++) {
            float p = scores[k][i];

            scores[k][i] = words[k % 4][i] >= threshold ? p : 0.0f;
        }
    }
}

static void store_output(const attention_run *r, const head_view *h, int64_t query, int64_t n, feature_tile out,
                         const running_softmax *s)
{
    for (int64_t i = 0; i < n; i++) {
        float *y = r->y + h->out + (query + i) * r->out_row;
        float factor = r->rule.scale / s->sum[i];

#pragma omp simd
        for (int64_t c = 0; c < r->head_size; c++) {
            y[c] = out[c][i] * factor;
        }
        r->lse[h->lse + query + i] = s->largest[i] + lsi_log(s->sum[i]);
    }
}

/* One block of queries of one head. */
static void forward_block(void *argument, int64_t block)
{
    const attention_run *r = argument;
    int64_t n_blocks = lsi_blocks(r->context, TILE);
    head_view h = view_head(r, block / n_blocks);
    block_pair b = {.query = (n_blocks - 1 - block % n_blocks) * TILE};     /* the longest first */
    ALIGNED feature_tile queries, out;
    ALIGNED row_tile rows;      /* keys, then values */
    ALIGNED score_tile scores;
    ALIGNED running_softmax softmax;
    ALIGNED float rescale[TILE];

    b.n_queries = lsi_min(TILE, r->context - b.query);
    load_transposed(h.q + b.query * r->row, r->row, b.n_queries, r->head_size, queries);
    for (int i = 0; i < TILE; i++) {
        softmax.largest[i] = -INFINITY;
        softmax.sum[i] = 0.0f;
    }
    for (b.key = 0; b.key <= b.query; b.key += TILE) {
        b.n_keys = lsi_min(TILE, r->context - b.key);
        load_rows(h.k + b.key * r->row, r->row, b.n_keys, r->head_size, rows);
        multiply_rows(r, &b, rows, queries, scores);
        raise_maximum(r, &b, scores, &softmax, rescale);
        exponentiate(scores, b.n_keys, &softmax);
        if (r->rule.threshold > 0) {
            drop_scores(r, &h, &b, scores);
        }
        for (int64_t c = 0; b.key > 0 && c < r->head_size; c++) {
#pragma omp simd
            for (int i = 0; i < TILE; i++) {
                out[c][i] *= rescale[i];
            }
        }
        load_rows(h.v + b.key * r->row, r->row, b.n_keys, r->head_size, rows);
        LSI_CPU_NAME(tile_multiply)(r->head_size, TILE, b.n_keys, (lsi_tile){rows, 1, r->head_size}, scores[0], TILE,
                                    out[0], TILE, b.key > 0);
    }
    store_output(r, &h, b.query, b.n_queries, out, &softmax);
}

/* ---- backward ---------------------------------------------------------------------------------------------- */

/* What a block of queries brings: lse, and dot = y . dy, which is the probability-weighted mean of the gradients of its
 * probabilities. */
typedef struct query_terms {
    float lse[TILE], dot[TILE];
} query_terms;

static float dot_product(const float *a, const float *b, int64_t n)
{
    float sum[LSI_LANES] = {0};
    int64_t c = 0;

    for (; c + LSI_LANES <= n; c += LSI_LANES) {
#pragma omp simd
        for (int l = 0; l < LSI_LANES; l++) {
            sum[l] += a[c + l] * b[c + l];
        }
    }
    for (; c < n; c++) {
        sum[c % LSI_LANES] += a[c] * b[c];
    }
    return lsi_lanes_fold(sum);
}

static void load_terms(const attention_run *r, const head_view *h, int64_t query, int64_t n, query_terms *out)
{
    memset(out, 0, sizeof(*out));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = h->out + (query + i) * r->out_row;

        out->lse[i] = r->lse_in[h->lse + query + i];
        out->dot[i] = dot_product(r->y_in + at, r->dy + at, r->head_size);
    }
}

/* Scores become the probabilities as the forward used them (dropped and scaled), gradients of those become gradients of
 * the dot products of queries and keys. */
static void differentiate(const attention_run *r, const head_view *h, const block_pair *b, const query_terms *terms,
                          score_tile scores, score_tile gradients)
{
    const uint32_t threshold = r->rule.threshold;
    const float keep_scale = r->rule.scale, scale = r->scale;
    ALIGNED uint32_t words[4][TILE] = {{0}};    /* without dropout: all kept */

    for (int64_t k = 0; k < b->n_keys; k++) {
        int first = (int)(b->key + k - b->query);

        if (threshold > 0 && k % 4 == 0) {
            draw_words(r, h, b, b->key + k, words);
        }
#pragma omp simd
        for (int i = 0; i < TILE; i++) {
            float p = lsi_exp(scores[k][i] * scale - terms->lse[i]);
            float kept = words[k % 4][i] >= threshold ? keep_scale : 0.0f;

            p = i >= first ? p : 0.0f;
            scores[k][i] = p * kept;
            gradients[k][i] = p * (gradients[k][i] * kept - terms->dot[i]) * scale;
        }
    }
}

/* One head of one sample. */
static void backward_head(void *argument, int64_t index)
{
    const attention_run *r = argument;
    head_view h = view_head(r, index);
    float *dq = r->dqkv + h.qkv, *dk = dq + r->out_row, *dv = dk + r->out_row;
    ALIGNED feature_tile queries, output_gradients;
    ALIGNED row_tile query_rows, output_gradient_rows, rows;    /* rows: values, then keys */
    ALIGNED score_tile scores, gradients;
    ALIGNED query_terms terms;
    int64_t size = r->head_size;
    block_pair b = {0};

    for (b.query = 0; b.query < r->context; b.query += TILE) {
        const float *dy = r->dy + h.out + b.query * r->out_row;

        b.n_queries = lsi_min(TILE, r->context - b.query);
        load_rows(h.q + b.query * r->row, r->row, b.n_queries, size, query_rows);
        load_rows(dy, r->out_row, b.n_queries, size, output_gradient_rows);
        load_transposed(query_rows, size, b.n_queries, size, queries);
        load_transposed(output_gradient_rows, size, b.n_queries, size, output_gradients);
        load_terms(r, &h, b.query, b.n_queries, &terms);
        for (b.key = 0; b.key <= b.query; b.key += TILE) {
            int64_t at = b.key * r->row;
            int not_first = b.query > b.key;    /* these keys have met earlier queries */

            b.n_keys = lsi_min(TILE, r->context - b.key);
            load_rows(h.v + at, r->row, b.n_keys, size, rows);
            multiply_rows(r, &b, rows, output_gradients, gradients);
            load_rows(h.k + at, r->row, b.n_keys, size, rows);
            multiply_rows(r, &b, rows, queries, scores);
            differentiate(r, &h, &b, &terms, scores, gradients);
            LSI_CPU_NAME(tile_multiply)(b.n_keys, size, b.n_queries, (lsi_tile){scores[0], TILE, 1},
                                        output_gradient_rows, size, dv + at, r->row, not_first);
            LSI_CPU_NAME(tile_multiply)(b.n_keys, size, b.n_queries, (lsi_tile){gradients[0], TILE, 1}, query_rows,
                                        size, dk + at, r->row, not_first);
            LSI_CPU_NAME(tile_multiply)(b.n_queries, size, b.n_keys, (lsi_tile){gradients[0], 1, TILE}, rows, size,
                                        dq + b.query * r->row, r->row, b.key > 0);
        }
    }
}

/* ---- ops --------------------------------------------------------------------------------------------------- */

static ls_status check_sizes(const char *op, const attention_run *r, ls_view qkv, ls_view y, ls_view lse)
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
#define ATTENTION_RUN(a)                                                                                        \
    {                                                                                                           \
        .samples = (a)->samples, .context = (a)->context, .heads = (a)->heads, .head_size = (a)->head_size,     \
        .first_sample = (a)->first_sample, .row = 3 * (a)->heads * (a)->head_size,                              \
        .out_row = (a)->heads * (a)->head_size, .key = (a)->key, .qkv = (a)->qkv.data,                          \
        .scale = (float)(1.0 / sqrt((double)(a)->head_size)),                                                   \
    }

ls_status LSI_CPU_KERNEL(attention_fwd)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_attention_fwd_args *a = arguments;
    attention_run r = ATTENTION_RUN(a);

    LS_TRY(lsi_dropout_rule_make(a->dropout, &r.rule));
    LS_TRY(check_sizes("attention_fwd", &r, a->qkv, a->y, a->lse));
    r.step = r.rule.threshold > 0 ? (uint32_t)a->state->attempted : 0;
    r.y = a->y.data;
    r.lse = a->lse.data;
    ls_parallel_for(run, r.samples * r.heads * lsi_blocks(r.context, TILE), forward_block, &r);
    return LS_OK;
}

ls_status LSI_CPU_KERNEL(attention_bwd)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_attention_bwd_args *a = arguments;
    attention_run r = ATTENTION_RUN(a);

    LS_TRY(lsi_dropout_rule_make(a->dropout, &r.rule));
    LS_TRY(check_sizes("attention_bwd", &r, a->qkv, a->y, a->lse));
    r.step = r.rule.threshold > 0 ? (uint32_t)a->state->attempted : 0;
    r.y_in = a->y.data;
    r.lse_in = a->lse.data;
    r.dy = a->dy.data;
    r.dqkv = a->dqkv.data;
    ls_parallel_for(run, r.samples * r.heads, backward_head, &r);
    return LS_OK;
}
