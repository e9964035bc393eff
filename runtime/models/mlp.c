#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/layers.h>

enum { NAME_ROOM = 32 };

static void layer_name(int64_t i, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "fc%" PRId64, i);
}

/* Weights and biases uniform in +-1/sqrt(fan_in), as PyTorch's Linear. */
static ls_var dense(ls_graph *graph, int64_t i, ls_var x, int64_t in, int64_t out)
{
    char name[NAME_ROOM];
    ls_init init = {LS_INIT_UNIFORM, (float)(1.0 / sqrt((double)in))};

    layer_name(i, name);
    return ls_linear(graph, name, x, out, &(ls_linear_options){.weight = init, .bias = init});
}

static ls_var activate(ls_graph *graph, const ls_config *config, int64_t i, ls_var x)
{
    char name[NAME_ROOM];
    bool relu = strcmp(config->model.activation, "relu") == 0;

    snprintf(name, sizeof name, "act%" PRId64, i);
    x = relu ? ls_relu(graph, name, x) : ls_gelu(graph, name, x);
    snprintf(name, sizeof name, "drop%" PRId64, i);
    return ls_dropout(graph, name, x, (float)config->model.dropout);
}

ls_status lsi_model_mlp(const ls_config *config, const ls_dataset *data, lsi_model *out)
{
    int64_t in = ls_shape_count(&data->input_shape), classes;
    lsi_model m;

    LS_REQUIRE(data->input_dtype == LS_F32 && data->target_count == 1, LS_ERR_CONFIG,
               "model.kind = mlp takes one label and real numbers, but data.kind = %s gives %" PRId64 " targets and %s",
               config->data.kind, data->target_count, ls_dtype_name(data->input_dtype));
    LS_TRY(lsi_model_vocab(config, data, &classes));
    LS_TRY(ls_graph_create(&m.graph));
    ls_var x = ls_input(m.graph, "input", LS_F32, ls_shape1(in));
    ls_var targets = ls_targets(m.graph, "targets", 1);

    for (int i = 0; i < config->model.hidden.n; i++) {
        int64_t width = config->model.hidden.value[i];

        x = activate(m.graph, config, i, dense(m.graph, i, x, in, width));
        in = width;
    }
    m.logits = dense(m.graph, config->model.hidden.n, x, in, classes);
    m.loss = ls_softmax_xent(m.graph, "loss", m.logits, targets, classes);
    *out = m;
    return LS_OK;
}

void lsi_model_mlp_vocab_param(const ls_config *config, char out[LS_NAME_MAX])
{
    char name[NAME_ROOM];

    layer_name(config->model.hidden.n, name);
    snprintf(out, LS_NAME_MAX, "%s.bias", name);
}
