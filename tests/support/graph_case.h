/* Executes a compiled graph, one slot at a time, on the cpu backend, whose memory tests may read and write directly. */
#ifndef LS_TESTS_SUPPORT_GRAPH_CASE_H
#define LS_TESTS_SUPPORT_GRAPH_CASE_H

#include "support/test.h"

#include "graph/param.h"
#include "graph/plan.h"

typedef struct graph_case {
    ls_device *device;
    ls_stream *stream;
    ls_graph *graph;                /* borrowed */
    ls_plan *plan;
    bool trains;
    const lsi_param_table *params;
    ls_dtype compute;
    float *weights, *gradients;     /* flat, f32: the masters */
    void *layer_weights;            /* what layers read: the masters, or their 16-bit copy, made anew for every slot */
    unsigned char *activations;
    void *input;                    /* of one slot, random; the test may change both */
    int32_t *targets;               /* about every seventh is ignored; real ones lie in the same memory as f32 */
    int64_t input_count, targets_count;
    ls_step_state state;
    ls_slot_record record;          /* of the last slot */
    int poison;                     /* fills the activations before a slot; bytes 0xff make NaN of every real */
} graph_case;

/* Rounds n numbers to the nearest ones that `dtype` holds: the tests' own, from the definition of the formats. */
void graph_case_round(float *numbers, int64_t n, ls_dtype dtype);
/* Element i of a view, as f32. */
float graph_case_element(const ls_view *view, int64_t i);

/* Weights are uniform in +-0.4 around 0, or 1 for those of norms, rounded to what the plan's type holds; tokens and
 * targets lie below n_classes, real targets in [-1, 1). */
void graph_case_open(graph_case *c, ls_graph *graph, const ls_compile_options *options, int n_threads,
                     int64_t n_classes);
void graph_case_close(graph_case *c);

/* One slot: forward, and backward in train plans; waits. Returns the sum of the losses. */
double graph_case_run(graph_case *c, int64_t first_sample, bool first_in_lane);

/* Every parameter's gradient against central differences of the loss, along the gradient itself and along random
 * directions. */
void graph_case_check_gradients(graph_case *c);

/* Gradients and loss of f16 and bf16 plans against an f32 plan's on the same weights: off by the type's rounding, no
 * more, and no less, or nothing would have been rounded. */
void graph_case_check_precision(ls_graph *graph, ls_var loss, int64_t micro_batch, int64_t n_classes);

/* |a - b| / |b| in the 2-norm. */
double graph_case_distance(const float *a, const float *b, int64_t n);

#endif
