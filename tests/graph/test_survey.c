/* RUN: timeout=60 */
/* What a plan tells that it launches: counted work against the formula of the model, and every op that a run launches,
 * in its order, with views and products as a run gives them but for the addresses. */
#include "support/model_case.h"

#include <math.h>
#include <string.h>

#include "graph/survey.h"
#include "kernels/gemm_choice.h"
#include "kernels/ops.h"

enum { SAMPLES = 3, MAX_OPS = 512 };

typedef struct seen {
    const ls_op *op;
    char layer[LS_NAME_MAX];
    unsigned char arguments[LS_OP_MAX_ARGUMENTS];
} seen;

typedef struct list {
    seen op[MAX_OPS];
    int n;
} list;

static ls_status note(void *argument, const char *layer, const ls_op *op, const void *arguments)
{
    list *l = argument;

    assert_in_range(l->n, 0, MAX_OPS - 1);
    seen *s = &l->op[l->n++];
    memset(s, 0, sizeof *s);
    s->op = op;
    strcpy(s->layer, layer);
    memcpy(s->arguments, arguments, op->arguments_bytes);
    return LS_OK;
}

/* ---- a device that runs nothing and notes everything ---------------------------------------------------------------
 */

typedef struct noting_device {
    ls_device head;
    list *list;
} noting_device;

static ls_status noting_launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    return note(((noting_device *)stream->device)->list, "", op, arguments);
}

static const ls_backend noting = {.struct_size = sizeof(ls_backend), .name = "noting", .launch = noting_launch};

/* Views alike in count and type, and as aligned; products of the same shape. */
static void expect_same(const seen *a, const seen *b)
{
    int n_views = a->op->n_in + a->op->n_out + a->op->n_acc;
    const ls_view *x = (const void *)a->arguments, *y = (const void *)b->arguments;
    lsi_gemm_shape left, right;

    assert_string_equal(a->op->name, b->op->name);
    for (int i = 0; i < n_views; i++) {
        assert_int_equal(x[i].count, y[i].count);
        assert_int_equal(x[i].dtype, y[i].dtype);
        assert_int_equal((uintptr_t)x[i].data % 256, (uintptr_t)y[i].data % 256);
        assert_int_equal(x[i].data == NULL, y[i].data == NULL);
    }
    assert_true(a->op->flops == NULL || a->op->flops(a->arguments) == b->op->flops(b->arguments));
    bool product = lsi_gemm_shape_of(a->op, a->arguments, false, &left);
    assert_int_equal(product, lsi_gemm_shape_of(b->op, b->arguments, false, &right));
    if (product) {
        assert_memory_equal(&left, &right, sizeof left);
        assert_true(left.aligned);
    }
}

static void tells_what_a_run_launches(void **unused)
{
    static list told, run;

    (void)unused;
    for (int which = 0; which < MODEL_CASES; which++) {
        lsi_model m;
        graph_case c;
        noting_device device = {{&noting}, &run};
        ls_stream stream = {&device.head};

        model_case_build(which, -1, &m);
        model_case_open(&c, &m, LS_F32, LS_TRAIN, SAMPLES, 1, false);
        told.n = run.n = 0;
        assert_int_equal(lsi_plan_survey(c.plan, note, &told), LS_OK);
        static _Alignas(256) char memory[256]; /* never touched, and aligned as a device's */
        lsi_plan_run slot = {.stream = &stream,
                             .state = (void *)memory,
                             .weights = memory,
                             .gradients = (void *)memory,
                             .activations = memory,
                             .input = memory,
                             .targets = memory,
                             .record = (void *)memory};
        assert_int_equal(lsi_plan_forward(c.plan, &slot), LS_OK);
        assert_int_equal(lsi_plan_backward(c.plan, &slot), LS_OK);
        assert_int_equal(told.n, run.n);
        for (int i = 0; i < told.n; i++) {
            expect_same(&told.op[i], &run.op[i]);
            assert_true(told.op[i].layer[0] != '\0' || i == 0);
        }
        graph_case_close(&c);
        ls_graph_destroy(&m.graph);
    }
}

/* mlp: forward 2 m k n a layer, backward twice that, but for the first layer, whose input needs no gradient. */
static void counts_an_mlp(void **unused)
{
    ls_graph *graph;
    ls_plan *plan;
    double flops;

    (void)unused;
    assert_int_equal(ls_graph_create(&graph), LS_OK);
    ls_var x = ls_input(graph, "x", LS_F32, ls_shape1(7)), targets = ls_targets(graph, "targets", 1);
    ls_var h = ls_linear(graph, "a", x, 5, NULL);
    h = ls_linear(graph, "b", ls_gelu(graph, "act", h), 11, NULL);
    ls_var loss = ls_softmax_xent(graph, "loss", h, targets, 11);
    ls_compile_options options = {
        .struct_size = sizeof options, .micro_batch = SAMPLES, .compute = LS_F32, .loss = loss};
    options.mode = LS_TRAIN;
    assert_int_equal(ls_graph_compile(graph, &options, &plan), LS_OK);
    assert_int_equal(lsi_plan_flops(plan, &flops), LS_OK);
    assert_true(flops == 2.0 * SAMPLES * (2 * 7 * 5 + 3 * 5 * 11));
    options.mode = LS_EVAL;
    assert_int_equal(ls_graph_compile(graph, &options, &plan), LS_OK);
    assert_int_equal(lsi_plan_flops(plan, &flops), LS_OK);
    assert_true(flops == 2.0 * SAMPLES * (7 * 5 + 5 * 11));
    ls_graph_destroy(&graph);
}

static ls_status refuse(void *argument, const char *layer, const ls_op *op, const void *arguments)
{
    (void)op, (void)arguments;
    return ++*(int *)argument == 2 ? LS_FAIL(LS_ERR_DEVICE, "not in layer %s", layer) : LS_OK;
}

static void ends_with_the_visitors_failure(void **unused)
{
    lsi_model m;
    graph_case c;
    int n = 0;

    (void)unused;
    model_case_build(0, 0, &m);
    model_case_open(&c, &m, LS_F32, LS_TRAIN, SAMPLES, 1, false);
    assert_int_equal(lsi_plan_survey(c.plan, refuse, &n), LS_ERR_DEVICE);
    assert_int_equal(n, 2);
    graph_case_close(&c);
    ls_graph_destroy(&m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_a_run_launches),
        cmocka_unit_test(counts_an_mlp),
        cmocka_unit_test(ends_with_the_visitors_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
