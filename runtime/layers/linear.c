#include <lockstep/layers.h>

#include <inttypes.h>
#include <string.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

typedef struct linear {
    ls_linear_options options;
    int64_t out_features;
    int64_t columns;        /* of the output: out_features and padding */
} linear;

static const linear *of(const ls_layer_run *run)
{
    return ls_layer_attributes(run->node);
}

static int64_t in_features(const ls_layer_node *node)
{
    return node->in_shape[0].dim[node->in_shape[0].rank - 1];
}

static ls_status declare(ls_layer_node *node, const linear *l)
{
    const ls_linear_options *o = &l->options;
    int64_t in = in_features(node);
    int64_t padded_rows = l->columns != l->out_features ? l->columns : 0;
    ls_shape shape = o->out_by_in ? ls_shape2(l->out_features, in) : ls_shape2(in, l->out_features);
    ls_param_spec *weight = ls_layer_add_param(node, node->name, "weight", shape, o->weight);

    if (weight == NULL) {
        return LS_ERR_CONFIG;
    }
    weight->padded_rows = padded_rows;
    if (o->tied_to != NULL) {
        LS_REQUIRE(strlen(o->tied_to) < sizeof weight->name, LS_ERR_CONFIG,
                   "layer '%s' is tied to a parameter with a name longer than %d characters", node->name,
                   LS_NAME_MAX - 1);
        strcpy(weight->name, o->tied_to);
        weight->shared = true;
    }
    if (o->no_bias) {
        return LS_OK;
    }
    ls_param_spec *bias = ls_layer_add_param(node, node->name, "bias", ls_shape1(l->out_features), o->bias);

    if (bias == NULL) {
        return LS_ERR_CONFIG;
    }
    bias->padded_rows = padded_rows;
    return LS_OK;
}

static ls_status infer(ls_layer_node *node)
{
    void *attributes = node->attributes;
    linear *l = attributes;
    int64_t unit = l->options.pad_out_to;

    LS_REQUIRE(node->in_dtype[0] == LS_REAL && node->in_shape[0].rank >= 1, LS_ERR_CONFIG,
               "layer '%s' (linear) needs real input of at least one extent, not %s %s", node->name,
               ls_dtype_name(node->in_dtype[0]), lsi_shape_text(&node->in_shape[0]).text);
    LS_REQUIRE(l->out_features >= 1, LS_ERR_CONFIG, "layer '%s' (linear) of input %s has %" PRId64 " output features",
               node->name, lsi_shape_text(&node->in_shape[0]).text, l->out_features);
    LS_REQUIRE(unit >= 0 && (l->options.out_by_in || (unit == 0 && l->options.tied_to == NULL)), LS_ERR_CONFIG,
               "layer '%s' (linear): only a weight stored [out, in] can be padded or tied", node->name);
    l->columns = unit == 0 ? l->out_features : (l->out_features + unit - 1) / unit * unit;
    node->out_shape = node->in_shape[0];
    node->out_shape.dim[node->out_shape.rank - 1] = l->columns;
    node->out_padding = l->columns - l->out_features;
    node->out_dtype = LS_REAL;
    node->saves = LS_SAVES_IN(0);
    LS_TRY(declare(node, l));
    l->options.tied_to = NULL;
    return LS_OK;
}

static int64_t rows(const ls_layer_run *run)
{
    return run->n_samples * (ls_shape_count(&run->node->in_shape[0]) / in_features(run->node));
}

/* out = x w + b, and its gelu behind it. */
static ls_status forward_gelu(const ls_layer_run *run, const lsi_gemm_args *gemm)
{
    return lsi_gemm_gelu(run->stream, &(lsi_gemm_gelu_args){.a = gemm->a,
                                                            .b = gemm->b,
                                                            .bias = gemm->bias,
                                                            .x = run->out,
                                                            .y = run->gelu_out,
                                                            .m = gemm->m,
                                                            .n = gemm->n,
                                                            .k = gemm->k,
                                                            .trans_b = gemm->trans_b});
}

static ls_status forward(const ls_layer_run *run)
{
    lsi_gemm_args gemm = {.a = run->in[0],
                          .b = run->param[0],
                          .c = run->out,
                          .m = rows(run),
                          .n = of(run)->columns,
                          .k = in_features(run->node),
                          .trans_b = of(run)->options.out_by_in};

    if (!of(run)->options.no_bias) {
        gemm.bias = run->param[1];
    }
    return run->gelu_out.count > 0 ? forward_gelu(run, &gemm) : lsi_gemm(run->stream, &gemm);
}

/* dx = dy w', or what the gelu that made x passes on of it. */
static ls_status input_gradient(const ls_layer_run *run)
{
    lsi_gemm_args gemm = {.a = run->d_out,
                          .b = run->param[0],
                          .c = run->d_in[0],
                          .m = rows(run),
                          .n = in_features(run->node),
                          .k = of(run)->columns,
                          .trans_b = !of(run)->options.out_by_in,
                          .accumulate = run->accumulate_in[0]};

    if (run->gelu_in.count == 0) {
        return lsi_gemm(run->stream, &gemm);
    }
    return lsi_gemm_gelu_bwd(run->stream, &(lsi_gemm_gelu_bwd_args){.a = gemm.a,
                                                                    .b = gemm.b,
                                                                    .x = run->gelu_in,
                                                                    .dx = gemm.c,
                                                                    .m = gemm.m,
                                                                    .n = gemm.n,
                                                                    .k = gemm.k,
                                                                    .trans_b = gemm.trans_b});
}

/* dW = x^T dy, or dy^T x where the weight is stored [out, in]. */
static ls_status weight_gradient(const ls_layer_run *run)
{
    bool out_by_in = of(run)->options.out_by_in;
    int64_t in = in_features(run->node), out = of(run)->columns;

    return lsi_gemm(run->stream, &(lsi_gemm_args){.a = out_by_in ? run->d_out : run->in[0],
                                                  .b = out_by_in ? run->in[0] : run->d_out,
                                                  .c = run->d_param[0],
                                                  .m = out_by_in ? out : in,
                                                  .n = out_by_in ? in : out,
                                                  .k = rows(run),
                                                  .trans_a = 1,
                                                  .accumulate = run->accumulate_param[0]});
}

static ls_status backward(const ls_layer_run *run)
{
    if (run->d_in[0].count > 0) {
        LS_TRY(input_gradient(run));
    }
    LS_TRY(weight_gradient(run));
    if (of(run)->options.no_bias) {
        return LS_OK;
    }
    return lsi_bias_bwd(run->stream, &(lsi_bias_bwd_args){.dy = run->d_out,
                                                          .db = run->d_param[1],
                                                          .rows = rows(run),
                                                          .cols = of(run)->columns,
                                                          .accumulate = run->accumulate_param[1]});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "linear",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .adds_input_gradient = true,
    .makes_gelu = true,
};

ls_var ls_linear(ls_graph *graph, const char *name, ls_var x, int64_t out_features, const ls_linear_options *options)
{
    linear l = {.out_features = out_features};

    if (options != NULL) {
        l.options = *options;
    }
    return ls_layer_append(graph, &kind, name, &x, 1, &l, sizeof l);
}
