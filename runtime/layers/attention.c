#include <lockstep/layers.h>

#include <inttypes.h>

#include "base/random.h"
#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

typedef struct attention {
    int64_t heads;
    float dropout;
} attention;

static const attention *of(const ls_layer_run *run)
{
    return ls_layer_attributes(run->node);
}

static ls_status infer(ls_layer_node *node)
{
    const attention *a = ls_layer_attributes(node);
    const ls_shape *in = &node->in_shape[0];

    LS_REQUIRE(node->in_dtype[0] == LS_REAL && in->rank == 2 && in->dim[1] % 3 == 0, LS_ERR_CONFIG,
               "layer '%s' (attention) needs real input of shape [context, 3 x width], not %s %s", node->name,
               ls_dtype_name(node->in_dtype[0]), lsi_shape_text(in).text);
    int64_t width = in->dim[1] / 3;

    LS_REQUIRE(a->heads >= 1 && width % a->heads == 0, LS_ERR_CONFIG,
               "layer '%s' (attention) of input %s: %" PRId64 " heads do not divide the width %" PRId64, node->name,
               lsi_shape_text(in).text, a->heads, width);
    LS_REQUIRE(width / a->heads <= LSI_HEAD_SIZE_MAX, LS_ERR_CONFIG,
               "layer '%s' (attention) of input %s: %" PRId64 " heads of %" PRId64 " channels, at most %d are possible",
               node->name, lsi_shape_text(in).text, a->heads, width / a->heads, LSI_HEAD_SIZE_MAX);
    LS_REQUIRE(a->dropout >= 0.0f && a->dropout < 1.0f, LS_ERR_CONFIG,
               "layer '%s' (attention): dropout probability %g is not in [0, 1)", node->name, (double)a->dropout);
    node->out_shape = ls_shape2(in->dim[0], width);
    node->out_dtype = LS_REAL;
    node->n_saved = 1;
    node->saved[0] = (ls_saved_spec){ls_shape2(a->heads, in->dim[0]), LS_F32};
    node->saves = LS_SAVES_IN(0) | LS_SAVES_OUT;
    return LS_OK;
}

static float active_dropout(const ls_layer_run *run)
{
    return run->mode == LS_TRAIN ? of(run)->dropout : 0.0f;
}

static ls_status forward(const ls_layer_run *run)
{
    const ls_shape *out = &run->node->out_shape;

    return lsi_attention_fwd(run->stream, &(lsi_attention_fwd_args){.qkv = run->in[0],
                                                                    .y = run->out,
                                                                    .lse = run->saved[0],
                                                                    .state = run->state,
                                                                    .samples = run->n_samples,
                                                                    .context = out->dim[0],
                                                                    .heads = of(run)->heads,
                                                                    .head_size = out->dim[1] / of(run)->heads,
                                                                    .first_sample = run->first_sample,
                                                                    .key = lsi_random_key(run->seed, run->node->key),
                                                                    .dropout = active_dropout(run)});
}

static ls_status backward(const ls_layer_run *run)
{
    const ls_shape *out = &run->node->out_shape;

    return lsi_attention_bwd(run->stream, &(lsi_attention_bwd_args){.qkv = run->in[0],
                                                                    .y = run->out,
                                                                    .lse = run->saved[0],
                                                                    .dy = run->d_out,
                                                                    .dqkv = run->d_in[0],
                                                                    .state = run->state,
                                                                    .samples = run->n_samples,
                                                                    .context = out->dim[0],
                                                                    .heads = of(run)->heads,
                                                                    .head_size = out->dim[1] / of(run)->heads,
                                                                    .first_sample = run->first_sample,
                                                                    .key = lsi_random_key(run->seed, run->node->key),
                                                                    .dropout = active_dropout(run)});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "attention",
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

ls_var ls_attention(ls_graph *graph, const char *name, ls_var qkv, int64_t heads, float dropout)
{
    return ls_layer_append(graph, &kind, name, &qkv, 1, &(attention){heads, dropout}, sizeof(attention));
}
