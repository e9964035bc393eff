/* A compiled plan, and what the files that make it share.
 *
 * Times: step p of n runs its forward at p and its backward at 2n - 1 - p; 2n is after everything. */
#ifndef LSI_GRAPH_COMPILE_H
#define LSI_GRAPH_COMPILE_H

#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "graph/plan.h"

/* Where a value lives: a buffer of the plan (>= 0), or one of these. */
enum { LSI_BUFFER_NONE = -1, LSI_BUFFER_INPUT = -2, LSI_BUFFER_TARGETS = -3 };

/* One layer's turn. */
typedef struct lsi_step {
    const lsi_node *node;
    int in[LS_LAYER_MAX_IN], out, saved[LS_LAYER_MAX_SAVED];
    bool first_reader[LS_LAYER_MAX_PARAMS];     /* of the parameter, in the forward */
    int gelu_out, gelu_in;                      /* buffers of ls_layer_run's views of that name; none: not asked for */
    int sum_of[2];                              /* likewise */
    bool forward_elsewhere, backward_elsewhere; /* another step does it, or this one's forward does: graph/fuse.c */
    bool forward_makes_d_in;                    /* of input 0 */

    bool backward;                              /* has one in this plan; the rest is about it */
    int d_out;
    int d_in[LS_LAYER_MAX_IN];                  /* what backward writes; none: not wanted, or shared with d_out */
    int sum_in[LS_LAYER_MAX_IN];                /* d_in is a temporary to be added to this; none: it is not */
    bool accumulate_in[LS_LAYER_MAX_IN];
    bool first_writer[LS_LAYER_MAX_PARAMS], last_writer[LS_LAYER_MAX_PARAMS];   /* of the parameter's gradient */
} lsi_step;

struct ls_plan {
    ls_plan *next;
    const ls_graph *graph;
    ls_mode mode;
    ls_dtype compute;               /* what LS_REAL stands for */
    int64_t micro_batch;
    int n_steps;
    lsi_step *step;
    int n_buffers;
    lsi_memory_request *buffer;     /* bytes, lifetime, offset */
    lsi_memory_size size;
    int n_outputs;
    int output[LS_MAX_OUTPUTS];     /* values */
    int output_buffer[LS_MAX_OUTPUTS];
    bool reads_input, reads_targets;
    int converted_input;            /* buffer of the input in the plan's type; none: it is read as it comes */
};

/* Working state of one compilation. Arrays are indexed by value. */
typedef struct lsi_compiler {
    const ls_graph *graph;
    ls_plan *plan;
    int loss;           /* value, -1: none */
    int *root;          /* the value that stands for it: another one behind layers that the plan leaves out */
    int *maker;         /* step, -1: none */
    int *last;          /* time of the last read of the value itself, saved for the backward or not */
    int *buffer;
    bool *needed;       /* an output or the loss depends on it */
    bool *on_path;      /* the loss depends on it */
    bool *trained;      /* it depends on parameters, so it needs a gradient if it is on the path */
} lsi_compiler;

/* The type in memory of what a layer describes as `dtype`. */
static inline ls_dtype lsi_compile_dtype(const ls_plan *plan, ls_dtype dtype)
{
    return dtype == LS_REAL ? plan->compute : dtype;
}
/* New buffer of the plan for `count` elements of each sample, live at [begin, end]. */
int lsi_compile_buffer(ls_plan *plan, const ls_shape *shape, ls_dtype dtype, int begin, int end);
static inline int lsi_compile_backward_time(const ls_plan *plan, int step)
{
    return 2 * plan->n_steps - 1 - step;
}
/* Gives the gradients of a train plan their buffers and the steps their backward. */
LS_MUST_USE ls_status lsi_gradient_plan(lsi_compiler *compiler);
/* Once all buffers have their lifetimes, which it may lengthen: gives gelus to the products next to them, sums to the
 * norms behind them, and a loss's gradient to its forward. */
void lsi_fuse(lsi_compiler *compiler);

#endif
