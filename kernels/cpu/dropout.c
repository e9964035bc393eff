/* Dropout: y = x * mask / (1 - probability), the mask drawn anew from the counters at every call. */
#include "kernels/cpu/convert.h"
#include "kernels/dropout.h"

enum { DROPOUT_CHUNK = 16384 };     /* elements per block, a multiple of LSI_DROPOUT_WORDS */

typedef struct dropout_run {
    const lsi_dropout_args *arguments;
    int64_t chunks;                 /* per sample */
    int64_t samples_per_block;      /* more than 1 only where a sample is one chunk */
    int64_t samples;
    lsi_dropout_rule rule;
} dropout_run;

/* The words of elements [first, first + LSI_DROPOUT_WORDS) of a sample; first is a multiple of 4. */
static void draw(const lsi_dropout_args *a, uint32_t sample, int64_t first, uint32_t *words)
{
    uint32_t group = (uint32_t)(first / 4), step = (uint32_t)a->state->attempted;

#pragma omp simd
    for (int l = 0; l < LSI_DROPOUT_WORDS / 4; l++) {
        lsi_random4 r = lsi_random_philox(a->key, group + (uint32_t)l, sample, step, 0);

        words[4 * l] = r.v[0];
        words[4 * l + 1] = r.v[1];
        words[4 * l + 2] = r.v[2];
        words[4 * l + 3] = r.v[3];
    }
}

static void drop_range(const dropout_run *run, int64_t s, int64_t begin, int64_t end)
{
    const lsi_dropout_args *a = run->arguments;
    const uint32_t threshold = run->rule.threshold;
    const float scale = run->rule.scale;
    float x_tile[LSI_DROPOUT_WORDS], y_tile[LSI_DROPOUT_WORDS];
    uint32_t words[LSI_DROPOUT_WORDS];

    for (int64_t e = begin; e < end; e += LSI_DROPOUT_WORDS) {
        int64_t n = lsi_min(LSI_DROPOUT_WORDS, end - e), at = s * a->per_sample + e;
        const float *x = lsi_convert_load(&a->x, at, n, x_tile);
        float *y = lsi_convert_target(&a->y, at, y_tile);

        draw(a, (uint32_t)(a->first_sample + s), e, words);
#pragma omp simd
        for (int64_t l = 0; l < n; l++) {
            float kept = x[l] * scale;

            y[l] = words[l] >= threshold ? kept : 0.0f;
        }
        lsi_convert_store(&a->y, at, n, y);
    }
}

static void dropout_block(void *argument, int64_t block)
{
    const dropout_run *run = argument;
    int64_t first = block / run->chunks * run->samples_per_block, chunk = block % run->chunks;
    int64_t last = lsi_min(first + run->samples_per_block, run->samples);

    for (int64_t s = first; s < last; s++) {
        drop_range(run, s, chunk * DROPOUT_CHUNK, lsi_min((chunk + 1) * DROPOUT_CHUNK, run->arguments->per_sample));
    }
}

static void copy_block(void *argument, int64_t block)
{
    const dropout_run *run = argument;
    const lsi_dropout_args *a = run->arguments;
    size_t element = ls_dtype_bytes(a->x.dtype), at = (size_t)block * DROPOUT_CHUNK * element;
    int64_t n = lsi_min(DROPOUT_CHUNK, a->x.count - block * DROPOUT_CHUNK);

    memcpy((char *)a->y.data + at, (const char *)a->x.data + at, (size_t)n * element);
}

ls_status LSI_CPU_KERNEL(dropout)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_dropout_args *a = arguments;
    dropout_run r = {.arguments = a};

    LS_TRY(lsi_dropout_rule_make(a->probability, &r.rule));
    LS_TRY(LSI_CONVERT_CHECK("dropout", &a->x, &a->y));
    if (a->x.count == 0) {
        return LS_OK;
    }
    LS_REQUIRE(a->per_sample > 0 && a->x.count % a->per_sample == 0, LS_ERR_INTERNAL,
               "dropout: %lld elements are not whole samples of %lld", (long long)a->x.count, (long long)a->per_sample);
    LS_REQUIRE(a->per_sample <= INT64_C(4) << 32, LS_ERR_INTERNAL,
               "dropout: %lld elements per sample, at most 2^34 can be counted", (long long)a->per_sample);
    if (r.rule.threshold == 0) {
        if (a->x.data != a->y.data) {
            ls_parallel_for(run, lsi_blocks(a->x.count, DROPOUT_CHUNK), copy_block, &r);
        }
        return LS_OK;
    }
    r.samples = a->x.count / a->per_sample;
    r.chunks = lsi_blocks(a->per_sample, DROPOUT_CHUNK);
    r.samples_per_block = r.chunks > 1 ? 1 : DROPOUT_CHUNK / a->per_sample;
    ls_parallel_for(run, lsi_blocks(r.samples, r.samples_per_block) * r.chunks, dropout_block, &r);
    return LS_OK;
}
