/* The decision at the end of a step, as plain arithmetic for every backend's commit op: one thread, double. Every rank
 * gets the same gathered values and walks them in the same order: by slot and by block, never by rank, so that the
 * number of ranks changes no bit. How the values are fetched is the backend's; the sums and the decision are here. */
#ifndef LSI_KERNELS_COMMIT_DECIDE_H
#define LSI_KERNELS_COMMIT_DECIDE_H

#include "base/host_device.h"
#include "kernels/commit.h"

#include <math.h>

typedef struct lsi_commit_totals {
    double loss_sum, counted, hits;     /* over the slots */
    double squares;                     /* of the accumulated, still scaled gradient */
    double runs_wrong;                  /* slots that did not run exactly once */
    int64_t bad_element;                /* first in flat order; -1: none */
} lsi_commit_totals;

LSI_HOST_DEVICE static inline lsi_commit_totals lsi_commit_nothing(void)
{
    lsi_commit_totals t = {0.0, 0.0, 0.0, 0.0, 0.0, -1};

    return t;
}

LSI_HOST_DEVICE static inline void lsi_commit_add_slot(lsi_commit_totals *t, const ls_slot_record *record)
{
    t->loss_sum += record->loss_sum;
    t->counted += record->counted;
    t->hits += record->hits;
    t->runs_wrong += record->runs != 1.0 ? 1.0 : 0.0;
}

LSI_HOST_DEVICE static inline void lsi_commit_add_block(lsi_commit_totals *t, int64_t block, double sum)
{
    t->squares += sum;
    if (t->bad_element < 0 && lsi_bad_element(sum) >= 0) {
        t->bad_element = block * LSI_BLOCK + lsi_bad_element(sum);
    }
}

/* PyTorch's GradScaler.update() after a good step, with an upper bound and hysteresis: tolerated overflows come back
 * when the scale grows, and only then. A scale that would leave the range of floats stays. */
LSI_HOST_DEVICE static inline void lsi_commit_grow_scale(const lsi_commit_args *a, ls_step_state *state)
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
LSI_HOST_DEVICE static inline void lsi_commit_back_off_scale(const lsi_commit_args *a, ls_step_state *state)
{
    double less = (double)state->loss_scale * a->backoff;

    state->growth_tracker = 0;
    state->hysteresis_left -= state->hysteresis_left > 0 ? 1 : 0;
    if (state->hysteresis_left == 0) {
        state->loss_scale = (float)(less > a->scale_min ? less : a->scale_min);
    }
}

LSI_HOST_DEVICE static inline void lsi_commit_drop_step(const lsi_commit_args *a, ls_step_state *state)
{
    /* At a scale that can still fall an overflow is how the scale is found; anywhere else it is a bad sign. */
    bool counts_for_give_up = !a->dynamic || (double)state->loss_scale <= a->scale_min || a->backoff >= 1;

    state->skipped += 1;
    state->in_a_row = counts_for_give_up ? state->in_a_row + 1 : 0;
    if (a->dynamic) {
        lsi_commit_back_off_scale(a, state);
    }
}

LSI_HOST_DEVICE static inline void lsi_commit_step(const lsi_commit_args *a, const lsi_commit_totals *t,
                                                   ls_step_state *state)
{
    const double *rates = (const double *)a->rates.data;

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
        lsi_commit_drop_step(a, state);
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
        lsi_commit_grow_scale(a, state);
    }
}

LSI_HOST_DEVICE static inline void lsi_commit_take_maxima(const lsi_commit_args *a, double *header)
{
    const double *values = (const double *)a->values.data;

    for (int i = 0; i < LS_EXCHANGE_HEADER; i++) {
        header[i] = values[i];
        for (int64_t rank = 1; rank < a->world; rank++) {
            double value = values[rank * a->rank_stride + i];

            header[i] = value > header[i] ? value : header[i];
        }
    }
}

/* Decides skip, clip factor, learning rate, Adam's powers, loss scale and counters from the totals, and writes the
 * result for the host. */
LSI_HOST_DEVICE static inline void lsi_commit_finish(const lsi_commit_args *a, const lsi_commit_totals *t)
{
    ls_step_result *result = (ls_step_result *)a->result.data;

    result->scale_used = a->state->loss_scale;
    lsi_commit_step(a, t, a->state);
    result->state = *a->state;
    result->hits = t->hits;
    lsi_commit_take_maxima(a, result->header);
    result->runs_wrong = t->runs_wrong;
    result->reserved = 0;
    result->bad_element = t->bad_element;
}

/* A run of n doubles at `start` lies inside one rank's message, behind its header. */
LSI_HOST_DEVICE static inline bool lsi_commit_fits(const lsi_commit_args *a, int64_t start, int64_t n)
{
    return start >= 0 && start < a->world * a->rank_stride && start % a->rank_stride >= LS_EXCHANGE_HEADER &&
           start % a->rank_stride + n <= a->rank_stride;
}

#endif
