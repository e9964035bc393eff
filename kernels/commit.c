/* The decision at the end of a step. Every rank gets the same gathered values and walks them in the same order: by slot
 * and by block, never by rank, so that the number of ranks changes no bit. */
#include "kernels/commit.h"

#include <math.h>

typedef struct totals {
    double loss_sum, counted, hits;     /* over the slots */
    double squares;                     /* of the accumulated, still scaled gradient */
    double runs_wrong;                  /* slots that did not run exactly once */
    int64_t bad_element;                /* first in flat order; -1: none */
} totals;

static totals sum_up(const lsi_commit_args *a)
{
    const double *values = a->values.data;
    const int32_t *record_index = a->record_index.data, *block_index = a->block_index.data;
    totals t = {.bad_element = -1};

    for (int64_t s = 0; s < a->record_index.count; s++) {
        const ls_slot_record *record = (const ls_slot_record *)(const void *)(values + record_index[s]);

        t.loss_sum += record->loss_sum;
        t.counted += record->counted;
        t.hits += record->hits;
        t.runs_wrong += record->runs != 1.0;
    }
    for (int64_t b = 0; b < a->block_index.count; b++) {
        double sum = values[block_index[b]];

        t.squares += sum;
        if (t.bad_element < 0 && lsi_bad_element(sum) >= 0) {
            t.bad_element = b * LSI_BLOCK + lsi_bad_element(sum);
        }
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

/* PyTorch's GradScaler.update() after a good step, with an upper bound and hysteresis: tolerated overflows come back
 * when the scale grows, and only then. A scale that would leave the range of floats stays. */
static void grow_scale(const lsi_commit_args *a, ls_step_state *state)
{
    double grown = (double)state->loss_scale * a->growth;

    state->growth_tracker += 1;
    if (state->growth_tracker < a->growth_interval) {   /* past it after a resume with a shorter interval */
        return;
    }
    grown = grown < a->scale_max ? grown : a->scale_max;
    if (isfinite((float)grown)) {
        state->loss_scale = (float)grown;
    }
    state->growth_tracker = 0;
    state->hysteresis_left = a->hysteresis;
}

/* The same after an overflow. Once the tolerated ones are used up, every further one backs off. */
static void back_off_scale(const lsi_commit_args *a, ls_step_state *state)
{
    double less = (double)state->loss_scale * a->backoff;

    state->growth_tracker = 0;
    state->hysteresis_left -= state->hysteresis_left > 0;
    if (state->hysteresis_left == 0) {
        state->loss_scale = (float)(less > a->scale_min ? less : a->scale_min);
    }
}

/* At a scale that can still fall an overflow is how the scale is found; anywhere else it is a bad sign. */
static int counts_for_give_up(const lsi_commit_args *a, double scale)
{
    return !a->dynamic || scale <= a->scale_min || a->backoff >= 1;
}

static void drop_step(const lsi_commit_args *a, ls_step_state *state)
{
    state->skipped += 1;
    state->in_a_row = counts_for_give_up(a, (double)state->loss_scale) ? state->in_a_row + 1 : 0;
    if (a->dynamic) {
        back_off_scale(a, state);
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
    if (t->counted == 0.0) {    /* no target in the whole batch says nothing about the numbers: neither good nor bad */
        state->unscale = 0.0;
        state->grad_norm = 0.0;
        state->loss = (double)NAN;
        return;
    }
    /* Before the scale changes: the gradients are those of the scale that the backward ran with. */
    state->unscale = a->seed_inverse / ((double)state->loss_scale * t->counted);
    state->grad_norm = sqrt(t->squares) * state->unscale;
    state->loss = t->loss_sum / t->counted;
    if (!isfinite(t->squares) || !isfinite(t->loss_sum)) {
        drop_step(a, state);
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
    if (a->dynamic) {
        grow_scale(a, state);
    }
}

void lsi_commit_decide(const lsi_commit_args *arguments)
{
    const lsi_commit_args *a = arguments;
    ls_step_result *result = a->result.data;
    totals t = sum_up(a);

    result->scale_used = a->state->loss_scale;
    decide(a, &t, a->state);
    result->state = *a->state;
    result->hits = t.hits;
    take_header_maxima(a, result->header);
    result->runs_wrong = t.runs_wrong;
    result->reserved = 0;
    result->bad_element = t.bad_element;
}
