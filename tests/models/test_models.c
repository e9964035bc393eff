/* RUN: timeout=120 */
/* The built-in models: names and counts, gradients of whole graphs, and the laws that every slot's execution obeys. */
#include "support/graph_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"

enum { CONTEXT = 6, VOCAB = 11 };

/* ---- models of this test ------------------------------------------------------------------------------------- */

static ls_config gpt_config(bool tied, double dropout)
{
    ls_config config = {.model = {.kind = "gpt", .layers = 2, .heads = 2, .width = 16, .context = CONTEXT, .tied = tied,
                                  .dropout = dropout},
                        .data = {.kind = "text"}};

    return config;
}

static ls_config mlp_config(const char *activation, double dropout)
{
    ls_config config = {.model = {.kind = "mlp", .hidden = {2, {9, 12}}, .activation = activation, .dropout = dropout},
                        .data = {.kind = "idx"}};

    return config;
}

static const ls_dataset text = {.n_samples = 100, .input_dtype = LS_I32, .input_shape = {1, {CONTEXT, 0, 0, 0}},
                                .target_count = CONTEXT, .n_classes = VOCAB, .description = "text"};
static const ls_dataset images = {.n_samples = 100, .input_dtype = LS_F32, .input_shape = {2, {4, 5, 0, 0}},
                                  .target_count = 1, .n_classes = VOCAB, .description = "images"};

enum { N_MODELS = 6 };

/* dropout < 0: some everywhere but in model 0 and 3 */
static void build(int which, double dropout, lsi_model *out)
{
    const double p = dropout >= 0 ? dropout : which % 3 == 0 ? 0.0 : 0.2;
    ls_config config;

    if (which < 3) {
        config = gpt_config(which != 2, p);
    } else {
        config = mlp_config(which == 5 ? "relu" : "gelu", p);
    }
    CHECK_OK(lsi_model_build(&config, which < 3 ? &text : &images, out));
}

static void open_case(graph_case *c, const lsi_model *m, ls_mode mode, int64_t micro_batch, int n_threads, bool logits)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = mode, .micro_batch = micro_batch,
                                  .loss = m->loss, .n_outputs = logits, .output = {m->logits}};

    graph_case_open(c, m->graph, &options, n_threads, VOCAB);
}

/* ---- structure ----------------------------------------------------------------------------------------------- */

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
    ls_config config = gpt_config(false, 0.0);
    lsi_model m;

    (void)state;
    config.model.layers = 1;
    CHECK_OK(lsi_model_build(&config, &text, &m));
    check_names(&m, names, 17);
    ls_graph_destroy(&m.graph);
    config.model.tied = true;
    CHECK_OK(lsi_model_build(&config, &text, &m));
    check_names(&m, names, 16);
    const lsi_param *wte = &lsi_graph_params(m.graph)->param[0];

    assert_int_equal(wte->count, VOCAB * 16);
    assert_int_equal(wte->padded_count, 64 * 16);
    ls_graph_destroy(&m.graph);
}

static void test_mlp_names(void **state)
{
    static const char *const names[] = {"fc0.weight", "fc0.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    lsi_model m;

    (void)state;
    build(4, 0.2, &m);
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
    ls_config gpt = gpt_config(true, 0.0), mlp = mlp_config("gelu", 0.0);

    (void)state;
    check_refused(gpt, &images, "model.kind = gpt", "data.kind = text");
    check_refused(mlp, &text, "model.kind = mlp", "data.kind = idx");
    gpt.model.heads = 3;
    check_refused(gpt, &text, "model.heads = 3", "model.width = 16");
    gpt.model.context = 7;
    check_refused(gpt, &text, "model.context = 7", "data.kind = text");
    mlp.model.vocab = 10;
    check_refused(mlp, &images, "model.vocab = 10", "11 classes");
    mlp.model.kind = "cnn";
    check_refused(mlp, &images, "model.kind = cnn", "not in this build");
    test_check_no_memory_live();
}

/* ---- laws ---------------------------------------------------------------------------------------------------- */

static void test_gradients(void **state)
{
    (void)state;
    for (int which = 0; which < N_MODELS; which++) {
        lsi_model m;
        graph_case c;

        build(which, -1, &m);
        open_case(&c, &m, LS_TRAIN, 3, 2, false);
        graph_case_check_gradients(&c);
        graph_case_close(&c);
        ls_graph_destroy(&m.graph);
        test_check_no_memory_live();
    }
}

/* Neither threads nor what lies in the activation block, gradients or paddings changes a bit. */
static void test_same_bits(void **state)
{
    (void)state;
    for (int which = 0; which < N_MODELS; which++) {
        lsi_model m;
        float *first = NULL;
        double first_loss = 0.0;

        build(which, -1, &m);
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            graph_case c;

            open_case(&c, &m, LS_TRAIN, 4, n_threads, n_threads == 3);
            size_t bytes = (size_t)c.params->n_elements * sizeof(float);

            c.poison = n_threads == 1 ? 0 : 0xff;
            for (int k = 0; k < c.params->n; k++) {
                const lsi_param *p = &c.params->param[k];

                memset(c.gradients + p->offset, c.poison, (size_t)p->padded_count * sizeof(float));
            }
            double loss = graph_case_run(&c, 0, true);

            graph_case_run(&c, 4, false);
            if (first == NULL) {
                first = malloc(bytes);
                memcpy(first, c.gradients, bytes);
                first_loss = loss;
            }
            assert_true(loss == first_loss && isfinite(loss));
            assert_memory_equal(first, c.gradients, bytes);
            graph_case_close(&c);
        }
        free(first);
        ls_graph_destroy(&m.graph);
    }
}

/* Two slots of 3 samples accumulated in a lane make the gradient of one slot of 6, dropout included. */
static void test_accumulation(void **state)
{
    (void)state;
    for (int which = 0; which < N_MODELS; which++) {
        lsi_model m;
        graph_case whole, half;

        build(which, -1, &m);
        open_case(&whole, &m, LS_TRAIN, 6, 1, false);
        open_case(&half, &m, LS_TRAIN, 3, 1, false);
        double loss = graph_case_run(&whole, 10, true), halves = 0.0;

        for (int s = 0; s < 2; s++) {
            memcpy(half.input, (char *)whole.input + s * half.input_count * 4, (size_t)half.input_count * 4);
            memcpy(half.targets, whole.targets + s * half.targets_count, (size_t)half.targets_count * 4);
            halves += graph_case_run(&half, 10 + 3 * s, s == 0);
        }
        assert_true(fabs(halves - loss) < 1e-5 * loss);
        for (int k = 0; k < whole.params->n; k++) {
            const lsi_param *p = &whole.params->param[k];

            /* The key third of this bias has no gradient but rounding. */
            if (strstr(p->name, "c_attn.bias") == NULL) {
                const float *a = half.gradients + p->offset, *b = whole.gradients + p->offset;

                assert_true(graph_case_distance(a, b, p->count) < 1e-5);
            }
        }
        graph_case_close(&half);
        graph_case_close(&whole);
        ls_graph_destroy(&m.graph);
    }
}

/* Without dropout all modes make the same bits; with it, eval and infer are as if there were none, and train is not. */
static void test_modes_agree(void **state)
{
    (void)state;
    for (int which = 0; which < N_MODELS; which++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            lsi_model bare, m;
            graph_case train, eval, infer;

            build(which, 0.0, &bare);
            build(which, dropped * 0.3, &m);
            open_case(&train, &bare, LS_TRAIN, 4, 1, false);
            open_case(&eval, &m, LS_EVAL, 4, 2, true);
            open_case(&infer, &m, LS_INFER, 4, 1, true);
            double loss = graph_case_run(&train, 0, true);

            assert_true(graph_case_run(&eval, 5, true) == loss);
            assert_true(eval.record.hits == train.record.hits && eval.record.counted == train.record.counted);
            graph_case_run(&infer, 0, true);
            ls_view a = lsi_plan_output(eval.plan, 0, eval.activations);
            ls_view b = lsi_plan_output(infer.plan, 0, infer.activations);

            assert_int_equal(a.count, b.count);
            assert_memory_equal(a.data, b.data, (size_t)a.count * sizeof(float));
            graph_case_close(&train);
            if (dropped == 1) {
                open_case(&train, &m, LS_TRAIN, 4, 1, false);
                double first = graph_case_run(&train, 0, true);

                assert_true(first != loss && first == graph_case_run(&train, 0, true));
                assert_true(first != graph_case_run(&train, 4, true));  /* other samples of the batch, other masks */
                train.state.attempted = 1;
                assert_true(first != graph_case_run(&train, 0, true));
                graph_case_close(&train);
            }
            graph_case_close(&eval);
            graph_case_close(&infer);
            ls_graph_destroy(&bare.graph);
            ls_graph_destroy(&m.graph);
        }
    }
    test_check_no_memory_live();
}

/* A slot of ignored targets has no gradient at all, and no NaN. */
static void test_nothing_counted(void **state)
{
    lsi_model m;
    graph_case c;

    (void)state;
    build(1, -1, &m);
    open_case(&c, &m, LS_TRAIN, 2, 1, false);
    for (int64_t i = 0; i < c.targets_count; i++) {
        c.targets[i] = -1;
    }
    assert_true(graph_case_run(&c, 0, true) == 0.0);
    assert_true(c.record.counted == 0.0 && c.record.runs == 1.0);
    for (int64_t e = 0; e < c.params->n_elements; e++) {
        assert_true(c.gradients[e] == 0.0f);
    }
    graph_case_close(&c);
    ls_graph_destroy(&m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt_names),
        cmocka_unit_test(test_mlp_names),
        cmocka_unit_test(test_gpt2_size_and_init),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_modes_agree),
        cmocka_unit_test(test_nothing_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
