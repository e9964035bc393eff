/* RUN: */
/* What each kind refuses; gradients of graphs that put every kind into unusual places. */
#include "support/graph_case.h"
#include "support/test.h"

#include <string.h>

#include <lockstep/layer.h>
#include <lockstep/layers.h>

static const ls_linear_options plain = {.weight = {LS_INIT_UNIFORM, 0.1f}};
static const ls_init small = {LS_INIT_NORMAL, 0.02f};

/* ---- errors -------------------------------------------------------------------------------------------------- */

typedef ls_var (*build_fn)(ls_graph *graph, ls_var x, ls_var tokens);

static ls_var add_shapes(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_add(g, "bad", x, ls_linear(g, "fc", x, 7, &plain));
}
static ls_var gelu_tokens(ls_graph *g, ls_var x, ls_var t)
{
    (void)x;
    return ls_gelu(g, "bad", t);
}
static ls_var linear_tokens(ls_graph *g, ls_var x, ls_var t)
{
    (void)x;
    return ls_linear(g, "bad", t, 3, &plain);
}
static ls_var linear_empty(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_linear(g, "bad", x, 0, &plain);
}
static ls_var linear_pads_columns(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_linear(g, "bad", x, 3, &(ls_linear_options){.pad_out_to = 64});
}
static ls_var linear_tied_shape(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    ls_linear(g, "own", x, 5, &(ls_linear_options){.out_by_in = true});
    return ls_linear(g, "bad", x, 7, &(ls_linear_options){.out_by_in = true, .tied_to = "own.weight"});
}
static ls_var reads_padding(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_gelu(g, "bad", ls_linear(g, "fc", x, 5, &(ls_linear_options){.out_by_in = true, .pad_out_to = 8}));
}
static ls_var layernorm_tokens(ls_graph *g, ls_var x, ls_var t)
{
    (void)x;
    return ls_layernorm(g, "bad", t);
}
static ls_var dropout_one(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_dropout(g, "bad", x, 1.0f);
}
static ls_var embedding_of_reals(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_embedding(g, "bad", "wpe", x, 10, 0, 4, small);
}
static ls_var attention_width(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_attention(g, "bad", ls_linear(g, "fc", x, 10, &plain), 1, 0.0f);
}
static ls_var attention_heads(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_attention(g, "bad", ls_linear(g, "fc", x, 12, &plain), 3, 0.0f);
}
static ls_var attention_head_size(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_attention(g, "bad", ls_linear(g, "fc", x, 3 * 514, &plain), 2, 0.0f);
}
static ls_var loss_rows(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_softmax_xent(g, "bad", x, ls_targets(g, "targets", 5), 6);
}
static ls_var loss_classes(ls_graph *g, ls_var x, ls_var t)
{
    ls_var logits = ls_linear(g, "fc", x, 5, &(ls_linear_options){.out_by_in = true, .pad_out_to = 8});

    return ls_softmax_xent(g, "bad", logits, t, 6);
}

static ls_var mul_shapes(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_mul(g, "bad", x, ls_linear(g, "fc", x, 7, &plain));
}
static ls_var dot_shapes(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_dot(g, "bad", ls_linear(g, "fc", x, 7, &plain), x);
}
static ls_var dot_tokens(ls_graph *g, ls_var x, ls_var t)
{
    (void)x;
    return ls_dot(g, "bad", t, t);
}
static ls_var columns_behind_the_end(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_columns(g, "bad", x, 4, 3);
}
static ls_var columns_before_the_start(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_columns(g, "bad", x, -1, 3);
}
static ls_var columns_without_any(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_columns(g, "bad", x, 2, 0);
}
static ls_var columns_huge(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_columns(g, "bad", x, 5, INT64_MAX);
}
static ls_var columns_of_tokens(ls_graph *g, ls_var x, ls_var t)
{
    (void)x;
    return ls_columns(g, "bad", t, 0, 2);
}
static ls_var concat_targets(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    ls_var attention = ls_attention(g, "attn", ls_linear(g, "fc", x, 12, &plain), 1, 0.0f);

    return ls_concat(g, "bad", attention, ls_targets_f32(g, "targets", 4));
}
/* Of all layers only a user's own gives two values of other extents but the last. */
static ls_status infer_flat(ls_layer_node *node)
{
    node->out_shape = ls_shape1(ls_shape_count(&node->in_shape[0]));
    node->out_dtype = LS_REAL;
    return LS_OK;
}
static ls_status never_run(const ls_layer_run *run)
{
    return LS_FAIL(LS_ERR_INTERNAL, "layer '%s' is run", run->node->name);
}
static ls_var concat_shapes(ls_graph *g, ls_var x, ls_var t)
{
    static const ls_layer_kind flat = {.struct_size = sizeof flat, .name = "flat", .infer = infer_flat,
                                       .forward = never_run};

    (void)t;
    return ls_concat(g, "bad", x, ls_layer_append(g, &flat, "flat", &x, 1, NULL, 0));
}
static ls_var mse_of_whole_numbers(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_mse(g, "bad", ls_linear(g, "fc", x, 1, &plain), ls_targets(g, "targets", 4));
}
static ls_var mse_sizes(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_mse(g, "bad", x, ls_targets_f32(g, "targets", 4));
}
static ls_var mse_padding(ls_graph *g, ls_var x, ls_var t)
{
    ls_var padded = ls_linear(g, "fc", x, 5, &(ls_linear_options){.out_by_in = true, .pad_out_to = 8});

    (void)t;
    return ls_mse(g, "bad", padded, ls_targets_f32(g, "targets", 32));
}
static ls_var softmax_of_real_targets(ls_graph *g, ls_var x, ls_var t)
{
    (void)t;
    return ls_softmax_xent(g, "bad", x, ls_targets_f32(g, "targets", 4), 6);
}
static ls_var sigmoid_of_targets(ls_graph *g, ls_var x, ls_var t)
{
    (void)x;
    (void)t;
    return ls_sigmoid(g, "bad", ls_targets_f32(g, "targets", 4));
}

static void test_errors(void **state)
{
    static const struct {
        build_fn build;
        const char *part, *also;
    } cases[] = {
        {add_shapes, "[4, 6]", "[4, 7]"},
        {gelu_tokens, "real", "i32 [4]"},
        {linear_tokens, "real", "i32 [4]"},
        {linear_empty, "0 output features", "[4, 6]"},
        {linear_pads_columns, "padded", "[out, in]"},
        {linear_tied_shape, "[7, 6]", "[5, 6]"},
        {reads_padding, "padding of 'fc'", "[4, 8]"},
        {layernorm_tokens, "real", "i32 [4]"},
        {dropout_one, "probability 1", "[0, 1)"},
        {embedding_of_reals, "tokens", "real [4, 6]"},
        {attention_width, "3 x width", "[4, 10]"},
        {attention_heads, "3 heads", "width 4"},
        {attention_head_size, "2 heads of 257 channels", "at most 256"},
        {loss_rows, "[4, 6]", "[5]"},
        {loss_classes, "6 classes", "3 columns of padding"},
        {mul_shapes, "[4, 6]", "[4, 7]"},
        {dot_shapes, "[4, 7]", "[4, 6]"},
        {dot_tokens, "(dot) needs real input", "i32 [4]"},
        {columns_behind_the_end, "3 columns from column 4 on", "[4, 6]"},
        {columns_before_the_start, "3 columns from column -1 on", "[4, 6]"},
        {columns_without_any, "0 columns from column 2 on", "[4, 6]"},
        {columns_huge, "from column 5 on", "[4, 6]"},
        {columns_of_tokens, "(columns) needs real input", "i32 [4]"},
        {concat_targets, "(concat) needs real inputs", "f32 [4]"},
        {concat_shapes, "last extent alone, not [4, 6]", "[24]"},
        {mse_of_whole_numbers, "ls_targets_f32", "i32 [4]"},
        {mse_sizes, "[4, 6]", "[4]"},
        {mse_padding, "[4, 8]", "[32]"},
        {softmax_of_real_targets, "i32 targets", "f32 [4]"},
        {sigmoid_of_targets, "real input", "f32 [4]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_graph *graph;
        ls_plan *plan;

        CHECK_OK(ls_graph_create(&graph));
        ls_var tokens = ls_input(graph, "tokens", LS_I32, ls_shape1(4));
        ls_var x = ls_embedding(graph, "wte", "wpe", tokens, 10, 0, 6, small);
        ls_var out = cases[i].build(graph, x, tokens);
        ls_compile_options options = {.struct_size = sizeof options, .mode = LS_INFER, .micro_batch = 1,
                                      .n_outputs = 1, .output = {x}};

        assert_null(out.graph);
        CHECK_FAILS(ls_graph_compile(graph, &options, &plan), LS_ERR_CONFIG, "layer 'bad'");
        const char *message = ls_failure_message();

        if (strstr(message, cases[i].part) == NULL || strstr(message, cases[i].also) == NULL) {
            fail_msg("case %zu: '%s' lacks '%s' or '%s'", i, message, cases[i].part, cases[i].also);
        }
        ls_graph_destroy(&graph);
    }
    test_check_no_memory_live();
}

/* ---- gradients ----------------------------------------------------------------------------------------------- */

static void check_gradients(ls_graph *graph, ls_var loss, int64_t n_classes)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 3, .loss = loss};
    graph_case c;

    graph_case_open(&c, graph, &options, 2, n_classes);
    graph_case_check_gradients(&c);
    graph_case_close(&c);
    graph_case_check_precision(graph, loss, 16, n_classes);
    ls_graph_destroy(&graph);
    test_check_no_memory_live();
}

/* Values with several readers, one of them twice in one sum; a norm whose input needs no gradient; dropout. */
static void test_many_readers(void **state)
{
    ls_graph *graph;

    (void)state;
    CHECK_OK(ls_graph_create(&graph));
    ls_var x = ls_layernorm(graph, "norm0", ls_input(graph, "x", LS_F32, ls_shape2(3, 6)));
    ls_var a = ls_linear(graph, "a", x, 8, &plain);
    ls_var b = ls_add(graph, "sum0", a, ls_gelu(graph, "gelu0", a));
    ls_var c = ls_add(graph, "sum1", ls_relu(graph, "relu0", a), ls_gelu(graph, "gelu1", b));
    ls_var d = ls_add(graph, "twice", c, c);
    ls_var e = ls_dropout(graph, "drop", ls_add(graph, "sum2", ls_layernorm(graph, "norm1", d), b), 0.3f);
    ls_var f = ls_add(graph, "sum3", e, ls_linear(graph, "f", e, 8, &plain));
    ls_var logits = ls_linear(graph, "head", ls_add(graph, "sum4", f, a), 5, &plain);

    check_gradients(graph, ls_softmax_xent(graph, "loss", logits, ls_targets(graph, "y", 3), 5), 5);
}

/* A weight used three times: as a table, and twice as [out, in], padded. */
static void test_shared_weight(void **state)
{
    ls_linear_options tied = {.out_by_in = true, .tied_to = "wte.weight", .no_bias = true};
    ls_graph *graph;

    (void)state;
    CHECK_OK(ls_graph_create(&graph));
    ls_var tokens = ls_input(graph, "tokens", LS_I32, ls_shape1(5));
    ls_var x = ls_embedding(graph, "wte", "wpe", tokens, 6, 0, 6, small);

    x = ls_add(graph, "sum", x, ls_linear(graph, "middle", x, 6, &tied));
    ls_var logits = ls_linear(graph, "head", ls_gelu(graph, "gelu", x), 6, &tied);

    check_gradients(graph, ls_softmax_xent(graph, "loss", logits, ls_targets(graph, "y", 5), 6), 6);
}

/* [out, in] with a padded bias; the logits are an output, so their gradient may not take their place. */
static void test_padded_linear(void **state)
{
    ls_linear_options padded = {.out_by_in = true, .pad_out_to = 8};
    ls_graph *graph;
    graph_case c;

    (void)state;
    CHECK_OK(ls_graph_create(&graph));
    ls_var x = ls_linear(graph, "fc", ls_input(graph, "x", LS_F32, ls_shape1(6)), 6, &plain);
    ls_var logits = ls_linear(graph, "head", x, 5, &padded);
    ls_var loss = ls_softmax_xent(graph, "loss", logits, ls_targets(graph, "y", 1), 5);
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 3, .loss = loss,
                                  .n_outputs = 2, .output = {logits, loss}};

    graph_case_open(&c, graph, &options, 1, 5);
    graph_case_check_gradients(&c);
    double sum = graph_case_run(&c, 0, true), again = 0.0;
    ls_view out = lsi_plan_output(c.plan, 0, c.activations), losses = lsi_plan_output(c.plan, 1, c.activations);

    assert_int_equal(out.count, 3 * 8);
    for (int row = 0; row < 3; row++) {
        for (int column = 5; column < 8; column++) {
            assert_true(((const float *)out.data)[row * 8 + column] == 0.0f);
        }
        again += (double)((const float *)losses.data)[row];
    }
    assert_true(sum == again && sum > 0.0);
    assert_true(c.record.runs == 1.0);
    graph_case_close(&c);
    graph_case_check_precision(graph, loss, 16, 5);
    ls_graph_destroy(&graph);
}

/* Every way in which two values meet, each factor read by others, too, and by one layer twice; overlapping columns, so
 * that gradients are added to parts of what others have written whole. */
static void test_two_inputs(void **state)
{
    ls_graph *graph;

    (void)state;
    CHECK_OK(ls_graph_create(&graph));
    ls_var x = ls_linear(graph, "fc", ls_input(graph, "x", LS_F32, ls_shape2(12, 6)), 8, &plain);
    ls_var a = ls_columns(graph, "a", x, 0, 5), b = ls_columns(graph, "b", x, 3, 5);
    ls_var whole = ls_columns(graph, "whole", x, 0, 8);
    ls_var product = ls_mul(graph, "product", a, b), square = ls_mul(graph, "square", a, a);
    ls_var inner = ls_dot(graph, "inner", product, b), norm = ls_dot(graph, "norm", b, b);
    ls_var both = ls_concat(graph, "both", ls_tanh(graph, "tanh", product), ls_sigmoid(graph, "sigmoid", square));
    ls_var twice = ls_concat(graph, "twice", inner, inner);
    ls_var all = ls_concat(graph, "all", ls_concat(graph, "all0", both, whole), ls_concat(graph, "all1", twice, norm));
    /* The gradient of one number that is left of many of either sign has no relative error to speak of: no bias. */
    ls_var score = ls_linear(graph, "score", all, 1, &(ls_linear_options){.weight = plain.weight, .no_bias = true});

    ls_var last = ls_mul(graph, "last", score, inner);

    check_gradients(graph, ls_mse(graph, "loss", last, ls_targets_f32(graph, "y", 12)), 0);
}

/* A slot's record: the sum of the squared errors, the count of targets that are numbers, no hits. */
static void test_mse_record(void **state)
{
    ls_graph *graph;
    graph_case c;
    double expected = 0.0, counted = 0.0;

    (void)state;
    CHECK_OK(ls_graph_create(&graph));
    ls_var x = ls_linear(graph, "fc", ls_input(graph, "x", LS_F32, ls_shape1(6)), 2, &plain);
    ls_var loss = ls_mse(graph, "loss", x, ls_targets_f32(graph, "y", 2));
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_EVAL, .micro_batch = 9, .loss = loss,
                                  .n_outputs = 1, .output = {x}};

    graph_case_open(&c, graph, &options, 2, 0);
    double sum = graph_case_run(&c, 0, true);
    ls_view out = lsi_plan_output(c.plan, 0, c.activations);

    for (int64_t i = 0; i < out.count; i++) {
        float target;

        memcpy(&target, &c.targets[i], sizeof target);
        if (target == target) {
            double d = (double)((const float *)out.data)[i] - (double)target;

            expected += d * d;
            counted += 1.0;
        }
    }
    assert_true(counted > 0.0 && counted < 18.0);
    assert_true(sum > 0.999999 * expected && sum < 1.000001 * expected);
    assert_true(c.record.counted == counted && c.record.hits == 0.0 && c.record.runs == 1.0);
    graph_case_close(&c);
    ls_graph_destroy(&graph);
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_many_readers),
        cmocka_unit_test(test_shared_weight),
        cmocka_unit_test(test_padded_linear),
        cmocka_unit_test(test_two_inputs),
        cmocka_unit_test(test_mse_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
