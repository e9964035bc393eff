/* gpt_probe WEIGHTS TOKENS OUT SETTING...
 *
 * For test_huggingface.py: reads weights as model.init_from does and writes the logits (f32, [sample, position, vocab])
 * of rows of tokens (int32). Settings are those of --set. */
#include "support/graph_case.h"

#include <stdio.h>

#include "checkpoint/import.h"
#include "config/config.h"
#include "models/models.h"

static lsi_config *load(char **settings, int n)
{
    const char *sets[32] = {"model.kind=gpt", "data.kind=synthetic", "train.steps=1"};
    lsi_config *config;

    for (int i = 0; i < n; i++) {
        sets[3 + i] = settings[i];
    }
    CHECK_OK(lsi_config_load(NULL, sets, 3 + n, &config));
    return config;
}

static lsi_model build(const ls_config *config)
{
    int64_t context = config->model.context;
    ls_dataset data = {.input_dtype = LS_I32,
                       .input_shape = ls_shape1(context),
                       .target_count = context,
                       .n_classes = config->model.vocab};
    lsi_model model;

    CHECK_OK(lsi_model_build(config, &data, &model));
    return model;
}

/* ---- logits ---------------------------------------------------------------------------------------------------- */

static void write_logits(graph_case *c, FILE *tokens, FILE *out, int64_t context, int64_t vocab)
{
    while (fread(c->input, sizeof(int32_t), (size_t)context, tokens) == (size_t)context) {
        graph_case_run(c, 0, true);
        ls_view logits = lsi_plan_output(c->plan, 0, c->activations);

        for (int64_t row = 0; row < context; row++) {
            const float *at = (const float *)logits.data + row * (logits.count / context);

            assert_int_equal(fwrite(at, sizeof *at, (size_t)vocab, out), vocab);
        }
    }
}

static void logits_of(const char *weights, const char *tokens_path, const char *out_path, char **settings, int n)
{
    lsi_config *config = load(settings, n);
    const ls_config *values = lsi_config_values(config);
    lsi_model model = build(values);
    ls_compile_options options = {
        .struct_size = sizeof options, .mode = LS_INFER, .micro_batch = 1, .n_outputs = 1, .output = {model.logits}};
    graph_case c;
    FILE *tokens = fopen(tokens_path, "rb"), *out = fopen(out_path, "wb");

    assert_true(tokens != NULL && out != NULL);
    graph_case_open(&c, model.graph, &options, 1, values->model.vocab);
    CHECK_OK(lsi_import_weights(weights, c.params, c.weights));
    write_logits(&c, tokens, out, values->model.context, values->model.vocab);
    assert_int_equal(fclose(out), 0);
    fclose(tokens);
    graph_case_close(&c);
    ls_graph_destroy(&model.graph);
    lsi_config_destroy(&config);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: gpt_probe WEIGHTS TOKENS OUT SETTING...\n");
        return 2;
    }
    logits_of(argv[1], argv[2], argv[3], argv + 4, argc - 4);
    return 0;
}
