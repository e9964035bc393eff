#include <lockstep/layers.h>

#include <inttypes.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

typedef struct range {
    int64_t first, count;
} range;

static const range *of(const ls_layer_node *node)
{
    return ls_layer_attributes(node);
}

static int64_t pitch(const ls_layer_node *node)
{
    return node->in_shape[0].dim[node->in_shape[0].rank - 1];
}

static ls_status infer(ls_layer_node *node)
{
    const ls_shape *in = &node->in_shape[0];
    int64_t first = of(node)->first, count = of(node)->count;

    LS_REQUIRE(node->in_dtype[0] == LS_REAL && in->rank >= 1, LS_ERR_CONFIG,
               "layer '%s' (columns) needs real input of at least one extent, not %s %s", node->name,
               ls_dtype_name(node->in_dtype[0]), lsi_shape_text(in).text);
    LS_REQUIRE(first >= 0 && count >= 1 && first < pitch(node) && count <= pitch(node) - first, LS_ERR_CONFIG,
               "layer '%s' (columns): %" PRId64 " columns from column %" PRId64 " on, but the input is %s", node->name,
               count, first, lsi_shape_text(in).text);
    node->out_shape = *in;
    node->out_shape.dim[in->rank - 1] = count;
    node->out_dtype = LS_REAL;
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    const range *r = of(run->node);

    return lsi_slice_fwd(run->stream, &(lsi_slice_fwd_args){.x = run->in[0],
                                                            .y = run->out,
                                                            .rows = run->out.count / r->count,
                                                            .pitch = pitch(run->node),
                                                            .first = r->first,
                                                            .count = r->count});
}

static ls_status backward(const ls_layer_run *run)
{
    const range *r = of(run->node);

    return lsi_slice_bwd(run->stream, &(lsi_slice_bwd_args){.dy = run->d_out,
                                                            .dx = run->d_in[0],
                                                            .rows = run->d_out.count / r->count,
                                                            .pitch = pitch(run->node),
                                                            .first = r->first,
                                                            .count = r->count,
                                                            .accumulate = run->accumulate_in[0]});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "columns",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .adds_input_gradient = true,
};

ls_var ls_columns(ls_graph *graph, const char *name, ls_var x, int64_t first, int64_t count)
{
    return ls_layer_append(graph, &kind, name, &x, 1, &(range){first, count}, sizeof(range));
}
