/* Causal attention in double, as the textbook has it: with a T x T matrix. Layouts and dropout are those of ops.def. */
#ifndef LS_TESTS_SUPPORT_ATTENTION_REFERENCE_H
#define LS_TESTS_SUPPORT_ATTENTION_REFERENCE_H

#include <stdint.h>

typedef struct attention_shape {
    int64_t samples, context, heads, head_size;
} attention_shape;

/* What the masks are drawn with: first sample, attempted steps, key. */
enum { ATTENTION_FIRST_SAMPLE = 5, ATTENTION_STEP = 41, ATTENTION_KEY = 77 };

typedef struct attention_reference {
    attention_shape size;
    double dropout;
    double *qkv, *dy;
    double *y, *lse, *dqkv;
    double *p, *mask;       /* [context, context] of one head */
} attention_reference;

int64_t attention_tokens(const attention_shape *s);
int64_t attention_width(const attention_shape *s);
int64_t attention_elements(const attention_shape *s);      /* of y; qkv has three times as many */

/* All zero. */
attention_reference attention_reference_make(attention_shape size, double dropout);
void attention_reference_free(attention_reference *r);
/* The factor of query i and key j: the formula of ops.def, one element at a time. */
double attention_mask(const attention_reference *r, int64_t sample, int64_t head, int64_t i, int64_t j);
/* y and lse from qkv. */
void attention_reference_forward(attention_reference *r);
/* Adds to dqkv, from qkv and dy: through the softmax by its Jacobian. */
void attention_reference_backward(attention_reference *r);

#endif
