#include "comm/evaluate.h"

#include <string.h>

#include "comm/streaming.h"

/* A tile stays in the first-level cache while the operands stream through. */
enum { TILE = 1024, MAX_DEPTH = LSI_TREE_MAX_ROOTS };

/* Appends the steps for node [lo, hi) and returns the operands used. */
static int plan_node(int lo, int hi, const lsi_span *operands, uint8_t **steps)
{
    int n = 1;

    if (operands->lo != lo || operands->hi != hi) {
        int mid = lsi_tree_mid(lo, hi);

        n = plan_node(lo, mid, operands, steps);
        n += plan_node(mid, hi, operands + n, steps);
    }
    if (*steps != NULL) {
        *(*steps)++ = n == 1 ? LSI_STEP_PUSH : LSI_STEP_ADD;
    }
    return n;
}

int lsi_evaluate_plan(lsi_span target, const lsi_span *operands, uint8_t *steps)
{
    return plan_node(target.lo, target.hi, operands, &steps);
}

static void add(const float *restrict left, const float *restrict right, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = left[i] + right[i];
    }
}

static void add_to(const float *restrict right, size_t n, float *restrict left)
{
    for (size_t i = 0; i < n; i++) {
        left[i] = left[i] + right[i];
    }
}

void lsi_evaluate_range(const uint8_t *steps, int n_steps, const float *const *operands, size_t first, size_t n,
                        const lsi_evaluate_out *outs, int n_outs)
{
    _Alignas(64) float tiles[MAX_DEPTH][TILE];      /* the sum at each depth of the stack */
    const float *stack[MAX_DEPTH];

    for (size_t at = first; at < first + n; at += TILE) {
        size_t length = first + n - at < TILE ? first + n - at : TILE;
        int depth = 0, next = 0;

        for (int i = 0; i < n_steps; i++) {
            if (steps[i] == LSI_STEP_PUSH) {
                stack[depth++] = operands[next++] + at;
                continue;
            }
            depth--;
            float *sum = tiles[depth - 1];
            if (stack[depth - 1] == sum) {
                add_to(stack[depth], length, sum);
            } else {
                add(stack[depth - 1], stack[depth], length, sum);
            }
            stack[depth - 1] = sum;
        }
        for (int i = 0; i < n_outs; i++) {
            if (outs[i].streams) {
                lsi_streaming_copy(outs[i].data + at, stack[0], length * sizeof *stack[0]);
            } else if (stack[0] != outs[i].data + at) {
                memcpy(outs[i].data + at, stack[0], length * sizeof *stack[0]);
            }
        }
    }
}

void lsi_evaluate(const uint8_t *steps, int n_steps, const float *const *operands, size_t n, float *out)
{
    lsi_evaluate_range(steps, n_steps, operands, 0, n, &(lsi_evaluate_out){.data = out}, 1);
}
