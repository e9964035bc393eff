/* RUN: timeout=60 */
/* Where a gelu is made by the products next to it, a sum by the norm behind it, a loss's gradient by its forward, and
 * where they must not be: told by what the plan launches. That the numbers are right is the business of the gradient
 * checks of layers and models, where all that happens. */
#include "support/graph_case.h"

#include <string.h>

#include "graph/survey.h"
#include "kernels/ops.h"
#include <lockstep/layers.h>

typedef struct counts {
    int gemm, gelu, slope, fused_gelu, fused_slope, loss_forward, loss_backward, fused_loss, add, norm, fused_norm;
} counts;

static ls_status count(void *argument, const char *layer, const ls_op *op, const void *arguments)
{
    counts *c = argument;

    (void)layer, (void)arguments;
    c->gemm += op == &lsi_op_gemm;
    c->gelu += op == &lsi_op_gelu_fwd;
    c->slope += op == &lsi_op_gelu_bwd;
    c->fused_gelu += op == &lsi_op_gemm_gelu;
    c->fused_slope += op == &lsi_op_gemm_gelu_bwd;
    c->loss_forward += op == &lsi_op_softmax_xent_fwd;
    c->loss_backward += op == &lsi_op_softmax_xent_bwd;
    c->fused_loss += op == &lsi_op_softmax_xent;
    c->add += op == &lsi_op_add;
    c->norm += op == &lsi_op_layernorm_fwd;
    c->fused_norm += op == &lsi_op_add_layernorm;
    return LS_OK;
}

enum { WIDTH = 6, CLASSES = 5, SAMPLES = 2 };

typedef struct built {
    ls_graph *graph;
    ls_var x, targets;
} built;

static built begin(void)
{
    built b;

    CHECK_OK(ls_graph_create(&b.graph));
    b.x = ls_input(b.graph, "x", LS_F32, ls_shape1(WIDTH));
    b.targets = ls_targets(b.graph, "targets", 1);
    return b;
}

/* Counts by mode, of the graph whose logits are these; checks the gradients of what is trained. */
static counts finish_with(const built *b, ls_var logits, ls_mode mode)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = mode, .micro_batch = SAMPLES};
    counts c = {0};
    graph_case g;

    options.compute = LS_F32;
    options.loss = ls_softmax_xent(b->graph, "loss", logits, b->targets, CLASSES);
    ls_plan *plan;
    CHECK_OK(ls_graph_compile(b->graph, &options, &plan));
    CHECK_OK(lsi_plan_survey(plan, count, &c));
    if (mode == LS_TRAIN) {
        graph_case_open(&g, b->graph, &options, 2, CLASSES);
        graph_case_check_gradients(&g);
        graph_case_close(&g);
    }
    return c;
}

/* The same behind a head. */
static counts finish(const built *b, ls_var y, ls_mode mode)
{
    return finish_with(b, ls_linear(b->graph, "head", y, CLASSES, NULL), mode);
}

static void end(built *b)
{
    ls_graph_destroy(&b->graph);
}

static ls_var dense(const built *b, const char *name, ls_var x)
{
    return ls_linear(b->graph, name, x, WIDTH, NULL);
}

static void between_two_products(void **unused)
{
    (void)unused;
    for (int mode = LS_TRAIN; mode <= LS_EVAL; mode++) {
        built b = begin();
        counts c = finish(&b, ls_gelu(b.graph, "act", dense(&b, "fc", b.x)), (ls_mode)mode);
        bool trains = mode == LS_TRAIN;

        assert_int_equal(c.fused_gelu, 1);
        assert_int_equal(c.gelu, 0);
        assert_int_equal(c.fused_slope, trains);
        assert_int_equal(c.slope, 0);
        assert_int_equal(c.gemm, trains ? 3 : 1); /* the head's; two of weights */
        end(&b);
    }
}

/* A dropout stands between the gelu and the next product in training only. */
static void dropout_behind(void **unused)
{
    (void)unused;
    for (int mode = LS_TRAIN; mode <= LS_EVAL; mode++) {
        built b = begin();
        ls_var y = ls_dropout(b.graph, "drop", ls_gelu(b.graph, "act", dense(&b, "fc", b.x)), 0.25f);
        counts c = finish(&b, y, (ls_mode)mode);

        assert_int_equal(c.fused_gelu, 1);
        assert_int_equal(c.fused_slope, 0);
        assert_int_equal(c.slope, mode == LS_TRAIN);
        end(&b);
    }
}

static void dropout_in_front(void **unused)
{
    (void)unused;
    built b = begin();
    counts c = finish(&b, ls_gelu(b.graph, "act", ls_dropout(b.graph, "drop", dense(&b, "fc", b.x), 0.25f)), LS_TRAIN);
    assert_int_equal(c.fused_gelu, 0);
    assert_int_equal(c.gelu, 1);
    assert_int_equal(c.fused_slope, 1);
    end(&b);

    b = begin();
    c = finish(&b, ls_gelu(b.graph, "act", ls_dropout(b.graph, "drop", dense(&b, "fc", b.x), 0.25f)), LS_EVAL);
    assert_int_equal(c.fused_gelu, 1);
    end(&b);
}

static void two_readers_of_the_gelu(void **unused)
{
    (void)unused;
    built b = begin();
    ls_var y = ls_gelu(b.graph, "act", dense(&b, "fc", b.x));
    counts c = finish(&b, ls_add(b.graph, "sum", dense(&b, "left", y), dense(&b, "right", y)), LS_TRAIN);
    assert_int_equal(c.fused_gelu, 1);
    assert_int_equal(c.fused_slope, 0);
    assert_int_equal(c.slope, 1);
    end(&b);
}

/* The product's own output is read besides, before and behind the gelu. */
static void another_reader_of_the_product(void **unused)
{
    (void)unused;
    built b = begin();
    ls_var x = dense(&b, "fc", b.x);
    ls_var y = dense(&b, "second", ls_gelu(b.graph, "act", x));
    counts c = finish(&b, ls_add(b.graph, "sum", x, y), LS_TRAIN);
    assert_int_equal(c.fused_gelu, 1);
    end(&b);

    b = begin();
    x = dense(&b, "fc", b.x);
    ls_var t = ls_tanh(b.graph, "t", x);
    y = dense(&b, "second", ls_gelu(b.graph, "act", x));
    c = finish(&b, ls_mul(b.graph, "product", t, y), LS_TRAIN);
    assert_int_equal(c.fused_gelu, 1);
    end(&b);
}

static void two_gelus_of_one_product(void **unused)
{
    (void)unused;
    built b = begin();
    ls_var x = dense(&b, "fc", b.x);
    ls_var left = dense(&b, "left", ls_gelu(b.graph, "act1", x)),
           right = dense(&b, "right", ls_gelu(b.graph, "act2", x));
    counts c = finish(&b, ls_add(b.graph, "sum", left, right), LS_TRAIN);
    assert_int_equal(c.fused_gelu, 1);
    assert_int_equal(c.gelu, 1);
    end(&b);
}

static void without_a_product_in_front(void **unused)
{
    (void)unused;
    built b = begin();
    counts c =
        finish(&b, dense(&b, "second", ls_gelu(b.graph, "act", ls_tanh(b.graph, "t", dense(&b, "fc", b.x)))), LS_TRAIN);
    assert_int_equal(c.fused_gelu, 0);
    assert_int_equal(c.gelu, 1);
    assert_int_equal(c.fused_slope, 1);
    end(&b);

    /* Of the input itself, which needs no gradient. */
    b = begin();
    c = finish(&b, dense(&b, "second", ls_gelu(b.graph, "act", b.x)), LS_TRAIN);
    assert_int_equal(c.gelu, 1);
    assert_int_equal(c.slope + c.fused_slope, 0);
    end(&b);
}

/* A residual's sum, which others read, too; not one that somebody reads in between. */
static void sum(void **unused)
{
    (void)unused;
    for (int mode = LS_TRAIN; mode <= LS_EVAL; mode++) {
        built b = begin();
        ls_var x = dense(&b, "fc", b.x), s = ls_add(b.graph, "residual", x, dense(&b, "second", x));
        ls_var y = ls_add(b.graph, "last", s, dense(&b, "third", ls_layernorm(b.graph, "norm", s)));
        counts c = finish(&b, y, (ls_mode)mode);

        assert_int_equal(c.fused_norm, 1);
        assert_int_equal(c.norm, 0);
        assert_int_equal(c.add, 1);
        end(&b);
    }

    built b = begin();
    ls_var s = ls_add(b.graph, "residual", b.x, dense(&b, "fc", b.x)), t = ls_tanh(b.graph, "t", s);
    counts c = finish(&b, ls_mul(b.graph, "product", t, ls_layernorm(b.graph, "norm", s)), LS_TRAIN);
    assert_int_equal(c.fused_norm, 0);
    assert_int_equal(c.norm, 1);
    assert_int_equal(c.add, 1);
    end(&b);
}

/* Where the gradient may lie over the logits: not over an output. */
static void loss(void **unused)
{
    (void)unused;
    for (int mode = LS_TRAIN; mode <= LS_EVAL; mode++) {
        built b = begin();
        counts c = finish(&b, dense(&b, "fc", b.x), (ls_mode)mode);
        bool trains = mode == LS_TRAIN;

        assert_int_equal(c.fused_loss, trains);
        assert_int_equal(c.loss_forward, !trains);
        assert_int_equal(c.loss_backward, 0);
        end(&b);
    }

    /* The logits stay readable. */
    built b = begin();
    ls_var logits = ls_linear(b.graph, "head", b.x, CLASSES, NULL);
    ls_compile_options options = {.struct_size = sizeof options,
                                  .mode = LS_TRAIN,
                                  .micro_batch = SAMPLES,
                                  .compute = LS_F32,
                                  .n_outputs = 1,
                                  .output = {logits}};
    ls_plan *plan;
    options.loss = ls_softmax_xent(b.graph, "loss", logits, b.targets, CLASSES);
    CHECK_OK(ls_graph_compile(b.graph, &options, &plan));
    counts c = {0};
    CHECK_OK(lsi_plan_survey(plan, count, &c));
    assert_int_equal(c.fused_loss, 0);
    assert_int_equal(c.loss_backward, 1);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_two_products),
        cmocka_unit_test(dropout_behind),
        cmocka_unit_test(dropout_in_front),
        cmocka_unit_test(two_readers_of_the_gelu),
        cmocka_unit_test(another_reader_of_the_product),
        cmocka_unit_test(two_gelus_of_one_product),
        cmocka_unit_test(without_a_product_in_front),
        cmocka_unit_test(sum),
        cmocka_unit_test(loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
