/* A compiled graph: an order of layers, a place in one activation block for every value, and the executor. */
#ifndef LSI_GRAPH_PLAN_H
#define LSI_GRAPH_PLAN_H

#include "backend/ranges.h"
#include "graph/param.h"
#include <lockstep/backend.h>
#include <lockstep/graph.h>
#include <lockstep/step_state.h>

/* One slot's execution. Everything is device memory and borrowed. */
typedef struct lsi_plan_run {
    ls_stream *stream;
    ls_step_state *state;
    const void *weights;            /* flat, in the plan's compute type */
    float *gradients;               /* flat, of the lane; train only */
    void *activations;              /* lsi_plan_activation_bytes */
    const void *input;              /* micro_batch samples */
    const void *targets;            /* int32 or f32, as the graph says */
    ls_slot_record *record;
    int64_t first_sample;           /* index in the global batch of the slot's first sample */
    uint64_t seed;
    float loss_seed;
    lsi_ranges *ranges;             /* for profilers; NULL: none */
    bool first_in_lane;             /* weight gradients are overwritten, not added to */
    /* Optional, called while queueing. need: once for each parameter that the plan reads, right before the first layer
     * that reads it in the forward. done: once for each parameter, right behind the last layer that writes its gradient
     * in the backward. A parameter that several layers share is announced once, too. */
    ls_status (*param_need)(void *argument, int param);
    ls_status (*param_done)(void *argument, int param);
    void (*at_layer)(void *argument, const char *name);     /* before each layer's forward and backward */
    void *hook_argument;
} lsi_plan_run;

size_t lsi_plan_activation_bytes(const ls_plan *plan);
int64_t lsi_plan_micro_batch(const ls_plan *plan);
LS_MUST_USE ls_status lsi_plan_forward(const ls_plan *plan, const lsi_plan_run *run);
LS_MUST_USE ls_status lsi_plan_backward(const ls_plan *plan, const lsi_plan_run *run);
/* Output i of the compile options, inside `activations`, in the plan's type (losses: f32); valid after the forward. */
ls_view lsi_plan_output(const ls_plan *plan, int i, void *activations);
/* The plan as text: one line per layer with shapes, saved values and offsets. */
struct lsi_text;
LS_MUST_USE ls_status lsi_plan_print(const ls_plan *plan, struct lsi_text *out);

/* What the data set must provide: the graph's input and targets of one sample. targets_count 0: none. */
typedef struct lsi_graph_io {
    ls_dtype input_dtype;
    ls_shape input_shape;
    int64_t targets_count;
    ls_dtype targets_dtype;     /* LS_I32 or LS_F32 */
} lsi_graph_io;
void lsi_graph_get_io(const ls_graph *graph, lsi_graph_io *out);

#endif
