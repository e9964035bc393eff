#include "support/exact_graph.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "graph/param.h"
#include "kernels/ops.h"

/* ---- numbers in memory ----------------------------------------------------------------------------------------- */

static ls_dtype in_memory(ls_dtype dtype)
{
    return dtype == LS_REAL ? exact.compute : dtype;
}

static uint32_t load(const void *data, ls_dtype dtype, int64_t i)
{
    return ls_dtype_bytes(dtype) == 2 ? ((const uint16_t *)data)[i] : ((const uint32_t *)data)[i];
}

static void store(void *data, ls_dtype dtype, int64_t i, uint32_t number)
{
    if (ls_dtype_bytes(dtype) == 2) {
        ((uint16_t *)data)[i] = (uint16_t)number;
    } else {
        ((uint32_t *)data)[i] = number;
    }
}

size_t exact_store(void *out, ls_dtype dtype, const uint32_t *numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        store(out, in_memory(dtype), i, numbers[i]);
    }
    return (size_t)n * ls_dtype_bytes(in_memory(dtype));
}

bool exact_equal(const void *data, ls_dtype dtype, const uint32_t *numbers, int64_t n)
{
    uint32_t mask = ls_dtype_bytes(in_memory(dtype)) == 2 ? 0xffffu : 0xffffffffu;

    for (int64_t i = 0; i < n; i++) {
        if (load(data, in_memory(dtype), i) != (numbers[i] & mask)) {
            return false;
        }
    }
    return true;
}

uint32_t exact_weight(int64_t e)
{
    return (uint32_t)e * 2654435761u >> 3;
}

/* ---- a backend that executes at once ------------------------------------------------------------------------- */

static void add_now(const lsi_add_into_args *a)
{
    assert_int_equal(a->x.count, a->y.count);
    assert_int_equal(a->x.dtype, a->y.dtype);
    for (int64_t i = 0; i < a->x.count; i++) {
        store(a->y.data, a->y.dtype, i, load(a->y.data, a->y.dtype, i) + load(a->x.data, a->x.dtype, i));
    }
}

static void cast_now(const lsi_cast_args *a)
{
    assert_int_equal(a->x.count, a->y.count);
    assert_int_not_equal(a->x.dtype, a->y.dtype);
    for (int64_t i = 0; i < a->x.count; i++) {
        store(a->y.data, a->y.dtype, i, load(a->x.data, a->x.dtype, i));
    }
}

static ls_status launch_now(ls_stream *stream, const ls_op *op, const void *arguments)
{
    (void)stream;
    exact.turn = -1;
    if (op == &lsi_op_cast) {
        cast_now(arguments);
    } else {
        assert_ptr_equal(op, &lsi_op_add_into);
        add_now(arguments);
    }
    return LS_OK;
}

static const ls_backend backend = {.struct_size = sizeof(ls_backend), .name = "now", .launch = launch_now};
static ls_device device = {&backend};
ls_stream exact_stream = {&device};

/* ---- the graph as the test knows it -------------------------------------------------------------------------- */

exact_graph exact;

uint32_t exact_draw(uint32_t below)
{
    return lsi_random_philox(7, exact.draws++, 0, 0, 99).v[0] % below;
}

static const exact_node *node_of(const ls_layer_run *run)
{
    int index;

    memcpy(&index, run->node->attributes, sizeof index);
    return &exact.nodes[index];
}

static void check_equal(const ls_layer_run *run, const char *what, ls_view view, ls_dtype dtype,
                        const uint32_t *expected, int64_t count)
{
    assert_int_equal(view.count, count * EXACT_SAMPLES);
    assert_int_equal(view.dtype, in_memory(dtype));
    if (!exact_equal(view.data, dtype, expected, view.count)) {
        fail_msg("%s of layer %s (%s) is not what it should be", what, run->node->name, run->node->kind->name);
    }
}

static void check_in(const ls_layer_run *run, const char *what, int i)
{
    const exact_value *v = &exact.values[node_of(run)->in[i]];

    check_equal(run, what, run->in[i], v->dtype, v->forward, v->count);
}

/* In place and type, in forward and backward alike. */
static void check_param(const ls_layer_run *run)
{
    if (node_of(run)->param >= 0) {
        char name[24];

        snprintf(name, sizeof name, "p%d.weight", node_of(run)->param);
        const lsi_param_table *table = lsi_graph_params(exact.graph);
        uint32_t number = exact_weight(table->param[lsi_param_find(table, name)].offset);

        assert_int_equal(run->param[0].dtype, exact.compute);
        assert_true(exact_equal(run->param[0].data, LS_REAL, &number, 1));
    }
}

/* ---- layers -------------------------------------------------------------------------------------------------- */

/* out[s, j] = sum over inputs i of factor_i in_i[s, j % count_i], and the parameter's index where there is one */
static void compute(const exact_node *n, uint32_t *out)
{
    for (int64_t e = 0; e < n->count * EXACT_SAMPLES; e++) {
        uint32_t sum = n->param >= 0 ? (uint32_t)n->param : 0;

        for (int i = 0; i < n->n_in; i++) {
            const exact_value *v = &exact.values[n->in[i]];

            sum += n->factor[i] * v->forward[e / n->count * v->count + e % n->count % v->count];
        }
        out[e] = sum;
    }
}

/* The transpose: adds input i's share of d_out to d_in. */
static void compute_back(const exact_node *n, int i, const uint32_t *d_out, uint32_t *d_in)
{
    int64_t count = exact.values[n->in[i]].count;

    for (int64_t e = 0; e < n->count * EXACT_SAMPLES; e++) {
        d_in[e / n->count * count + e % n->count % count] += n->factor[i] * d_out[e];
    }
}

static const ls_layer_kind kinds[EXACT_LOSS + 1];

static ls_status infer(ls_layer_node *layer)
{
    int index;

    memcpy(&index, layer->attributes, sizeof index);
    const exact_node *n = &exact.nodes[index];

    layer->out_shape = ls_shape1(n->count);
    layer->out_dtype = exact.values[n->out].dtype;
    for (int i = 0; i < n->n_in; i++) {
        assert_int_equal(layer->in_dtype[i], exact.values[n->in[i]].dtype);
    }
    if (layer->kind == &kinds[EXACT_SAVES_IN] || layer->kind->d_in_over_in) {
        layer->saves = LS_SAVES_IN(0) | LS_SAVES_IN(2);
    } else if (layer->kind == &kinds[EXACT_SAVES_OUT]) {
        layer->saves = LS_SAVES_OUT;
        layer->n_saved = 2;
        layer->saved[0] = (ls_saved_spec){ls_shape1(n->count), LS_I32};
        layer->saved[1] = (ls_saved_spec){ls_shape1(n->count), LS_REAL};
    }
    if (n->param >= 0) {
        char name[16];

        snprintf(name, sizeof name, "p%d", n->param);
        ls_init zero = {LS_INIT_CONSTANT, 0.0f};
        ls_param_spec *spec = ls_layer_add_param(layer, name, "weight", ls_shape1(1), zero);

        spec->shared = n->param != index;
    }
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    const exact_node *n = node_of(run);
    const exact_value *out = &exact.values[n->out];

    for (int i = 0; i < n->n_in; i++) {
        check_in(run, "an input", i);
    }
    assert_true(exact.announced == -1 || exact.announced == n->param);
    exact.announced = -1;
    check_param(run);
    for (int i = 0; i < run->node->n_saved; i++) {
        exact_store(run->saved[i].data, run->node->saved[i].dtype, out->extra, run->saved[i].count);
    }
    assert_int_equal(run->out.count, n->count * EXACT_SAMPLES);
    assert_int_equal(run->out.dtype, in_memory(out->dtype));
    exact_store(run->out.data, out->dtype, out->forward, run->out.count);
    return LS_OK;
}

static void write_gradient(const ls_layer_run *run, const exact_node *n, int i, const uint32_t *d_out)
{
    ls_view d_in = run->d_in[i];
    uint32_t whole[EXACT_MAX_COUNT * EXACT_SAMPLES] = {0};

    assert_int_equal(d_in.dtype, in_memory(exact.values[n->in[i]].dtype));
    compute_back(n, i, d_out, whole);
    for (int64_t e = 0; e < d_in.count; e++) {
        store(d_in.data, d_in.dtype, e, whole[e] + (run->accumulate_in[i] ? load(d_in.data, d_in.dtype, e) : 0));
    }
}

static ls_status backward(const ls_layer_run *run)
{
    const exact_node *n = node_of(run);
    const exact_value *out = &exact.values[n->out];
    const uint32_t *d_out = out->gradient;

    exact.turn = (int)(n - exact.nodes);
    for (int i = 0; i < n->n_in; i++) {
        if ((run->node->saves & LS_SAVES_IN(i)) != 0) {
            check_in(run, "a saved input", i);
        }
    }
    if ((run->node->saves & LS_SAVES_OUT) != 0) {
        check_equal(run, "the saved output", run->out, out->dtype, out->forward, n->count);
    }
    for (int i = 0; i < run->node->n_saved; i++) {
        check_equal(run, "an extra", run->saved[i], run->node->saved[i].dtype, out->extra, n->count);
    }
    if (!run->node->kind->is_loss) {
        check_equal(run, "the output's gradient", run->d_out, out->dtype, d_out, n->count);
    }
    check_param(run);
    if (n->param >= 0) {
        uint32_t sum = 0, *d_param = run->d_param[0].data;

        assert_int_equal(run->d_param[0].dtype, LS_F32);
        for (int64_t e = 0; e < n->count * EXACT_SAMPLES; e++) {
            sum += d_out[e];
        }
        *d_param = run->accumulate_param[0] ? *d_param + sum : sum;
    }
    for (int i = n->n_in - 1; i >= 0; i--) {
        if (run->d_in[i].count > 0) {
            assert_true(run->accumulate_in[i] == 0 || run->node->kind->adds_input_gradient);
            write_gradient(run, n, i, d_out);
        }
    }
    return LS_OK;
}

#define KIND(text, ...)                                                                                         \
    {                                                                                                           \
        .struct_size = sizeof(ls_layer_kind), .name = text, .infer = infer, .forward = forward,                 \
        .backward = backward, __VA_ARGS__                                                                       \
    }
static const ls_layer_kind kinds[EXACT_LOSS + 1] = {
    [EXACT_SAVES_IN] = KIND("saves-in", .is_loss = false),
    [EXACT_SAVES_OUT] = KIND("saves-out", .adds_input_gradient = true),
    [EXACT_IN_PLACE] = KIND("in-place", .out_over_in = true, .d_in_over_d_out = true),
    [EXACT_SUM] = KIND("sum", .passes_gradient = true, .adds_input_gradient = true),
    [EXACT_SUM_ONCE] = KIND("sum-once", .passes_gradient = true),
    [EXACT_OVER_OUT] = KIND("over-out", .d_in_over_d_out = true, .adds_input_gradient = true),
    [EXACT_OVER_IN] = KIND("over-in", .d_in_over_in = true),
    [EXACT_LOSS] = KIND("loss", .d_in_over_in = true, .is_loss = true),
};

/* ---- building it --------------------------------------------------------------------------------------------- */

void exact_open(int64_t input_count, ls_dtype dtype, bool mixed)
{
    exact_value *input = &exact.values[0];

    CHECK_OK(ls_graph_create(&exact.graph));
    exact.n_values = 1;
    exact.n_nodes = 0;
    exact.mixed = mixed;
    exact.announced = -1;
    input->count = input_count;
    input->dtype = dtype == LS_F32 ? LS_REAL : dtype;
    input->var = ls_input(exact.graph, "input", dtype, ls_shape1(input_count));
    for (int64_t e = 0; e < input_count * EXACT_SAMPLES; e++) {
        input->forward[e] = exact_draw(1u << 31);
    }
}

static int first_with_param(void)
{
    for (int k = 0; k < exact.n_nodes; k++) {
        if (exact.nodes[k].param >= 0) {
            return k;
        }
    }
    return -1;
}

int exact_append(int kind, const int *in, int n_in, bool with_param)
{
    exact_node *n = &exact.nodes[exact.n_nodes];
    exact_value *out = &exact.values[exact.n_values];
    ls_var vars[LS_LAYER_MAX_IN];
    int index = exact.n_nodes, shared = first_with_param();
    char name[16];

    *n = (exact_node){.kind = &kinds[kind], .n_in = n_in, .out = exact.n_values, .param = -1};
    n->count = kind < EXACT_ANY_SHAPE ? 1 + exact_draw(EXACT_MAX_COUNT) : exact.values[in[0]].count;
    if (with_param) {
        n->param = shared >= 0 && exact_draw(3) == 0 ? shared : index;
    }
    for (int i = 0; i < n_in; i++) {
        n->in[i] = in[i];
        n->factor[i] = kinds[kind].passes_gradient ? 1 : 1 + exact_draw(5);
        vars[i] = exact.values[in[i]].var;
    }
    out->count = n->count;
    out->dtype = kind == EXACT_LOSS || (exact.mixed && exact_draw(4) == 0) ? LS_F32 : LS_REAL;
    compute(n, out->forward);
    for (int64_t e = 0; e < out->count * EXACT_SAMPLES; e++) {
        out->extra[e] = exact_draw(1u << 31);
    }
    snprintf(name, sizeof name, "n%d", index);
    out->var = ls_layer_append(exact.graph, n->kind, name, vars, n_in, &index, sizeof index);
    assert_ptr_equal(out->var.graph, exact.graph);
    exact.n_nodes++;
    return exact.n_values++;
}

void exact_differentiate(int loss)
{
    for (int v = 0; v < exact.n_values; v++) {
        memset(exact.values[v].gradient, 0, sizeof exact.values[v].gradient);
    }
    memset(exact.param_gradient, 0, sizeof exact.param_gradient);
    for (int64_t e = 0; e < exact.values[loss].count * EXACT_SAMPLES; e++) {
        exact.values[loss].gradient[e] = exact_draw(1u << 31);
    }
    for (int k = exact.n_nodes - 1; k >= 0; k--) {
        const exact_node *n = &exact.nodes[k];
        const uint32_t *d_out = exact.values[n->out].gradient;

        for (int i = 0; i < n->n_in; i++) {
            compute_back(n, i, d_out, exact.values[n->in[i]].gradient);
        }
        for (int64_t e = 0; e < n->count * EXACT_SAMPLES && n->param >= 0; e++) {
            exact.param_gradient[n->param] += d_out[e];
        }
    }
}
