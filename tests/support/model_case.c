#include "support/model_case.h"

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

void model_case_build(int which, double dropout, lsi_model *out)
{
    const double p = dropout >= 0 ? dropout : which % 3 == 0 ? 0.0 : 0.2;
    ls_config config;

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
