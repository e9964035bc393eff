#include "support/attention_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/op_case.h"

int64_t attention_tokens(const attention_shape *s)
{
    return s->samples * s->context;
}

int64_t attention_width(const attention_shape *s)
{
    return s->heads * s->head_size;
}

int64_t attention_elements(const attention_shape *s)
{
    return attention_tokens(s) * attention_width(s);
}

attention_reference attention_reference_make(attention_shape size, double dropout)
{
    return (attention_reference){
        .size = size,
        .dropout = dropout,
        .qkv = op_case_zeros(3 * attention_elements(&size)),
        .dy = op_case_zeros(attention_elements(&size)),
        .y = op_case_zeros(attention_elements(&size)),
        .lse = op_case_zeros(attention_tokens(&size) * size.heads),
        .dqkv = op_case_zeros(3 * attention_elements(&size)),
        .p = op_case_zeros(size.context * size.context),
        .mask = op_case_zeros(size.context * size.context),
    };
}

void attention_reference_free(attention_reference *r)
{
    double *all[] = {r->qkv, r->dy, r->y, r->lse, r->dqkv, r->p, r->mask};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

/* Part 0, 1, 2 of a token: its query, key, value in `data`, which is laid out as qkv. */
static double *row_of(const attention_reference *r, double *data, int64_t sample, int64_t token, int part, int64_t head)
{
    return data + (((sample * r->size.context + token) * 3 + part) * r->size.heads + head) * r->size.head_size;
}

static int64_t out_at(const attention_reference *r, int64_t sample, int64_t token, int64_t head)
{
    return ((sample * r->size.context + token) * r->size.heads + head) * r->size.head_size;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

double attention_mask(const attention_reference *r, int64_t sample, int64_t head, int64_t i, int64_t j)
{
    uint64_t padded = (uint64_t)(r->size.context + 3) / 4 * 4;
    uint64_t e = (uint64_t)(head * r->size.context + i) * padded + (uint64_t)j, group = e / 4;
    lsi_random4 drawn = lsi_random_philox(ATTENTION_KEY, (uint32_t)group, (uint32_t)(ATTENTION_FIRST_SAMPLE + sample),
                                          ATTENTION_STEP, (uint32_t)(group >> 32) * 256 + 2);

    return (double)drawn.v[e % 4] >= r->dropout * 0x1p32 ? 1.0 / (1.0 - r->dropout) : 0.0;
}

/* Probabilities and masks of one head; lse too. */
static void reference_head(attention_reference *r, int64_t s, int64_t h)
{
    int64_t n = r->size.context, size = r->size.head_size;

    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0, *p = r->p + i * n;

        for (int64_t j = 0; j <= i; j++) {
            p[j] = exp(dot(row_of(r, r->qkv, s, i, 0, h), row_of(r, r->qkv, s, j, 1, h), size) / sqrt((double)size));
            sum += p[j];
            r->mask[i * n + j] = attention_mask(r, s, h, i, j);
        }
        for (int64_t j = 0; j <= i; j++) {
            p[j] /= sum;
        }
        r->lse[(s * r->size.heads + h) * n + i] = log(sum);
    }
}

void attention_reference_forward(attention_reference *r)
{
    int64_t n = r->size.context, size = r->size.head_size;

    memset(r->y, 0, (size_t)(attention_elements(&r->size)) * sizeof(double));
    for (int64_t s = 0; s < r->size.samples; s++) {
        for (int64_t h = 0; h < r->size.heads; h++) {
            reference_head(r, s, h);
            for (int64_t i = 0; i < n; i++) {
                double *y = r->y + out_at(r, s, i, h);
                for (int64_t j = 0; j <= i; j++) {
                    const double *v = row_of(r, r->qkv, s, j, 2, h);
                    double weight = r->p[i * n + j] * r->mask[i * n + j];
                    for (int64_t c = 0; c < size; c++) {
                        y[c] += weight * v[c];
                    }
                }
            }
        }
    }
}

void attention_reference_backward(attention_reference *r)
{
    int64_t n = r->size.context, size = r->size.head_size;
    double *dp = op_case_zeros(n);

    for (int64_t s = 0; s < r->size.samples; s++) {
        for (int64_t h = 0; h < r->size.heads; h++) {
            reference_head(r, s, h);
            for (int64_t i = 0; i < n; i++) {
                const double *dy = r->dy + out_at(r, s, i, h), *q = row_of(r, r->qkv, s, i, 0, h);
                double mean = 0.0;
                for (int64_t j = 0; j <= i; j++) {
                    dp[j] = r->mask[i * n + j] * dot(dy, row_of(r, r->qkv, s, j, 2, h), size);
                    mean += r->p[i * n + j] * dp[j];
                }
                for (int64_t j = 0; j <= i; j++) {
                    double p = r->p[i * n + j], ds = p * (dp[j] - mean) / sqrt((double)size);
                    const double *k = row_of(r, r->qkv, s, j, 1, h);
                    for (int64_t c = 0; c < size; c++) {
                        row_of(r, r->dqkv, s, i, 0, h)[c] += ds * k[c];
                        row_of(r, r->dqkv, s, j, 1, h)[c] += ds * q[c];
                        row_of(r, r->dqkv, s, j, 2, h)[c] += p * r->mask[i * n + j] * dy[c];
                    }
                }
            }
        }
    }
    free(dp);
}
