/* Graphs of the test's own layers, which compute in wrapping whole numbers on host memory, so that every comparison is
 * exact; in memory of 16 bits lies the lower half of a number, which is what the same sums make of lower halves. Each
 * layer looks at what it is given: every input and its parameter in the forward, every saved value and the whole
 * gradient of its output in the backward. A value that was overwritten too early, a sum that lacks a part or holds one
 * twice, memory shared by mistake, a view of another type, a wrong parameter: all of it fails the test. Kinds differ in
 * what they allow the plan to share. */
#ifndef LS_TESTS_SUPPORT_EXACT_GRAPH_H
#define LS_TESTS_SUPPORT_EXACT_GRAPH_H

#include "support/test.h"

#include <stdbool.h>

#include <lockstep/layer.h>

enum { EXACT_MAX_NODES = 48, EXACT_MAX_COUNT = 200, EXACT_SAMPLES = 3 };

/* The first two take inputs of any counts, the others inputs of equal count. */
enum {
    EXACT_SAVES_IN, EXACT_SAVES_OUT, EXACT_ANY_SHAPE,
    EXACT_IN_PLACE = EXACT_ANY_SHAPE, EXACT_SUM, EXACT_SUM_ONCE, EXACT_OVER_OUT, EXACT_OVER_IN, EXACT_LOSS
};

typedef struct exact_value {
    uint32_t forward[EXACT_MAX_COUNT * EXACT_SAMPLES];      /* what must be there */
    uint32_t gradient[EXACT_MAX_COUNT * EXACT_SAMPLES];
    uint32_t extra[EXACT_MAX_COUNT * EXACT_SAMPLES];
    int64_t count;                                          /* of one sample */
    ls_dtype dtype;                                         /* LS_REAL: the plan's */
    ls_var var;
} exact_value;

typedef struct exact_node {
    const ls_layer_kind *kind;
    int n_in, in[LS_LAYER_MAX_IN], out;
    int param;              /* the node that declared it, -1: none */
    int64_t count;          /* of one sample of the output */
    uint32_t factor[LS_LAYER_MAX_IN];
} exact_node;

/* Value 0 is the input. The layer functions find their node here: one graph at a time, on one thread. */
typedef struct exact_graph {
    ls_graph *graph;
    exact_value values[EXACT_MAX_NODES + 1];
    exact_node nodes[EXACT_MAX_NODES];
    int n_values, n_nodes;
    ls_dtype compute;       /* of the plan that runs */
    bool mixed;             /* every fourth node is f32 in all plans */
    int announced;          /* set by the test's param_need: the next forward must be of a node that reads this
                             * parameter (its declaring node), and sets it back to -1 */
    int turn;               /* node whose backward ran last; -1: an op of the plan itself */
    uint32_t param_gradient[EXACT_MAX_NODES];   /* by declaring node */
    uint32_t draws;                             /* random numbers drawn so far, over all graphs */
} exact_graph;
extern exact_graph exact;

/* A stream whose work is done at once. */
extern ls_stream exact_stream;

uint32_t exact_draw(uint32_t below);
/* A new graph with its input (LS_F32 or LS_I32); the test destroys exact.graph. */
void exact_open(int64_t input_count, ls_dtype input, bool mixed);
/* What weight e of the flat index must hold. */
uint32_t exact_weight(int64_t e);
/* Writes numbers as memory of this type holds them, in a plan of exact.compute; compares; returns the bytes. */
size_t exact_store(void *out, ls_dtype dtype, const uint32_t *numbers, int64_t n);
bool exact_equal(const void *data, ls_dtype dtype, const uint32_t *numbers, int64_t n);
/* The parameter is a new one, or sometimes that of an earlier node. Returns the value. */
int exact_append(int kind, const int *in, int n_in, bool with_param);
/* Fills all `gradient`s: reverse mode, with nothing shared and nothing in place. */
void exact_differentiate(int loss);

#endif
