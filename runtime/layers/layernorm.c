#include <lockstep/layers.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

static const float epsilon = 1e-5f;

static int64_t columns(const ls_layer_node *node)
{
    return node->out_shape.dim[node->out_shape.rank - 1];
}

static ls_status infer(ls_layer_node *node)
{
    const ls_shape *in = &node->in_shape[0];

    LS_REQUIRE(node->in_dtype[0] == LS_REAL && in->rank >= 1, LS_ERR_CONFIG,
               "layer '%s' (layernorm) needs real input of at least one extent, not %s %s", node->name,
               ls_dtype_name(node->in_dtype[0]), lsi_shape_text(in).text);
    node->out_shape = *in;
    node->out_dtype = LS_REAL;
    ls_shape shape = ls_shape1(columns(node)), rows = *in;
    ls_param_spec *weight = ls_layer_add_param(node, node->name, "weight", shape, (ls_init){LS_INIT_CONSTANT, 1.0f});
    ls_param_spec *bias = ls_layer_add_param(node, node->name, "bias", shape, (ls_init){LS_INIT_CONSTANT, 0.0f});

    if (weight == NULL || bias == NULL) {
        return LS_ERR_CONFIG;
    }
    rows.rank--;
    node->n_saved = 2;
    node->saved[0] = (ls_saved_spec){rows, LS_F32};
    node->saved[1] = (ls_saved_spec){rows, LS_F32};
    node->saves = LS_SAVES_IN(0);
    return LS_OK;
}

static ls_status forward_of_sum(const ls_layer_run *run)
{
    return lsi_add_layernorm(run->stream, &(lsi_add_layernorm_args){.a = run->sum_of[0],
                                                                    .b = run->sum_of[1],
                                                                    .gamma = run->param[0],
                                                                    .beta = run->param[1],
                                                                    .s = run->in[0],
                                                                    .y = run->out,
                                                                    .mean = run->saved[0],
                                                                    .rstd = run->saved[1],
                                                                    .rows = run->saved[0].count,
                                                                    .cols = columns(run->node),
                                                                    .eps = epsilon});
}

static ls_status forward(const ls_layer_run *run)
{
    if (run->sum_of[0].count > 0) {
        return forward_of_sum(run);
    }
    return lsi_layernorm_fwd(run->stream, &(lsi_layernorm_fwd_args){.x = run->in[0],
                                                                    .gamma = run->param[0],
                                                                    .beta = run->param[1],
                                                                    .y = run->out,
                                                                    .mean = run->saved[0],
                                                                    .rstd = run->saved[1],
                                                                    .rows = run->saved[0].count,
                                                                    .cols = columns(run->node),
                                                                    .eps = epsilon});
}

static ls_status backward(const ls_layer_run *run)
{
    return lsi_layernorm_bwd(run->stream, &(lsi_layernorm_bwd_args){.x = run->in[0],
                                                                    .gamma = run->param[0],
                                                                    .mean = run->saved[0],
                                                                    .rstd = run->saved[1],
                                                                    .dy = run->d_out,
                                                                    .dx = run->d_in[0],
                                                                    .dgamma = run->d_param[0],
                                                                    .dbeta = run->d_param[1],
                                                                    .rows = run->saved[0].count,
                                                                    .cols = columns(run->node),
                                                                    .accumulate_dx = run->accumulate_in[0],
                                                                    .accumulate_dgamma = run->accumulate_param[0],
                                                                    .accumulate_dbeta = run->accumulate_param[1]});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "layernorm",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .adds_input_gradient = true,
    .makes_sum = true,
};

ls_var ls_layernorm(ls_graph *graph, const char *name, ls_var x)
{
    return ls_layer_append(graph, &kind, name, &x, 1, NULL, 0);
}
