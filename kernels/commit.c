/* The decision at the end of a step. Every rank gets the same gathered values and walks them in the same order: by slot
 * and by block, never by rank, so that the number of ranks changes no bit. */
#include "kernels/commit.h"

#include <math.h>

typedef struct totals {
    double loss_sum, counted, hits;     /* over the slots */
    double squares;                     /* of the accumulated, still scaled gradient */
    double runs_wrong;                  /* slots that did not run exactly once */
} totals;

static totals sum_up(const lsi_commit_args *a)
{
    const double *values = a->values.data;
    const int32_t *record_index = a->record_index.data, *block_index = a->block_index.data;
    totals t = {0};

    for (int64_t s = 0; s < a->record_index.count; s++) {
        const ls_slot_record *record = (const ls_slot_record *)(const void *)(values + record_index[s]);

        t.loss_sum += record->loss_sum;
        t.counted += record->counted;
        t.hits += record->hits;
        t.runs_wrong += record->runs != 1.0;
    }
    for (int64_t b = 0; b < a->block_index.count; b++) {
        t.squares += values[block_index[b]];
    }
    return t;
}

static void take_header_maxima(const lsi_commit_args *a, double *header)
{
    const double *values = a->values.data;

    for (int i = 0; i < LS_EXCHANGE_HEADER; i++) {
        header[i] = values[i];
        for (int64_t rank = 1; rank < a->world; rank++) {
            double value = values[rank * a->rank_stride + i];

            header[i] = value > header[i] ? value : header[i];
        }
    }
}

static void decide(const lsi_commit_args *a, const totals *t, ls_step_state *state)
{
    const double *rates = a->rates.data;

    state->attempted += 1;
    state->learning_rate = (float)rates[1 + state->applied - (int64_t)rates[0]];
    state->counted = (int64_t)t->counted;
    state->clip_factor = 1.0f;
    state->skip = 1;
    if (t->counted == 0.0) {    /* no target in the whole batch says nothing about the numbers: not a bad step */
        state->unscale = 0.0;
        state->grad_norm = 0.0;
        state->loss = (double)NAN;
        return;
    }
    state->unscale = a->seed_inverse / ((double)state->loss_scale * t->counted);
    state->grad_norm = sqrt(t->squares) * state->unscale;
    state->loss = t->loss_sum / t->counted;
    if (!isfinite(t->squares) || !isfinite(t->loss_sum)) {
        state->in_a_row += 1;
        return;
    }
    if (a->clip > 0.0 && a->clip / (state->grad_norm + 1e-6) < 1.0) {
        state->clip_factor = (float)(a->clip / (state->grad_norm + 1e-6));
    }
    state->skip = 0;
    state->in_a_row = 0;
    state->applied += 1;
    state->beta1_power *= a->beta1;
    state->beta2_power *= a->beta2;
}

void lsi_commit_decide(const lsi_commit_args *arguments)
{
    const lsi_commit_args *a = arguments;
    ls_step_result *result = a->result.data;
    totals t = sum_up(a);

    decide(a, &t, a->state);
    result->state = *a->state;
    result->hits = t.hits;
    take_header_maxima(a, result->header);
    result->runs_wrong = t.runs_wrong;
}
