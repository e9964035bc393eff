/* Attention, backward: makes the probabilities again, tile by tile, and sums the gradients of q, k and v in f32. */
#include "kernels/cpu/attention.h"

#include "kernels/cpu/lanes.h"
#include "kernels/math.h"

enum {
    TILE = LSI_ATTENTION_TILE,
    HALF = LSI_ATTENTION_HALF,
    SUMS = TILE * 1024      /* f32 sums that lie on the stack: of keys, and as many of values */
};

/* Rows of sums. */
typedef struct sum_rows {
    float *data;
    int64_t step;
} sum_rows;

/* Where rows of the view can be summed up: in f32 that is the view itself, in 16 bits every addend would be rounded. */
static sum_rows sum_target(const ls_view *view, int64_t at, int64_t step, int64_t head_size, float *memory)
{
    return (sum_rows){lsi_convert_target(view, at, memory), view->dtype == LS_F32 ? step : head_size};
}

static void store_sums(const ls_view *view, int64_t at, int64_t step, int64_t n, int64_t head_size, sum_rows sums)
{
    for (int64_t i = 0; i < n; i++) {
        lsi_convert_store(view, at + i * step, head_size, sums.data + i * sums.step);
    }
}

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

static void load_terms(const lsi_attention_run *r, const lsi_attention_head *h, int64_t query, int64_t n,
                       const lsi_row_tile dy, query_terms *out)
{
    float row[LSI_HEAD_SIZE_MAX];

    memset(out, 0, sizeof(*out));
    for (int64_t i = 0; i < n; i++) {
        const float *y = lsi_convert_load(&r->y, h->out + (query + i) * r->out_row, r->head_size, row);

        out->lse[i] = r->lse[h->lse + query + i];
        out->dot[i] = dot_product(y, dy + i * r->head_size, r->head_size);
    }
}

/* Scores become the probabilities as the forward used them (dropped and scaled), gradients of those become gradients of
 * the dot products of queries and keys. */
static void differentiate(const lsi_attention_run *r, const lsi_attention_head *h, const lsi_attention_pair *b,
                          const query_terms *terms, lsi_score_tile scores, lsi_score_tile gradients)
{
    const uint32_t threshold = r->rule.threshold;
    const float keep_scale = r->rule.scale, scale = r->scale;
    LSI_ALIGNED uint32_t words[4][TILE] = {{0}};    /* without dropout: all kept */

    for (int64_t k = 0; k < b->n_keys; k++) {
        int first = (int)(b->key + k - b->query);

        if (threshold > 0 && k % 4 == 0) {
            lsi_attention_draw(r, h, b, b->key + k, words);
        }
        for (int q = lsi_attention_first_query(b, k); q < TILE; q += HALF) {
#pragma omp simd
            for (int i = q; i < q + HALF; i++) {
                float p = lsi_exp_below(scores[k][i] - terms->lse[i]);
                float kept = words[k % 4][i] >= threshold ? keep_scale : 0.0f;

                p = i >= first ? p : 0.0f;
                scores[k][i] = p * kept;
                gradients[k][i] = p * (gradients[k][i] * kept - terms->dot[i]) * scale;
            }
        }
    }
}

/* What one thread does of one head: sums the gradients of queries, of keys and values, or of all. Mostly all. Where
 * 16-bit keys are too many for their f32 sums to lie on the stack (more than 1,024 with a head size of 64), each group
 * of keys and each group of queries is a piece of its own, and probabilities are made twice. The bits are the same. */
typedef struct backward_piece {
    int64_t query, query_end, key, key_end;
    int of_queries, of_keys;
} backward_piece;

/* Tokens per group. */
static int64_t group_size(const lsi_attention_run *r)
{
    int64_t fitting = SUMS / (r->head_size * TILE) * TILE;

    return r->dqkv.dtype == LS_F32 ? r->context : lsi_min(fitting, r->context);
}

static int64_t pieces_per_head(const lsi_attention_run *r)
{
    int64_t n_groups = lsi_blocks(r->context, group_size(r));

    return n_groups > 1 ? 2 * n_groups : n_groups;
}

static backward_piece piece_of(const lsi_attention_run *r, int64_t piece)
{
    int64_t n_pieces = pieces_per_head(r), of_keys = piece < n_pieces / 2;
    int64_t begin = (of_keys ? piece : n_pieces - 1 - piece) * group_size(r);
    int64_t end = lsi_min(begin + group_size(r), r->context);

    if (n_pieces == 1) {
        return (backward_piece){.query_end = end, .key_end = end, .of_queries = 1, .of_keys = 1};
    }
    if (of_keys) {      /* the first keys meet the most queries, the last queries the most keys: the longest first */
        return (backward_piece){.query = begin, .query_end = r->context, .key = begin, .key_end = end, .of_keys = 1};
    }
    return (backward_piece){.query = begin, .query_end = end, .key_end = end, .of_queries = 1};
}

/* A block of queries, as the products need it. */
typedef struct query_block {
    LSI_ALIGNED lsi_row_tile rows, gradient_rows;               /* q and dy */
    LSI_ALIGNED lsi_feature_tile queries, output_gradients;     /* transposed, queries scaled as for the scores */
    LSI_ALIGNED query_terms terms;
} query_block;

static void load_query_block(const lsi_attention_run *r, const lsi_attention_head *h, int64_t query, int64_t n,
                             query_block *out)
{
    lsi_attention_load_rows(&r->qkv, h->q + query * r->row, r->row, n, r->head_size, out->rows);
    lsi_attention_load_rows(&r->dy, h->out + query * r->out_row, r->out_row, n, r->head_size, out->gradient_rows);
    lsi_attention_transpose(out->rows, n, r->head_size, r->scale, out->queries);
    lsi_attention_transpose(out->gradient_rows, n, r->head_size, 1.0f, out->output_gradients);
    load_terms(r, h, query, n, out->gradient_rows, &out->terms);
}

/* Gradients of keys or values: sums[key] += weights[key][query] * rows[query]; set when `add` is 0. */
static void add_to_keys(const lsi_attention_run *r, const lsi_attention_pair *b, lsi_score_tile weights,
                        const lsi_row_tile rows, float *sums, int64_t step, int add)
{
    const int64_t size = r->head_size;
    int64_t n = b->key == b->query ? lsi_min(HALF, b->n_keys) : b->n_keys;

    LSI_CPU_NAME(tile_multiply)(n, size, b->n_queries, (lsi_tile){weights[0], TILE, 1}, rows, size, sums, step, add);
    if (n < b->n_keys) {
        LSI_CPU_NAME(tile_multiply)(b->n_keys - n, size, b->n_queries - n, (lsi_tile){weights[n] + n, TILE, 1},
                                    rows + n * size, size, sums + n * step, step, add);
    }
}

/* Gradients of queries: sums[query] += weights[key][query] * rows[key]; set where these keys are the first. */
static void add_to_queries(const lsi_attention_run *r, const lsi_attention_pair *b, lsi_score_tile weights,
                           const lsi_row_tile rows, float *sums, int64_t step)
{
    const int64_t size = r->head_size;
    int64_t n = b->key == b->query ? lsi_min(HALF, b->n_queries) : b->n_queries;

    LSI_CPU_NAME(tile_multiply)(n, size, b->key == b->query ? n : b->n_keys, (lsi_tile){weights[0], 1, TILE}, rows,
                                size, sums, step, b->key > 0);
    if (n < b->n_queries) {
        LSI_CPU_NAME(tile_multiply)(b->n_queries - n, size, b->n_keys, (lsi_tile){weights[0] + n, 1, TILE}, rows, size,
                                    sums + n * step, step, b->key > 0);
    }
}

static void backward_block(void *argument, int64_t block)
{
    const lsi_attention_run *r = argument;
    const int64_t size = r->head_size, row = r->row;
    lsi_attention_head h = lsi_attention_view_head(r, block / pieces_per_head(r));
    backward_piece p = piece_of(r, block % pieces_per_head(r));
    LSI_ALIGNED float k_memory[SUMS], v_memory[SUMS];
    LSI_ALIGNED lsi_row_tile q_memory, rows;    /* rows: values, then keys */
    LSI_ALIGNED lsi_score_tile scores, gradients;
    query_block q;
    lsi_attention_pair b = {.query = p.query};
    sum_rows dk = sum_target(&r->dqkv, h.k + p.key * row, row, size, k_memory);
    sum_rows dv = sum_target(&r->dqkv, h.v + p.key * row, row, size, v_memory);

    for (; b.query < p.query_end; b.query += TILE) {
        sum_rows dq = sum_target(&r->dqkv, h.q + b.query * row, row, size, q_memory);

        b.n_queries = lsi_min(TILE, r->context - b.query);
        load_query_block(r, &h, b.query, b.n_queries, &q);
        for (b.key = p.key; b.key < p.key_end && b.key <= b.query; b.key += TILE) {
            int64_t at = b.key - p.key;
            int not_first = b.query > b.key;    /* these keys have met earlier queries */

            b.n_keys = lsi_min(TILE, r->context - b.key);
            lsi_attention_load_rows(&r->qkv, h.v + b.key * row, row, b.n_keys, size, rows);
            lsi_attention_multiply_rows(r, &b, rows, q.output_gradients, gradients);
            lsi_attention_load_rows(&r->qkv, h.k + b.key * row, row, b.n_keys, size, rows);
            lsi_attention_multiply_rows(r, &b, rows, q.queries, scores);
            differentiate(r, &h, &b, &q.terms, scores, gradients);
            if (p.of_keys) {
                add_to_keys(r, &b, scores, q.gradient_rows, dv.data + at * dv.step, dv.step, not_first);
                add_to_keys(r, &b, gradients, q.rows, dk.data + at * dk.step, dk.step, not_first);
            }
            if (p.of_queries) {
                add_to_queries(r, &b, gradients, rows, dq.data, dq.step);
            }
        }
        if (p.of_queries) {
            store_sums(&r->dqkv, h.q + b.query * row, row, b.n_queries, size, dq);
        }
    }
    if (p.of_keys) {
        store_sums(&r->dqkv, h.k + p.key * row, row, p.key_end - p.key, size, dk);
        store_sums(&r->dqkv, h.v + p.key * row, row, p.key_end - p.key, size, dv);
    }
}

ls_status LSI_CPU_KERNEL(attention_bwd)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_attention_bwd_args *a = arguments;
    lsi_attention_run r = LSI_ATTENTION_RUN(a);

    LS_TRY(lsi_dropout_rule_make(a->dropout, &r.rule));
    LS_TRY(lsi_attention_check("attention_bwd", &r, a->qkv, a->y, a->lse));
    LS_TRY(LSI_CONVERT_CHECK("attention_bwd", &a->qkv, &a->y, &a->dy, &a->dqkv));
    r.step = r.rule.threshold > 0 ? (uint32_t)a->state->attempted : 0;
    r.dy = a->dy;
    r.dqkv = a->dqkv;
    if (a->qkv.count > 0) {
        ls_parallel_for(run, r.samples * r.heads * pieces_per_head(&r), backward_block, &r);
    }
    return LS_OK;
}
