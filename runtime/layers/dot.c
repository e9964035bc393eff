#include <lockstep/layers.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include "layers/elementwise.h"

static int64_t columns(const ls_layer_node *node)
{
    return node->in_shape[0].dim[node->in_shape[0].rank - 1];
}

static ls_status infer(ls_layer_node *node)
{
    LS_TRY(lsi_elementwise_infer(node));
    LS_REQUIRE(node->out_shape.rank >= 1, LS_ERR_CONFIG, "layer '%s' (dot) needs inputs of at least one extent, not %s",
               node->name, lsi_shape_text(&node->out_shape).text);
    node->out_shape.dim[node->out_shape.rank - 1] = 1;
    node->saves = LS_SAVES_IN(0) | LS_SAVES_IN(1);
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    return lsi_dot_fwd(
        run->stream,
        &(lsi_dot_fwd_args){
            .a = run->in[0], .b = run->in[1], .y = run->out, .rows = run->out.count, .cols = columns(run->node)});
}

static ls_status backward(const ls_layer_run *run)
{
    /* In the order in which the plan has told them to accumulate: both may be one value. */
    for (int i = 1; i >= 0; i--) {
        if (run->d_in[i].count > 0) {
            LS_TRY(lsi_dot_bwd(run->stream, &(lsi_dot_bwd_args){.other = run->in[1 - i],
                                                                .dy = run->d_out,
                                                                .dx = run->d_in[i],
                                                                .rows = run->d_out.count,
                                                                .cols = columns(run->node),
                                                                .accumulate = run->accumulate_in[i]}));
        }
    }
    return LS_OK;
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "dot",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .adds_input_gradient = true,
};

ls_var ls_dot(ls_graph *graph, const char *name, ls_var a, ls_var b)
{
    return ls_layer_append(graph, &kind, name, (const ls_var[]){a, b}, 2, NULL, 0);
}
