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
    float *weights, *gradients;     /* flat */
    unsigned char *activations;
    void *input;                    /* of one slot, random; the test may change both */
    int32_t *targets;               /* about every seventh is ignored */
    int64_t input_count, targets_count;
    ls_step_state state;
    ls_slot_record record;          /* of the last slot */
    int poison;                     /* byte that fills the activations before a slot; 0xff makes NaN of every f32 */
} graph_case;

/* Weights are uniform in +-0.4 around 0, or 1 for those of norms; tokens and targets lie below n_classes. */
void graph_case_open(graph_case *c, ls_graph *graph, const ls_compile_options *options, int n_threads,
                     int64_t n_classes);
void graph_case_close(graph_case *c);

/* One slot: forward, and backward in train plans; waits. Returns the sum of the losses. */
double graph_case_run(graph_case *c, int64_t first_sample, bool first_in_lane);

/* Every parameter's gradient against central differences of the loss, along the gradient itself and along random
 * directions. */
void graph_case_check_gradients(graph_case *c);

/* |a - b| / |b| in the 2-norm. */
double graph_case_distance(const float *a, const float *b, int64_t n);

#endif
