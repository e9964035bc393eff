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

    exact_open(1 + exact_draw(EXACT_MAX_COUNT), exact_draw(4) == 0 ? LS_I32 : LS_F32, exact_draw(2) == 0);
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
    unsigned char *weights;         /* rubbish until they are needed */
    const lsi_plan_run *run;
    int needed[EXACT_MAX_NODES], done[EXACT_MAX_NODES];
} hooks;

static const lsi_param *param_of(const hooks *h, int param, int *node)
{
    const lsi_param *p = &lsi_graph_params(h->graph)->param[param];

    *node = atoi(p->name + 1);
    return p;
}

/* The weight appears when it is announced, as by a gather: too late an announcement finds a reader before it. */
static ls_status on_need(void *argument, int param)
{
    hooks *h = argument;
    const lsi_param *p = param_of(h, param, &exact.announced);
    uint32_t weight = exact_weight(p->offset);

    exact_store(h->weights + (size_t)p->offset * ls_dtype_bytes(exact.compute), LS_REAL, &weight, 1);
    h->needed[param]++;
    return LS_OK;
}

/* The gradient is complete when it is announced, and announced at once. */
static ls_status on_done(void *argument, int param)
{
    hooks *h = argument;
    int node;
    const lsi_param *p = param_of(h, param, &node);
    uint32_t gradient;

    memcpy(&gradient, h->run->gradients + p->offset, sizeof gradient);
    assert_int_equal(gradient, exact.param_gradient[node] * (h->run->first_in_lane ? 1u : 2u));
    assert_true(exact.turn >= 0 && exact.nodes[exact.turn].param == node);
    h->done[param]++;
    return LS_OK;
}

static void check_outputs(const ls_plan *plan, const ls_compile_options *options, void *activations)
{
    for (int i = 0; i < options->n_outputs; i++) {
        const exact_value *v = &exact.values[options->output[i].id];
        ls_view view = lsi_plan_output(plan, i, activations);

        assert_int_equal(view.count, v->count * EXACT_SAMPLES);
        assert_int_equal(view.dtype, v->dtype == LS_REAL ? exact.compute : v->dtype);
        assert_true(exact_equal(view.data, v->dtype, v->forward, view.count));
    }
}

static bool reads_param(const ls_plan *plan, int param)
{
    for (int p = 0; p < plan->n_steps; p++) {
        if (plan->step[p].node->layer.n_params == 1 && plan->step[p].node->param[0] == param) {
            return true;
        }
    }
    return false;
}

/* One slot, on memory full of rubbish. */
static void run_slot(const ls_plan *plan, const ls_compile_options *options, float *gradients, bool first)
{
    const lsi_param_table *table = lsi_graph_params(exact.graph);
    size_t bytes = lsi_plan_activation_bytes(plan);
    size_t weight_bytes = (size_t)table->n_elements * ls_dtype_bytes(options->compute);
    hooks h = {.graph = exact.graph, .weights = malloc(weight_bytes)};
    unsigned char *activations = malloc(bytes + 1);
    lsi_plan_run run = {.stream = &exact_stream,
                        .weights = h.weights,
                        .gradients = gradients,
                        .activations = activations,
                        .input = exact.values[0].forward,
                        .first_in_lane = first,
                        .param_need = on_need,
                        .param_done = on_done,
                        .hook_argument = &h};

    h.run = &run;
    exact.compute = options->compute;
    memset(activations, 0xff, bytes);
    memset(h.weights, 0xff, weight_bytes);
    CHECK_OK(lsi_plan_forward(plan, &run));
    check_outputs(plan, options, activations);
    if (options->mode == LS_TRAIN) {
        CHECK_OK(lsi_plan_backward(plan, &run));
        check_outputs(plan, options, activations);
    }
    for (int k = 0; k < table->n; k++) {
        assert_int_equal(h.needed[k], reads_param(plan, k));
        assert_int_equal(h.done[k], options->mode == LS_TRAIN);
    }
    free(activations);
    free(h.weights);
}

static void check_place(const ls_plan *wide, int in_wide, const ls_plan *narrow, int in_narrow, ls_dtype dtype)
{
    assert_int_equal(in_wide < 0, in_narrow < 0);
    if (in_wide < 0) {
        return;
    }
    const lsi_memory_request *w = &wide->buffer[in_wide], *n = &narrow->buffer[in_narrow];

    assert_int_equal(w->bytes, dtype == LS_REAL ? 2 * n->bytes : n->bytes);
    assert_true(w->end == n->end && (w->begin == n->begin || in_narrow == narrow->converted_input));
}

/* Plans of all types are one plan: the same buffers at the same times, only that those of LS_REAL are half as large;
 * and the converted input, which a layer may write over. */
static void check_halves(const ls_plan *wide, const ls_plan *narrow)
{
    bool converts = exact.values[0].dtype == LS_REAL && narrow->reads_input;

    assert_int_equal(wide->converted_input, LSI_BUFFER_NONE);
    assert_int_equal(narrow->converted_input != LSI_BUFFER_NONE, converts);
    assert_int_equal(wide->n_steps, narrow->n_steps);
    for (int p = 0; p < wide->n_steps; p++) {
        const lsi_step *w = &wide->step[p], *n = &narrow->step[p];
        const ls_layer_node *layer = &w->node->layer;

        check_place(wide, w->out, narrow, n->out, layer->out_dtype);
        for (int i = 0; i < layer->n_saved; i++) {
            check_place(wide, w->saved[i], narrow, n->saved[i], layer->saved[i].dtype);
        }
        for (int i = 0; i < layer->n_in && w->backward; i++) {
            check_place(wide, w->d_in[i], narrow, n->d_in[i], layer->in_dtype[i]);
        }
    }
}

static void compile_and_run(ls_compile_options *options, float *gradients, ls_plan **out)
{
    CHECK_OK(ls_graph_compile(exact.graph, options, out));
    run_slot(*out, options, gradients, true);
    if (options->mode == LS_TRAIN) {
        run_slot(*out, options, gradients, false);
    }
}

static void check_graph(size_t *bytes, size_t *bound)
{
    static const ls_dtype types[] = {LS_F32, LS_F16, LS_BF16};
    ls_plan *train[3], *infer_plan;
    int loss = make_graph();

    exact_differentiate(loss);
    /* Layers that only an output depends on, read in the forward alone; added behind the loss. */
    int side = exact_append(EXACT_IN_PLACE, (int[]){(int)exact_draw((uint32_t)loss)}, 1, false);

    side = exact_append(EXACT_SUM, (int[]){side, side}, 2, false);
    ls_compile_options options = {.struct_size = sizeof options, .micro_batch = EXACT_SAMPLES,
                                  .loss = exact.values[loss].var};
    int n_outputs = (int)exact_draw(4);
    float *gradients = malloc((size_t)lsi_graph_params(exact.graph)->n_elements * sizeof *gradients);

    options.output[0] = exact.values[side].var;
    options.output[1] = exact.values[1 + exact_draw((uint32_t)loss - 1)].var;
    options.output[2] = exact.values[loss - 1].var;
    for (int t = 0; t < 3; t++) {
        options.compute = types[t];
        options.mode = LS_INFER;
        options.n_outputs = 3;
        compile_and_run(&options, gradients, &infer_plan);
        options.mode = LS_TRAIN;
        options.n_outputs = n_outputs;
        compile_and_run(&options, gradients, &train[t]);
        if (t > 0) {
            check_halves(train[0], train[t]);
        }
        *bytes += train[t]->size.bytes;
        *bound += train[t]->size.bound;
    }
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
    exact_open(100, LS_F32, false);
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
    exact_open(100, LS_F32, false);
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
