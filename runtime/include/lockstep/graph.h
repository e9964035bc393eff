/* Static graphs: build once, compile into plans.
 *
 * Shapes are those of one sample; a plan runs a slot of `micro_batch` samples. Builders never fail in the caller's
 * face: the graph keeps its first error, with the layer's name, later calls do nothing, and ls_graph_compile reports
 * it. */
#ifndef LS_GRAPH_H
#define LS_GRAPH_H

#include <lockstep/status.h>
#include <lockstep/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_graph ls_graph;
typedef struct ls_plan ls_plan;
/* A value of the graph that made it; copy freely. graph NULL is "none". */
typedef struct ls_var {
    int id;
    const ls_graph *graph;
} ls_var;

/* train: forward and backward; eval: forward to the loss, no dropout; infer: forward to the outputs, no targets. */
typedef enum ls_mode { LS_TRAIN, LS_EVAL, LS_INFER } ls_mode;

enum { LS_MAX_OUTPUTS = 4 };

typedef struct ls_compile_options {
    size_t struct_size;
    ls_mode mode;
    int64_t micro_batch;            /* samples of one slot, at least 1 */
    ls_dtype compute;               /* LS_F32, LS_F16 or LS_BF16: of activations, their gradients and the weights that
                                     * layers read; weight gradients, statistics and losses are f32 all the same */
    ls_var loss;                    /* made by a loss layer; none under LS_INFER */
    int n_outputs;                  /* values that stay readable after the forward, in the plan's type */
    ls_var output[LS_MAX_OUTPUTS];
} ls_compile_options;

LS_MUST_USE ls_status ls_graph_create(ls_graph **out);
/* Destroys its plans too. Accepts NULL and clears the pointer. */
void ls_graph_destroy(ls_graph **graph);

/* Values that come from the data set: exactly one input and, for a loss, one row of targets per sample. dtype is what
 * the data set stores; f32 is converted once, at the plan's entry, where the plan computes in 16 bits. Targets are
 * int32 or, for regression, f32; they stay as they are, and only a loss reads them. The data set must have the same. */
ls_var ls_input(ls_graph *graph, const char *name, ls_dtype dtype, ls_shape per_sample);
ls_var ls_targets(ls_graph *graph, const char *name, int64_t per_sample);
ls_var ls_targets_f32(ls_graph *graph, const char *name, int64_t per_sample);

/* Reports the graph's first error, or makes a plan. Plans of one graph share its parameters; the graph owns them and
 * takes no further layers after the first compile. */
LS_MUST_USE ls_status ls_graph_compile(ls_graph *graph, const ls_compile_options *options, ls_plan **out);

#ifdef __cplusplus
}
#endif
#endif
