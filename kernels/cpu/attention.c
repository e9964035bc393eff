/* Attention, forward: one block of queries after the other meets all keys before it. */
#include "kernels/cpu/attention.h"

#include "kernels/math.h"

enum { TILE = LSI_ATTENTION_TILE, HALF = LSI_ATTENTION_HALF };

/* Per query: the largest score so far, and the sum of exp(score - largest). */
typedef struct running_softmax {
    float largest[TILE], sum[TILE];
} running_softmax;

/* Puts -inf where the key comes after the query: on the diagonal only. */
static void mask_scores(const lsi_attention_pair *b, lsi_score_tile scores)
{
    for (int k = 0; k < b->n_keys; k++) {
        for (int q = lsi_attention_first_query(b, k); q < TILE; q += HALF) {
#pragma omp simd
            for (int i = q; i < q + HALF; i++) {
                float score = scores[k][i];

                scores[k][i] = i >= k ? score : -INFINITY;
            }
        }
    }
}

/* Raises the maximum; rescale = what everything summed so far is to be multiplied with. */
static void raise_maximum(const lsi_attention_pair *b, lsi_score_tile scores, running_softmax *s, float rescale[TILE])
{
    LSI_ALIGNED float largest[TILE];

    memcpy(largest, s->largest, sizeof(largest));
    for (int64_t k = 0; k < b->n_keys; k++) {
        for (int q = lsi_attention_first_query(b, k); q < TILE; q += HALF) {
#pragma omp simd
            for (int i = q; i < q + HALF; i++) {
                largest[i] = scores[k][i] > largest[i] ? scores[k][i] : largest[i];
            }
        }
    }
#pragma omp simd
    for (int i = 0; i < TILE; i++) {
        rescale[i] = lsi_exp_below(s->largest[i] - largest[i]);
        s->largest[i] = largest[i];
        s->sum[i] *= rescale[i];
    }
}

/* Scores to exp(score - largest), summed, then dropped. */
static void exponentiate(const lsi_attention_pair *b, lsi_score_tile scores, running_softmax *s)
{
    for (int64_t k = 0; k < b->n_keys; k++) {
        for (int q = lsi_attention_first_query(b, k); q < TILE; q += HALF) {
#pragma omp simd
            for (int i = q; i < q + HALF; i++) {
                float p = lsi_exp_below(scores[k][i] - s->largest[i]);

                scores[k][i] = p;
                s->sum[i] += p;
            }
        }
    }
}

/* The kept ones are scaled once, in the output. */
static void drop_scores(const lsi_attention_run *r, const lsi_attention_head *h, const lsi_attention_pair *b,
                        lsi_score_tile scores)
{
    const uint32_t threshold = r->rule.threshold;
    LSI_ALIGNED uint32_t words[4][TILE];

    for (int64_t k = 0; k < b->n_keys; k++) {
        if (k % 4 == 0) {
            lsi_attention_draw(r, h, b, b->key + k, words);
        }
        for (int q = lsi_attention_first_query(b, k); q < TILE; q += HALF) {
#pragma omp simd
            for (int i = q; i < q + HALF; i++) {
                float p = scores[k][i];

                scores[k][i] = words[k % 4][i] >= threshold ? p : 0.0f;
            }
        }
    }
}

/* out[feature][query] += values[key][feature] * scores[key][query]; set where these keys are the first. */
static void multiply_values(const lsi_attention_run *r, const lsi_attention_pair *b, const lsi_row_tile values,
                            lsi_score_tile scores, lsi_feature_tile out)
{
    const int64_t size = r->head_size;
    const lsi_tile features = {values, 1, size};

    if (b->key != b->query || b->n_keys <= HALF) {
        LSI_CPU_NAME(tile_multiply)(size, TILE, b->n_keys, features, scores[0], TILE, out[0], TILE, b->key > 0);
        return;
    }
    LSI_CPU_NAME(tile_multiply)(size, HALF, HALF, features, scores[0], TILE, out[0], TILE, b->key > 0);
    LSI_CPU_NAME(tile_multiply)(size, HALF, b->n_keys, features, scores[0] + HALF, TILE, out[0] + HALF, TILE,
                                b->key > 0);
}

static void store_output(const lsi_attention_run *r, const lsi_attention_head *h, int64_t query, int64_t n,
                         lsi_feature_tile out, const running_softmax *s)
{
    for (int64_t i = 0; i < n; i++) {
        float row[LSI_HEAD_SIZE_MAX];
        int64_t at = h->out + (query + i) * r->out_row;
        float *y = lsi_convert_target(&r->y, at, row);
        float factor = r->rule.scale / s->sum[i];

#pragma omp simd
        for (int64_t c = 0; c < r->head_size; c++) {
            y[c] = out[c][i] * factor;
        }
        lsi_convert_store(&r->y, at, r->head_size, y);
        r->lse[h->lse + query + i] = s->largest[i] + lsi_log(s->sum[i]);
    }
}

/* One block of queries of one head. */
static void forward_block(void *argument, int64_t block)
{
    const lsi_attention_run *r = argument;
    int64_t n_blocks = lsi_blocks(r->context, TILE);
    lsi_attention_head h = lsi_attention_view_head(r, block / n_blocks);
    lsi_attention_pair b = {.query = (n_blocks - 1 - block % n_blocks) * TILE};     /* the longest first */
    LSI_ALIGNED lsi_feature_tile queries, out;
    LSI_ALIGNED lsi_row_tile rows;      /* queries, keys, values */
    LSI_ALIGNED lsi_score_tile scores;
    LSI_ALIGNED running_softmax softmax;
    LSI_ALIGNED float rescale[TILE];

    b.n_queries = lsi_min(TILE, r->context - b.query);
    lsi_attention_load_rows(&r->qkv, h.q + b.query * r->row, r->row, b.n_queries, r->head_size, rows);
    lsi_attention_transpose(rows, b.n_queries, r->head_size, r->scale, queries);
    for (int i = 0; i < TILE; i++) {
        softmax.largest[i] = -INFINITY;
        softmax.sum[i] = 0.0f;
    }
    for (b.key = 0; b.key <= b.query; b.key += TILE) {
        b.n_keys = lsi_min(TILE, r->context - b.key);
        lsi_attention_load_rows(&r->qkv, h.k + b.key * r->row, r->row, b.n_keys, r->head_size, rows);
        lsi_attention_multiply_rows(r, &b, rows, queries, scores);
        if (b.key == b.query) {
            mask_scores(&b, scores);
        }
        raise_maximum(&b, scores, &softmax, rescale);
        exponentiate(&b, scores, &softmax);
        if (r->rule.threshold > 0) {
            drop_scores(r, &h, &b, scores);
        }
        for (int64_t c = 0; b.key > 0 && c < r->head_size; c++) {
#pragma omp simd
            for (int i = 0; i < TILE; i++) {
                out[c][i] *= rescale[i];
            }
        }
        lsi_attention_load_rows(&r->qkv, h.v + b.key * r->row, r->row, b.n_keys, r->head_size, rows);
        multiply_values(r, &b, rows, scores, out);
    }
    store_output(r, &h, b.query, b.n_queries, out, &softmax);
}

ls_status LSI_CPU_KERNEL(attention_fwd)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_attention_fwd_args *a = arguments;
    lsi_attention_run r = LSI_ATTENTION_RUN(a);

    LS_TRY(lsi_dropout_rule_make(a->dropout, &r.rule));
    LS_TRY(lsi_attention_check("attention_fwd", &r, a->qkv, a->y, a->lse));
    LS_TRY(LSI_CONVERT_CHECK("attention_fwd", &a->qkv, &a->y));
    r.step = r.rule.threshold > 0 ? (uint32_t)a->state->attempted : 0;
    ls_parallel_for(run, r.samples * r.heads * lsi_blocks(r.context, TILE), forward_block, &r);
    return LS_OK;
}
