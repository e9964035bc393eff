#include <lockstep/layers.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

static int64_t columns(const ls_shape *shape)
{
    return shape->dim[shape->rank - 1];
}

static ls_status infer(ls_layer_node *node)
{
    const ls_shape *a = &node->in_shape[0], *b = &node->in_shape[1];
    ls_shape alike = *b;

    LS_REQUIRE(node->in_dtype[0] == LS_REAL && node->in_dtype[1] == LS_REAL && a->rank >= 1, LS_ERR_CONFIG,
               "layer '%s' (concat) needs real inputs of at least one extent, not %s %s and %s %s", node->name,
               ls_dtype_name(node->in_dtype[0]), lsi_shape_text(a).text, ls_dtype_name(node->in_dtype[1]),
               lsi_shape_text(b).text);
    alike.dim[a->rank - 1] = columns(a);
    LS_REQUIRE(lsi_shape_equal(a, &alike), LS_ERR_CONFIG,
               "layer '%s' (concat) needs inputs that differ in the last extent alone, not %s and %s", node->name,
               lsi_shape_text(a).text, lsi_shape_text(b).text);
    node->out_shape = *a;
    node->out_shape.dim[a->rank - 1] = columns(a) + columns(b);
    node->out_dtype = LS_REAL;
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    int64_t a_cols = columns(&run->node->in_shape[0]), b_cols = columns(&run->node->in_shape[1]);

    return lsi_concat(run->stream, &(lsi_concat_args){.a = run->in[0],
                                                      .b = run->in[1],
                                                      .y = run->out,
                                                      .rows = run->out.count / (a_cols + b_cols),
                                                      .a_cols = a_cols,
                                                      .b_cols = b_cols});
}

static ls_status backward(const ls_layer_run *run)
{
    int64_t a_cols = columns(&run->node->in_shape[0]), pitch = columns(&run->node->out_shape);

    for (int i = 1; i >= 0; i--) {
        if (run->d_in[i].count > 0) {
            LS_TRY(lsi_slice_fwd(run->stream, &(lsi_slice_fwd_args){.x = run->d_out,
                                                                    .y = run->d_in[i],
                                                                    .rows = run->d_out.count / pitch,
                                                                    .pitch = pitch,
                                                                    .first = i == 0 ? 0 : a_cols,
                                                                    .count = i == 0 ? a_cols : pitch - a_cols}));
        }
    }
    return LS_OK;
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "concat",
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

ls_var ls_concat(ls_graph *graph, const char *name, ls_var a, ls_var b)
{
    return ls_layer_append(graph, &kind, name, (const ls_var[]){a, b}, 2, NULL, 0);
}
