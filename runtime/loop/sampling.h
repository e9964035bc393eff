/* Draws the next token from logits: a pure function of its arguments, in double. */
#ifndef LSI_LOOP_SAMPLING_H
#define LSI_LOOP_SAMPLING_H

#include <stdint.h>

#include <lockstep/status.h>

typedef struct lsi_sampling {
    double temperature; /* divides the logits; 0: the largest logit, the lowest id among equals */
    int64_t top_k;      /* only the k largest logits may be drawn, lower ids first among equals; 0: all */
    uint64_t seed;
} lsi_sampling;

/* One id with its logit, where the candidates are put in order. */
typedef struct lsi_candidate {
    double logit;
    int64_t id;
} lsi_candidate;

/* Uniform in [0, 1) with 53 bits: a function of seed and position alone. */
double lsi_sampling_unit(uint64_t seed, int64_t position);

/* The token at `position` of the text (from 0): inverts the cumulative probabilities, in the order of ids where all may
 * be drawn, else of falling logits, at lsi_sampling_unit. logits[n], n >= 1; `room` has n items and is overwritten.
 * ERR_NUMERIC when a logit is not finite. */
LS_MUST_USE ls_status lsi_sampling_draw(const lsi_sampling *sampling, const double *logits, int64_t n, int64_t position,
                                        lsi_candidate *room, int64_t *out);

#endif
