/* Sums over a part of the tree, in f32. */
#ifndef LSI_COMM_EVALUATE_H
#define LSI_COMM_EVALUATE_H

#include "comm/tree.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Postfix order: push the next operand, or replace the two on top by left + right. */
enum { LSI_STEP_PUSH, LSI_STEP_ADD };

/* Steps that make node `target` of operands that are nodes of the tree and together cover it, ascending: 2n - 1 steps
 * for n operands. `steps` may be NULL. Returns the number of operands used. */
int lsi_evaluate_plan(lsi_span target, const lsi_span *operands, uint8_t *steps);

/* out[0 .. n-1] = the sum. `out` may be one of the operands; otherwise they do not overlap. */
void lsi_evaluate(const uint8_t *steps, int n_steps, const float *const *operands, size_t n, float *out);
/* Where a sum goes. */
typedef struct lsi_evaluate_out {
    float *data;                /* may be one of the operands */
    bool streams;               /* past the caches: for large vectors, where it is no operand */
} lsi_evaluate_out;

/* Likewise for elements first .. first + n - 1, into all of `outs`. */
void lsi_evaluate_range(const uint8_t *steps, int n_steps, const float *const *operands, size_t first, size_t n,
                        const lsi_evaluate_out *outs, int n_outs);

#endif
