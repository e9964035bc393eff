/* RUN: timeout=60 */
/* Random graphs, executed and checked against plain automatic differentiation (support/exact_graph.h). */
#include "support/exact_graph.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/compile.h"
#include "graph/plan.h"

enum { N_GRAPHS = 400 };

/* ---- random graphs ----------------------------------------------------------------------------------------- */

/* Inputs of equal count for the kinds that need it: near values, so that lifetimes are short and long. */
static int pick_inputs(int kind, int *in)
{
    bool single = kind == EXACT_IN_PLACE || kind == EXACT_OVER_OUT || kind == EXACT_OVER_IN;
    int n = single ? 1 : 1 + (int)exact_draw(3);

    in[0] = exact_draw(2) == 0 ? exact.n_values - 1 : (int)exact_draw((uint32_t)exact.n_values);
    for (int i = 1; i < n; i++) {
        in[i] = (int)exact_draw((uint32_t)exact.n_values);
        if (kind >= EXACT_ANY_SHAPE && exact.values[in[i]].count != exact.values[in[0]].count) {
            in[i] = in[0];
        }
    }
    return n;
}

static bool is_read(int v)
{
    for (int n = 0; n < exact.n_nodes; n++) {
        for (int i = 0; i < exact.nodes[n].n_in; i++) {
            if (exact.nodes[n].in[i] == v) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the value of the loss: everything before it reaches it. */
static int make_graph(void)
{
    int n_nodes = 2 + (int)exact_draw(20), in[LS_LAYER_MAX_IN];

    exact_open(1 + exact_draw(EXACT_MAX_COUNT));
    for (int n = 0; n < n_nodes; n++) {
        int kind = (int)exact_draw(EXACT_LOSS), n_in = pick_inputs(kind, in);

        exact_append(kind, in, n_in, kind < EXACT_ANY_SHAPE && (n == 0 || exact_draw(3) == 0));
    }
    int last = exact_append(EXACT_SAVES_IN, (int[]){exact.n_values - 1}, 1, true);

    for (int v = 1; v < last; v++) {
        if (!is_read(v)) {
            last = exact_append((int)exact_draw(EXACT_ANY_SHAPE), (int[]){v, last}, 2, false);
        }
    }
    return exact_append(EXACT_LOSS, &last, 1, false);
}

/* ---- checks -------------------------------------------------------------------------------------------------- */

typedef struct hooks {
    const ls_graph *graph;
    int needed[EXACT_MAX_NODES], done[EXACT_MAX_NODES];
} hooks;

static ls_status on_need(void *argument, int param)
{
    ((hooks *)argument)->needed[param]++;
    return LS_OK;
}

/* The gradient is complete when it is announced. */
static const lsi_plan_run *current;
static ls_status on_done(void *argument, int param)
{
    hooks *h = argument;
    const lsi_param *p = &lsi_graph_params(h->graph)->param[param];
    uint32_t gradient;

    memcpy(&gradient, current->gradients + p->offset, sizeof gradient);
    assert_int_equal(gradient, exact.param_gradient[atoi(p->name + 1)] * (current->first_in_lane ? 1u : 2u));
    h->done[param]++;
    return LS_OK;
}

static void check_outputs(const ls_plan *plan, const ls_compile_options *options, void *activations)
{
    for (int i = 0; i < options->n_outputs; i++) {
        const exact_value *v = &exact.values[options->output[i].id];
        ls_view view = lsi_plan_output(plan, i, activations);

        assert_int_equal(view.count, v->count * EXACT_SAMPLES);
        assert_memory_equal(view.data, v->forward, (size_t)view.count * sizeof(uint32_t));
    }
}

/* One slot, on memory full of rubbish. */
static void run_slot(const ls_plan *plan, const ls_compile_options *options, hooks *h, float *gradients, bool first)
{
    size_t bytes = lsi_plan_activation_bytes(plan);
    unsigned char *activations = malloc(bytes + 1);
    int n_params = lsi_graph_params(h->graph)->n;
    lsi_plan_run run = {.stream = &exact_stream,
                        .weights = gradients,
                        .gradients = gradients,
                        .activations = activations,
                        .input = exact.values[0].forward,
                        .first_in_lane = first,
                        .param_need = on_need,
                        .param_done = on_done,
                        .hook_argument = h};

    memset(activations, 0xff, bytes);
    memset(h->needed, 0, sizeof h->needed);
    memset(h->done, 0, sizeof h->done);
    current = &run;
    CHECK_OK(lsi_plan_forward(plan, &run));
    check_outputs(plan, options, activations);
    if (options->mode == LS_TRAIN) {
        CHECK_OK(lsi_plan_backward(plan, &run));
        check_outputs(plan, options, activations);
        for (int k = 0; k < n_params; k++) {
            assert_int_equal(h->needed[k], 1);
            assert_int_equal(h->done[k], 1);
        }
    }
    free(activations);
}

static void check_graph(size_t *bytes, size_t *bound)
{
    ls_plan *train, *infer_plan;
    int loss = make_graph();
    hooks h = {.graph = exact.graph};

    exact_differentiate(loss);
    /* Layers that only an output depends on, read in the forward alone; added behind the loss. */
    int side = exact_append(EXACT_IN_PLACE, (int[]){(int)exact_draw((uint32_t)loss)}, 1, false);

    side = exact_append(EXACT_SUM, (int[]){side, side}, 2, false);
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = EXACT_SAMPLES,
                                  .loss = exact.values[loss].var, .n_outputs = (int)exact_draw(4)};

    options.output[0] = exact.values[side].var;
    options.output[1] = exact.values[1 + exact_draw((uint32_t)loss - 1)].var;
    options.output[2] = exact.values[loss - 1].var;
    CHECK_OK(ls_graph_compile(exact.graph, &options, &train));
    options.mode = LS_INFER;
    options.n_outputs = 3;
    CHECK_OK(ls_graph_compile(exact.graph, &options, &infer_plan));
    float *gradients = malloc((size_t)lsi_graph_params(exact.graph)->n_elements * sizeof *gradients);

    run_slot(infer_plan, &options, &h, gradients, true);
    options.mode = LS_TRAIN;
    options.n_outputs = train->n_outputs;
    run_slot(train, &options, &h, gradients, true);
    run_slot(train, &options, &h, gradients, false);
    *bytes += train->size.bytes;
    *bound += train->size.bound;
    free(gradients);
    ls_graph_destroy(&exact.graph);
    test_check_no_memory_live();
}

static void test_random_graphs(void **state)
{
    size_t bytes = 0, bound = 0;

    (void)state;
    for (int g = 0; g < N_GRAPHS; g++) {
        check_graph(&bytes, &bound);
    }
    print_message("%d graphs: %zu bytes of activations, at least %zu\n", N_GRAPHS, bytes, bound);
    assert_true((double)bytes < 1.05 * (double)bound);
}

/* ---- what the plan must share -------------------------------------------------------------------------------- */

/* x -> a -> in-place b -> sum(b, a'): sharing is not only safe but taken. */
static void test_sharing(void **state)
{
    ls_plan *plan;

    (void)state;
    exact_open(100);
    int trunk = exact_append(EXACT_SAVES_IN, (int[]){0}, 1, true);
    int equal = exact_append(EXACT_OVER_OUT, (int[]){trunk}, 1, false);
    int branch = exact_append(EXACT_OVER_OUT, (int[]){equal}, 1, false);
    int inplace = exact_append(EXACT_IN_PLACE, (int[]){branch}, 1, false);
    int sum = exact_append(EXACT_SUM, (int[]){equal, inplace}, 2, false);
    int loss = exact_append(EXACT_LOSS, &sum, 1, false);
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = EXACT_SAMPLES,
                                  .loss = exact.values[loss].var};

    CHECK_OK(ls_graph_compile(exact.graph, &options, &plan));
    assert_int_equal(plan->step[3].out, plan->step[2].out);         /* forward in place */
    assert_int_equal(plan->step[5].d_in[0], plan->step[4].out);     /* the loss's gradient over its input */
    assert_int_equal(plan->step[4].d_in[0], LSI_BUFFER_NONE);       /* a sum's gradients are its output's ... */
    assert_int_equal(plan->step[4].d_in[1], LSI_BUFFER_NONE);
    assert_int_equal(plan->step[3].d_out, plan->step[4].d_out);
    assert_int_not_equal(plan->step[3].d_in[0], plan->step[3].d_out);   /* ... which the trunk still needs here ... */
    assert_int_equal(plan->step[2].d_in[0], plan->step[1].d_out);   /* ... and adds to after the branch is done */
    assert_true(plan->step[2].accumulate_in[0]);
    assert_int_equal(plan->step[1].d_in[0], plan->step[1].d_out);   /* alone: in place */
    ls_graph_destroy(&exact.graph);
}

/* In place means over in[0] alone: not where the layer reads the same value as in[1], too. */
static void test_no_sharing_with_oneself(void **state)
{
    ls_plan *plan;

    (void)state;
    exact_open(100);
    int x = exact_append(EXACT_OVER_OUT, (int[]){0}, 1, false);
    int twice = exact_append(EXACT_IN_PLACE, (int[]){x, x}, 2, false);
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_INFER, .micro_batch = EXACT_SAMPLES,
                                  .n_outputs = 1, .output = {exact.values[twice].var}};

    CHECK_OK(ls_graph_compile(exact.graph, &options, &plan));
    assert_int_not_equal(plan->step[1].out, plan->step[0].out);
    ls_graph_destroy(&exact.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_no_sharing_with_oneself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
