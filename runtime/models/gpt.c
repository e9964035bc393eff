/* GPT-2 (Radford et al., 2019): pre-norm transformer blocks over learned positions. Parameters carry the names and the
 * [in, out] layout of Hugging Face's GPT-2, whose dropout places these are, too. */
#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <lockstep/layer.h>
#include <lockstep/layers.h>

enum { VOCAB_UNIT = 64 };   /* rows of the token table are padded inside to a multiple of this */

static const float deviation = 0.02f;

typedef struct gpt {
    ls_graph *graph;
    int64_t layers, heads, width;
    float dropout;
} gpt;

/* "h.3.attn.c_proj" */
typedef struct block_name {
    char text[LS_NAME_MAX];
} block_name;

static block_name in_block(int64_t block, const char *part)
{
    block_name name;

    snprintf(name.text, sizeof name.text, "h.%" PRId64 ".%s", block, part);
    return name;
}

static ls_var project(const gpt *m, int64_t block, const char *part, ls_var x, int64_t out, float std)
{
    return ls_linear(m->graph, in_block(block, part).text, x, out,
                     &(ls_linear_options){.weight = {LS_INIT_NORMAL, std}, .bias = {LS_INIT_CONSTANT, 0.0f}});
}

static ls_var norm(const gpt *m, int64_t block, const char *part, ls_var x)
{
    return ls_layernorm(m->graph, in_block(block, part).text, x);
}

static ls_var drop(const gpt *m, int64_t block, const char *part, ls_var x)
{
    return ls_dropout(m->graph, in_block(block, part).text, x, m->dropout);
}

static ls_var attend(const gpt *m, int64_t b, ls_var x, float residual_std)
{
    ls_var y = norm(m, b, "ln_1", x);

    y = project(m, b, "attn.c_attn", y, 3 * m->width, deviation);
    y = ls_attention(m->graph, in_block(b, "attn").text, y, m->heads, m->dropout);
    y = project(m, b, "attn.c_proj", y, m->width, residual_std);
    y = drop(m, b, "attn.resid_dropout", y);
    return ls_add(m->graph, in_block(b, "attn.residual").text, x, y);
}

static ls_var think(const gpt *m, int64_t b, ls_var x, float residual_std)
{
    ls_var y = norm(m, b, "ln_2", x);

    y = project(m, b, "mlp.c_fc", y, 4 * m->width, deviation);
    y = ls_gelu(m->graph, in_block(b, "mlp.act").text, y);
    y = project(m, b, "mlp.c_proj", y, m->width, residual_std);
    y = drop(m, b, "mlp.dropout", y);
    return ls_add(m->graph, in_block(b, "mlp.residual").text, x, y);
}

static ls_status check(const ls_config *config, const ls_dataset *data)
{
    LS_REQUIRE(data->input_dtype == LS_I32 && data->input_shape.rank == 1, LS_ERR_CONFIG,
               "model.kind = gpt takes tokens, but data.kind = %s gives %s", config->data.kind,
               ls_dtype_name(data->input_dtype));
    LS_REQUIRE(data->input_shape.dim[0] == config->model.context && data->target_count == config->model.context,
               LS_ERR_CONFIG,
               "model.context = %" PRId64 ", but samples of data.kind = %s have %" PRId64 " tokens and %" PRId64
               " targets",
               config->model.context, config->data.kind, data->input_shape.dim[0], data->target_count);
    LS_REQUIRE(config->model.width % config->model.heads == 0, LS_ERR_CONFIG,
               "model.heads = %" PRId64 " does not divide model.width = %" PRId64, config->model.heads,
               config->model.width);
    return LS_OK;
}

ls_status lsi_model_gpt(const ls_config *config, const ls_dataset *data, lsi_model *out)
{
    gpt m = {.layers = config->model.layers,
             .heads = config->model.heads,
             .width = config->model.width,
             .dropout = (float)config->model.dropout};
    float residual_std = (float)((double)deviation / sqrt(2.0 * (double)m.layers));
    ls_linear_options head = {.weight = {LS_INIT_NORMAL, deviation},
                              .no_bias = true,
                              .out_by_in = true,
                              .pad_out_to = VOCAB_UNIT,
                              .tied_to = config->model.tied ? "wte.weight" : NULL};
    int64_t vocab;

    LS_TRY(check(config, data));
    LS_TRY(lsi_model_vocab(config, data, &vocab));
    LS_TRY(ls_graph_create(&m.graph));
    ls_var tokens = ls_input(m.graph, "tokens", LS_I32, ls_shape1(config->model.context));
    ls_var targets = ls_targets(m.graph, "targets", config->model.context);
    ls_var x = ls_embedding(m.graph, "wte", "wpe", tokens, vocab, VOCAB_UNIT, m.width,
                            (ls_init){LS_INIT_NORMAL, deviation});

    x = ls_dropout(m.graph, "drop", x, m.dropout);
    for (int64_t b = 0; b < m.layers; b++) {
        x = attend(&m, b, x, residual_std);
        x = think(&m, b, x, residual_std);
    }
    x = ls_layernorm(m.graph, "ln_f", x);
    out->graph = m.graph;
    out->logits = ls_linear(m.graph, "lm_head", x, vocab, &head);
    out->loss = ls_softmax_xent(m.graph, "loss", out->logits, targets, vocab);
    return LS_OK;
}

void lsi_model_gpt_vocab_param(const ls_config *config, char out[LS_NAME_MAX])
{
    (void)config;
    snprintf(out, LS_NAME_MAX, "wte.weight");
}
