#include "layers/elementwise.h"

#include "graph/shape.h"

ls_status lsi_elementwise_infer(ls_layer_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        LS_REQUIRE(node->in_dtype[i] == LS_REAL, LS_ERR_CONFIG, "layer '%s' (%s) needs real input, not %s %s",
                   node->name, node->kind->name, ls_dtype_name(node->in_dtype[i]),
                   lsi_shape_text(&node->in_shape[i]).text);
        LS_REQUIRE(lsi_shape_equal(&node->in_shape[i], &node->in_shape[0]), LS_ERR_CONFIG,
                   "layer '%s' (%s) needs inputs of one shape, not %s and %s", node->name, node->kind->name,
                   lsi_shape_text(&node->in_shape[0]).text, lsi_shape_text(&node->in_shape[i]).text);
    }
    node->out_shape = node->in_shape[0];
    node->out_dtype = LS_REAL;
    return LS_OK;
}
