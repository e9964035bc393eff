/* RUN: */
/* What a graph refuses, and how it says so; the compile options; the listing. */
#include "support/test.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/compile.h"
#include "graph/plan.h"
#include <lockstep/layers.h>

static const ls_linear_options plain = {.weight = {LS_INIT_UNIFORM, 0.1f}};

static ls_graph *create(void)
{
    ls_graph *graph;

    CHECK_OK(ls_graph_create(&graph));
    return graph;
}

static ls_status compile(ls_graph *graph, ls_mode mode, ls_var loss, ls_var output)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = mode, .micro_batch = 4, .loss = loss,
                                  .n_outputs = output.graph != NULL, .output = {output}};
    ls_plan *plan;

    return ls_graph_compile(graph, &options, &plan);
}

static const ls_var none = {.id = -1};

static void test_first_error_stays(void **state)
{
    ls_graph *graph = create();
    ls_var x = ls_input(graph, "x", LS_F32, ls_shape1(6));
    ls_var a = ls_linear(graph, "a", x, 5, &plain);
    ls_var bad = ls_add(graph, "bad", x, a);

    (void)state;
    assert_null(bad.graph);
    assert_null(ls_gelu(graph, "later", bad).graph);
    assert_null(ls_linear(graph, "a", x, 0, &plain).graph);
    for (int i = 0; i < 2; i++) {
        CHECK_FAILS(compile(graph, LS_INFER, none, a), LS_ERR_CONFIG, "layer 'bad' (add)");
        assert_non_null(strstr(ls_failure_message(), "[6] and [5]"));
    }
    ls_graph_destroy(&graph);
    assert_null(graph);
    ls_graph_destroy(&graph);
}

static void test_wrong_values(void **state)
{
    ls_graph *graph = create(), *other = create();
    ls_var x = ls_input(other, "x", LS_F32, ls_shape1(6));

    (void)state;
    ls_gelu(graph, "g", x);
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "layer 'g' (gelu): input 0 belongs to another graph");
    ls_graph_destroy(&graph);
    graph = create();
    ls_gelu(graph, "g", none);
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "layer 'g' (gelu): input 0 is no value");
    ls_graph_destroy(&graph);
    ls_gelu(other, "g", (ls_var){.id = 7, .graph = other});
    CHECK_FAILS(compile(other, LS_INFER, none, x), LS_ERR_CONFIG, "value 7 of 1");
    ls_graph_destroy(&other);
}

static void test_names(void **state)
{
    char longest[200];
    ls_graph *graph = create();
    ls_var x = ls_input(graph, "x", LS_F32, ls_shape1(6));

    (void)state;
    ls_gelu(graph, "x", x);
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "two layers are called 'x'");
    ls_graph_destroy(&graph);
    graph = create();
    ls_gelu(graph, "", ls_input(graph, "x", LS_F32, ls_shape1(6)));
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "without a name");
    ls_graph_destroy(&graph);
    graph = create();
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    ls_gelu(graph, longest, ls_input(graph, "x", LS_F32, ls_shape1(6)));
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "is longer than");
    ls_graph_destroy(&graph);
    graph = create();
    longest[92] = '\0';     /* fits, but not with ".weight" */
    ls_linear(graph, longest, ls_input(graph, "x", LS_F32, ls_shape1(6)), 3, &plain);
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "parameter 'weight'");
    ls_graph_destroy(&graph);
    graph = create();
    ls_input(graph, "x", LS_F32, ls_shape1(6));
    ls_input(graph, "y", LS_F32, ls_shape1(6));
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "'y' is a second input beside 'x'");
    ls_graph_destroy(&graph);
    graph = create();
    ls_input(graph, "x", LS_F32, ls_shape2(6, 0));
    CHECK_FAILS(compile(graph, LS_INFER, none, x), LS_ERR_CONFIG, "'x'");
    ls_graph_destroy(&graph);
}

/* input -> a -> loss, and beside it: b, which the loss does not read */
typedef struct small {
    ls_graph *graph;
    ls_var x, a, loss;
} small;

static small make_small(void)
{
    small s = {.graph = create()};

    s.x = ls_input(s.graph, "x", LS_F32, ls_shape1(6));
    s.a = ls_linear(s.graph, "a", s.x, 5, &plain);
    s.loss = ls_softmax_xent(s.graph, "loss", s.a, ls_targets(s.graph, "y", 1), 5);
    return s;
}

static void test_compile_options(void **state)
{
    small s = make_small(), other = make_small();
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 0, .loss = s.loss};
    ls_plan *plan;

    (void)state;
    CHECK_FAILS(ls_graph_compile(s.graph, &options, &plan), LS_ERR_CONFIG, "micro-batch");
    options.micro_batch = (int64_t)1 << 60;
    CHECK_FAILS(ls_graph_compile(s.graph, &options, &plan), LS_ERR_CONFIG, "too large");
    options.micro_batch = 1;
    options.n_outputs = LS_MAX_OUTPUTS + 1;
    CHECK_FAILS(ls_graph_compile(s.graph, &options, &plan), LS_ERR_CONFIG, "outputs");
    options.n_outputs = 0;
    options.compute = LS_F64;
    CHECK_FAILS(ls_graph_compile(s.graph, &options, &plan), LS_ERR_CONFIG, "f32, f16 or bf16, not f64");
    options.compute = LS_REAL;
    CHECK_FAILS(ls_graph_compile(s.graph, &options, &plan), LS_ERR_CONFIG, "f32, f16 or bf16, not real");
    options.struct_size--;
    CHECK_FAILS(ls_graph_compile(s.graph, &options, &plan), LS_ERR_CONFIG, "version");
    CHECK_FAILS(compile(s.graph, LS_TRAIN, none, none), LS_ERR_CONFIG, "loss to compile for is no value");
    CHECK_FAILS(compile(s.graph, LS_EVAL, other.loss, none), LS_ERR_CONFIG, "another graph");
    CHECK_FAILS(compile(s.graph, LS_TRAIN, s.a, none), LS_ERR_CONFIG, "'a' is not a loss");
    CHECK_FAILS(compile(s.graph, LS_INFER, none, none), LS_ERR_CONFIG, "at least one output");
    CHECK_FAILS(compile(s.graph, LS_INFER, none, s.loss), LS_ERR_CONFIG, "no targets");
    CHECK_FAILS(compile(s.graph, LS_INFER, none, s.x), LS_ERR_CONFIG, "output 'x'");
    CHECK_OK(compile(s.graph, LS_INFER, none, s.a));
    ls_gelu(s.graph, "late", s.a);
    CHECK_FAILS(compile(s.graph, LS_INFER, none, s.a), LS_ERR_CONFIG, "layer 'late' comes after");
    ls_graph_destroy(&s.graph);
    ls_graph_destroy(&other.graph);
    s.graph = create();
    CHECK_FAILS(compile(s.graph, LS_INFER, none, none), LS_ERR_CONFIG, "no layers");
    ls_graph_destroy(&s.graph);
}

/* A kind that says of itself what the test wants. */
static ls_dtype says_out, says_saved;

static ls_status infer_as_told(ls_layer_node *node)
{
    node->out_shape = node->in_shape[0];
    node->out_dtype = says_out;
    node->n_saved = 1;
    node->saved[0] = (ls_saved_spec){node->in_shape[0], says_saved};
    return LS_OK;
}

static ls_status do_nothing(const ls_layer_run *run)
{
    (void)run;
    return LS_OK;
}

static void check_types(bool is_loss, ls_dtype input, ls_dtype out, ls_dtype saved, const char *part)
{
    ls_layer_kind kind = {.struct_size = sizeof kind, .name = "told", .infer = infer_as_told, .forward = do_nothing,
                          .is_loss = is_loss};
    ls_graph *graph = create();
    ls_var x = ls_input(graph, "x", input, ls_shape1(6));

    says_out = out;
    says_saved = saved;
    CHECK_FAILS(compile(graph, LS_INFER, none, ls_layer_append(graph, &kind, "l", &x, 1, NULL, 0)), LS_ERR_CONFIG,
                part);
    ls_graph_destroy(&graph);
}

/* What the data set stores is what it is asked for; layers see real numbers as such, and everything else as it is. */
static void test_types(void **state)
{
    static const ls_dtype stored[] = {LS_F32, LS_I32, LS_U8};

    (void)state;
    for (int i = 0; i < 3; i++) {
        ls_graph *graph = create();
        lsi_graph_io io;

        ls_input(graph, "x", stored[i], ls_shape1(6));
        lsi_graph_get_io(graph, &io);
        assert_int_equal(io.input_dtype, stored[i]);
        assert_int_equal(graph->value[graph->input].dtype, stored[i] == LS_F32 ? LS_REAL : stored[i]);
        ls_graph_destroy(&graph);
    }
    for (int real = 0; real < 2; real++) {      /* targets are never converted */
        ls_graph *graph = create();
        lsi_graph_io io;

        if (real) {
            ls_targets_f32(graph, "y", 3);
        } else {
            ls_targets(graph, "y", 3);
        }
        lsi_graph_get_io(graph, &io);
        assert_int_equal(io.targets_dtype, real ? LS_F32 : LS_I32);
        assert_int_equal(io.targets_count, 3);
        assert_int_equal(graph->value[graph->targets].dtype, io.targets_dtype);
        ls_targets_f32(graph, "again", 3);
        assert_int_equal(graph->failure.status, LS_ERR_CONFIG);
        assert_non_null(strstr(graph->failure.message, "'again' is a second row of targets beside 'y'"));
        ls_graph_destroy(&graph);
    }
    check_types(false, LS_REAL, LS_REAL, LS_REAL, "'x': a data set cannot store real");
    check_types(true, LS_F32, LS_REAL, LS_REAL, "layer 'l' (told): losses are f32, not real");
    check_types(false, LS_F32, (ls_dtype)(LS_REAL + 1), LS_REAL, "layer 'l' (told)");
    check_types(false, LS_F32, LS_REAL, (ls_dtype)(LS_REAL + 1), "saved value 0 an unknown type");
}

static void test_what_trains(void **state)
{
    small s = make_small();

    (void)state;
    ls_linear(s.graph, "aside", s.x, 3, &plain);
    CHECK_FAILS(compile(s.graph, LS_TRAIN, s.loss, none), LS_ERR_CONFIG, "parameter 'aside.weight' gets no gradient");
    CHECK_OK(compile(s.graph, LS_EVAL, s.loss, none));
    ls_graph_destroy(&s.graph);
    s.graph = create();
    s.x = ls_input(s.graph, "x", LS_F32, ls_shape1(6));
    s.loss = ls_softmax_xent(s.graph, "loss", ls_gelu(s.graph, "g", s.x), ls_targets(s.graph, "y", 1), 6);
    CHECK_FAILS(compile(s.graph, LS_TRAIN, s.loss, none), LS_ERR_CONFIG, "nothing to train");
    ls_graph_destroy(&s.graph);
    s = make_small();
    ls_gelu(s.graph, "g", s.loss);
    CHECK_FAILS(compile(s.graph, LS_EVAL, s.loss, none), LS_ERR_CONFIG, "reads the loss");
    ls_graph_destroy(&s.graph);
}

/* A dropout behind the logits: train has it, the others go around it without a copy. */
static void test_dropout_is_left_out(void **state)
{
    small s = {.graph = create()};
    ls_plan *plan;

    (void)state;
    s.x = ls_input(s.graph, "x", LS_F32, ls_shape1(6));
    s.a = ls_linear(s.graph, "a", s.x, 5, &plain);
    ls_var dropped = ls_dropout(s.graph, "drop", s.a, 0.5f);

    assert_int_equal(ls_dropout(s.graph, "none", s.a, 0.0f).id, s.a.id);
    s.loss = ls_softmax_xent(s.graph, "loss", dropped, ls_targets(s.graph, "y", 1), 5);
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 4, .loss = s.loss,
                                  .n_outputs = 1, .output = {dropped}};

    CHECK_OK(ls_graph_compile(s.graph, &options, &plan));
    assert_int_equal(plan->n_steps, 3);
    options.mode = LS_EVAL;
    CHECK_OK(ls_graph_compile(s.graph, &options, &plan));
    assert_int_equal(plan->n_steps, 2);
    assert_int_equal(plan->output_buffer[0], plan->step[0].out);
    assert_int_equal(plan->step[1].in[0], plan->step[0].out);
    ls_graph_destroy(&s.graph);
}

static void test_print(void **state)
{
    small s = make_small();
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 4, .loss = s.loss};
    ls_plan *plan;
    lsi_text text = {0};

    (void)state;
    CHECK_OK(ls_graph_compile(s.graph, &options, &plan));
    CHECK_OK(lsi_plan_print(plan, &text));
    assert_non_null(strstr(text.data, "train plan: 2 layers in f32, slots of 4 samples"));
    assert_non_null(strstr(text.data, "[6] -> [5]  out @0  saves in0"));
    assert_null(strstr(text.data, "converted"));
    lsi_text_free(&text);
    options.compute = LS_BF16;
    CHECK_OK(ls_graph_compile(s.graph, &options, &plan));
    CHECK_OK(lsi_plan_print(plan, &text));
    assert_non_null(strstr(text.data, "train plan: 2 layers in bf16, slots of 4 samples"));
    assert_non_null(strstr(text.data, "converted    [6]  out @"));
    lsi_text_free(&text);
    ls_graph_destroy(&s.graph);
}

/* Whichever allocation fails: the status says so, nothing leaks. */
static void test_memory_failures(void **state)
{
    (void)state;
    for (long k = 1;; k++) {
        ls_graph *graph;
        ls_status status;

        lsi_memory_fail_at(k);
        status = ls_graph_create(&graph);
        if (status == LS_OK) {
            ls_var x = ls_input(graph, "x", LS_F32, ls_shape1(6));
            ls_var loss = ls_softmax_xent(graph, "loss", ls_linear(graph, "a", x, 5, &plain),
                                          ls_targets(graph, "y", 1), 5);

            status = compile(graph, LS_TRAIN, loss, none);
            ls_graph_destroy(&graph);
        }
        lsi_memory_fail_at(0);
        test_check_no_memory_live();
        if (status == LS_OK) {
            assert_true(k > 10);
            return;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
    }
}

static int check_memory(void **state)
{
    (void)state;
    test_check_no_memory_live();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_first_error_stays, check_memory),
        cmocka_unit_test_teardown(test_wrong_values, check_memory),
        cmocka_unit_test_teardown(test_names, check_memory),
        cmocka_unit_test_teardown(test_compile_options, check_memory),
        cmocka_unit_test_teardown(test_types, check_memory),
        cmocka_unit_test_teardown(test_what_trains, check_memory),
        cmocka_unit_test_teardown(test_dropout_is_left_out, check_memory),
        cmocka_unit_test_teardown(test_print, check_memory),
        cmocka_unit_test(test_memory_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
