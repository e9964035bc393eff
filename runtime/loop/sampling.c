#include "loop/sampling.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

static const uint64_t stream = 0x53414D504C494E47u; /* keeps these numbers apart from other uses of a seed */

double lsi_sampling_unit(uint64_t seed, int64_t position)
{
    uint64_t at = (uint64_t)position;
    lsi_random4 r = lsi_random_philox(lsi_random_key(seed, stream), (uint32_t)at, (uint32_t)(at >> 32), 0, 0);

    return ((double)(r.v[0] >> 5) * 0x1p26 + (double)(r.v[1] >> 6)) * 0x1p-53;
}

/* Larger logits first, lower ids first among equals: no two candidates are equal, so that the order is unique. */
static int by_logit(const void *a, const void *b)
{
    const lsi_candidate *x = a, *y = b;

    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The largest logit, the lowest id among equals. */
static int64_t largest(const double *logits, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* logit becomes exp((logit - most) / temperature), at most 1; returns their sum. */
static double weigh(lsi_candidate *candidate, int64_t n, double most, double temperature)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        candidate[i].logit = exp((candidate[i].logit - most) / temperature);
        sum += candidate[i].logit;
    }
    return sum;
}

ls_status lsi_sampling_draw(const lsi_sampling *sampling, const double *logits, int64_t n, int64_t position,
                            lsi_candidate *room, int64_t *out)
{
    int64_t best = largest(logits, n), n_candidates = n;

    for (int64_t i = 0; i < n; i++) {
        LS_REQUIRE(isfinite(logits[i]), LS_ERR_NUMERIC, "the logit of token %lld at position %lld is %g", (long long)i,
                   (long long)position, logits[i]);
        room[i] = (lsi_candidate){logits[i], i};
    }
    if (sampling->temperature == 0) {
        *out = best;
        return LS_OK;
    }
    if (sampling->top_k > 0 && sampling->top_k < n) {
        qsort(room, (size_t)n, sizeof *room, by_logit);
        n_candidates = sampling->top_k;
    }
    double left =
        lsi_sampling_unit(sampling->seed, position) * weigh(room, n_candidates, logits[best], sampling->temperature);

    *out = best; /* where rounding leaves something over behind the last one */
    for (int64_t i = 0; i < n_candidates; i++) {
        if (left < room[i].logit) {
            *out = room[i].id;
            return LS_OK;
        }
        left -= room[i].logit;
    }
    return LS_OK;
}
