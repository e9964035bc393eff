#include "support/model_case.h"

#include <stdio.h>

#include <lockstep/layers.h>

enum { TWO_TOWER = MODEL_BUILT_IN };

ls_config model_case_gpt(bool tied, double dropout)
{
    ls_config config = {.model = {.kind = "gpt", .layers = 2, .heads = 2, .width = 16, .context = MODEL_CONTEXT,
                                  .tied = tied, .dropout = dropout},
                        .data = {.kind = "text"}};

    return config;
}

ls_config model_case_mlp(const char *activation, double dropout)
{
    ls_config config = {.model = {.kind = "mlp", .hidden = {2, {9, 12}}, .activation = activation, .dropout = dropout},
                        .data = {.kind = "idx"}};

    return config;
}

const ls_dataset model_case_text = {.n_samples = 100, .input_dtype = LS_I32,
                                    .input_shape = {1, {MODEL_CONTEXT, 0, 0, 0}}, .target_count = MODEL_CONTEXT,
                                    .n_classes = MODEL_VOCAB, .description = "text"};
const ls_dataset model_case_images = {.n_samples = 100, .input_dtype = LS_F32, .input_shape = {2, {4, 5, 0, 0}},
                                      .target_count = 1, .n_classes = MODEL_VOCAB, .description = "images"};

typedef struct layer_name {
    char text[32];
} layer_name;

static layer_name in_tower(const char *tower, const char *part)
{
    layer_name name;

    snprintf(name.text, sizeof name.text, "%s.%s", tower, part);
    return name;
}

/* x[.., first : first + count] -> [.., 6] */
static ls_var build_tower(ls_graph *g, const char *tower, ls_var x, int64_t first, int64_t count, float dropout)
{
    ls_linear_options wide = {.weight = {LS_INIT_UNIFORM, 0.3f}, .bias = {LS_INIT_UNIFORM, 0.3f}};

    x = ls_columns(g, in_tower(tower, "columns").text, x, first, count);
    x = ls_linear(g, in_tower(tower, "fc0").text, x, 16, &wide);
    x = ls_gelu(g, in_tower(tower, "act").text, x);
    x = ls_dropout(g, in_tower(tower, "drop").text, x, dropout);
    return ls_linear(g, in_tower(tower, "fc1").text, x, 6, &wide);
}

static void build_two_tower(float dropout, lsi_model *out)
{
    ls_graph *g;

    CHECK_OK(ls_graph_create(&g));
    ls_var x = ls_input(g, "x", LS_F32, ls_shape1(12)), y = ls_targets_f32(g, "y", 1);
    ls_var user = build_tower(g, "user", x, 0, 7, dropout), item = build_tower(g, "item", x, 7, 5, dropout);

    out->graph = g;
    out->logits = ls_dot(g, "score", user, item);
    out->loss = ls_mse(g, "loss", out->logits, y);
}

void model_case_build(int which, double dropout, lsi_model *out)
{
    const double p = dropout >= 0 ? dropout : which == 0 || which == 3 ? 0.0 : 0.2;
    ls_config config;

    if (which == TWO_TOWER) {
        build_two_tower((float)p, out);
        return;
    }
    if (which < 3) {
        config = model_case_gpt(which != 2, p);
    } else {
        config = model_case_mlp(which == 5 ? "relu" : "gelu", p);
    }
    CHECK_OK(lsi_model_build(&config, which < 3 ? &model_case_text : &model_case_images, out));
}

void model_case_open(graph_case *c, const lsi_model *m, ls_dtype compute, ls_mode mode, int64_t micro_batch,
                     int n_threads, bool logits)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = mode, .micro_batch = micro_batch,
                                  .compute = compute, .loss = m->loss, .n_outputs = logits, .output = {m->logits}};

    graph_case_open(c, m->graph, &options, n_threads, MODEL_VOCAB);
}
