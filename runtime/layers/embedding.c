#include <lockstep/layers.h>

#include <inttypes.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

typedef struct embedding {
    const char *position_name;      /* during infer() */
    int64_t vocab, rows, width;     /* rows: vocab and padding */
    ls_init init;
} embedding;

static const embedding *of(const ls_layer_run *run)
{
    return ls_layer_attributes(run->node);
}

static int64_t context(const ls_layer_node *node)
{
    return node->in_shape[0].dim[0];
}

static ls_status infer(ls_layer_node *node)
{
    void *attributes = node->attributes;
    embedding *e = attributes;

    LS_REQUIRE(node->in_dtype[0] == LS_I32 && node->in_shape[0].rank == 1, LS_ERR_CONFIG,
               "layer '%s' (embedding) needs a row of i32 tokens, not %s %s", node->name,
               ls_dtype_name(node->in_dtype[0]), lsi_shape_text(&node->in_shape[0]).text);
    LS_REQUIRE(e->vocab >= 1 && e->width >= 1 && e->rows >= e->vocab, LS_ERR_CONFIG,
               "layer '%s' (embedding) of tokens %s has a table of shape [%" PRId64 ", %" PRId64 "]", node->name,
               lsi_shape_text(&node->in_shape[0]).text, e->vocab, e->width);
    ls_shape token_shape = ls_shape2(e->vocab, e->width), position_shape = ls_shape2(context(node), e->width);
    ls_param_spec *token = ls_layer_add_param(node, node->name, "weight", token_shape, e->init);
    ls_param_spec *position = ls_layer_add_param(node, e->position_name, "weight", position_shape, e->init);

    if (token == NULL || position == NULL) {
        return LS_ERR_CONFIG;
    }
    e->position_name = NULL;
    token->padded_rows = e->rows != e->vocab ? e->rows : 0;
    node->out_shape = ls_shape2(context(node), e->width);
    node->out_dtype = LS_REAL;
    node->saves = LS_SAVES_IN(0);
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    return lsi_embedding_fwd(run->stream, &(lsi_embedding_fwd_args){.tokens = run->in[0],
                                                                    .wte = run->param[0],
                                                                    .wpe = run->param[1],
                                                                    .y = run->out,
                                                                    .samples = run->n_samples,
                                                                    .context = context(run->node),
                                                                    .width = of(run)->width});
}

static ls_status backward(const ls_layer_run *run)
{
    return lsi_embedding_bwd(run->stream, &(lsi_embedding_bwd_args){.tokens = run->in[0],
                                                                    .dy = run->d_out,
                                                                    .dwte = run->d_param[0],
                                                                    .dwpe = run->d_param[1],
                                                                    .samples = run->n_samples,
                                                                    .context = context(run->node),
                                                                    .width = of(run)->width,
                                                                    .rows = of(run)->rows,
                                                                    .accumulate_wte = run->accumulate_param[0],
                                                                    .accumulate_wpe = run->accumulate_param[1]});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "embedding",
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

ls_var ls_embedding(ls_graph *graph, const char *token_name, const char *position_name, ls_var tokens, int64_t vocab,
                    int64_t pad_vocab_to, int64_t width, ls_init init)
{
    int64_t unit = pad_vocab_to > 0 ? pad_vocab_to : 1;
    embedding e = {.position_name = position_name,
                   .vocab = vocab,
                   .rows = (vocab + unit - 1) / unit * unit,
                   .width = width,
                   .init = init};

    return ls_layer_append(graph, &kind, token_name, &tokens, 1, &e, sizeof e);
}
