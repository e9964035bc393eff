/* RUN: */
/* The built-in models: names, counts, initial values, memory, and what they refuse. */
#include "support/model_case.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

static void check_names(const lsi_model *m, const char *const *names, int n)
{
    const lsi_param_table *t = lsi_graph_params(m->graph);

    assert_int_equal(t->n, n);
    for (int k = 0; k < n; k++) {
        assert_string_equal(t->param[k].name, names[k]);
    }
}

static void test_gpt_names(void **state)
{
    static const char *const names[] = {
        "wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.attn.c_attn.weight",
        "h.0.attn.c_attn.bias",
        "h.0.attn.c_proj.weight", "h.0.attn.c_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.mlp.c_fc.weight",
        "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight", "h.0.mlp.c_proj.bias", "ln_f.weight", "ln_f.bias",
        "lm_head.weight"};
    ls_config config = model_case_gpt(false, 0.0);
    lsi_model m;

    (void)state;
    config.model.layers = 1;
    CHECK_OK(lsi_model_build(&config, &model_case_text, &m));
    check_names(&m, names, 17);
    ls_graph_destroy(&m.graph);
    config.model.tied = true;
    CHECK_OK(lsi_model_build(&config, &model_case_text, &m));
    check_names(&m, names, 16);
    const lsi_param *wte = &lsi_graph_params(m.graph)->param[0];

    assert_int_equal(wte->count, MODEL_VOCAB * 16);
    assert_int_equal(wte->padded_count, 64 * 16);
    ls_graph_destroy(&m.graph);
}

static void test_mlp_names(void **state)
{
    static const char *const names[] = {"fc0.weight", "fc0.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    lsi_model m;

    (void)state;
    model_case_build(4, 0.2, &m);
    check_names(&m, names, 6);
    const lsi_param_table *t = lsi_graph_params(m.graph);

    assert_int_equal(t->param[0].shape.dim[0], 20);     /* [in, out], the image flattened */
    assert_int_equal(t->param[0].shape.dim[1], 9);
    assert_true(t->param[2].init.kind == LS_INIT_UNIFORM && t->param[3].init.value == (float)(1.0 / 3.0));
    ls_graph_destroy(&m.graph);
}

static void test_gpt2_size_and_init(void **state)
{
    ls_config config = {.model = {.kind = "gpt", .layers = 12, .heads = 12, .width = 768, .context = 1024,
                                  .tied = true},
                        .data = {.kind = "tokens"}};
    ls_dataset tokens = {.input_dtype = LS_I32, .input_shape = {1, {1024, 0, 0, 0}}, .target_count = 1024,
                         .n_classes = 50257};
    lsi_model m;

    (void)state;
    CHECK_OK(lsi_model_build(&config, &tokens, &m));
    const lsi_param_table *t = lsi_graph_params(m.graph);

    assert_int_equal(t->n_counted, 124439808);
    assert_int_equal(t->param[0].padded_count, 50304 * 768);
    for (int k = 0; k < t->n; k++) {
        const lsi_param *p = &t->param[k];
        bool residual = strstr(p->name, "c_proj.weight") != NULL, weight = strstr(p->name, ".weight") != NULL;

        if (p->shape.rank == 2) {
            assert_true(p->init.kind == LS_INIT_NORMAL);
            assert_true(fabs((double)p->init.value - (residual ? 0.02 / sqrt(24.0) : 0.02)) < 1e-8);
        } else {
            assert_true(p->init.kind == LS_INIT_CONSTANT && p->init.value == (weight ? 1.0f : 0.0f));
        }
    }
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 4, .loss = m.loss};
    ls_plan *plan;

    CHECK_OK(ls_graph_compile(m.graph, &options, &plan));
    /* Logits, and what a block saves: two residuals, two norms, qkv, attention, c_fc and its activation, 16 widths. */
    double widths = (double)lsi_plan_activation_bytes(plan) / (4.0 * 1024 * 768 * 4);

    assert_true(widths < 50304.0 / 768 + 12 * 16 + 10);
    size_t wide = lsi_plan_activation_bytes(plan);

    for (ls_dtype compute = LS_F16; compute <= LS_BF16; compute++) {
        options.compute = compute;
        CHECK_OK(ls_graph_compile(m.graph, &options, &plan));
        assert_true((double)lsi_plan_activation_bytes(plan) < 0.505 * (double)wide);    /* statistics stay f32 */
    }
    ls_graph_destroy(&m.graph);
}

static void check_refused(ls_config config, const ls_dataset *data, const char *part, const char *also)
{
    lsi_model m;

    CHECK_FAILS(lsi_model_build(&config, data, &m), LS_ERR_CONFIG, part);
    assert_non_null(strstr(ls_failure_message(), also));
}

static void test_refused(void **state)
{
    ls_config gpt = model_case_gpt(true, 0.0), mlp = model_case_mlp("gelu", 0.0);

    (void)state;
    check_refused(gpt, &model_case_images, "model.kind = gpt", "data.kind = text");
    check_refused(mlp, &model_case_text, "model.kind = mlp", "data.kind = idx");
    gpt.model.heads = 3;
    check_refused(gpt, &model_case_text, "model.heads = 3", "model.width = 16");
    gpt.model.context = 7;
    check_refused(gpt, &model_case_text, "model.context = 7", "data.kind = text");
    mlp.model.vocab = 10;
    check_refused(mlp, &model_case_images, "model.vocab = 10", "11 classes");
    mlp.model.kind = "cnn";
    check_refused(mlp, &model_case_images, "model.kind = cnn", "not in this build");
    test_check_no_memory_live();
}

static void test_vocab_param(void **state)
{
    (void)state;
    for (int which = 0; which < MODEL_BUILT_IN; which++) {
        ls_config config = which < 3 ? model_case_gpt(which != 2, 0.1) : model_case_mlp("gelu", 0.1);
        char name[LS_NAME_MAX];
        lsi_model model;

        model_case_build(which, 0.1, &model);
        CHECK_OK(lsi_model_vocab_param(&config, name));
        int index = lsi_param_find(lsi_graph_params(model.graph), name);

        assert_true(index >= 0);
        assert_int_equal(lsi_graph_params(model.graph)->param[index].shape.dim[0], MODEL_VOCAB);
        ls_graph_destroy(&model.graph);
    }
    ls_config unknown = {.model = {.kind = "cnn"}};
    char name[LS_NAME_MAX];

    CHECK_FAILS(lsi_model_vocab_param(&unknown, name), LS_ERR_CONFIG, "model.kind = cnn is not in this build");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt_names),
        cmocka_unit_test(test_mlp_names),
        cmocka_unit_test(test_gpt2_size_and_init),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_vocab_param),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
