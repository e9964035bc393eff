/* Compilation: which layers run, when each value is last read, and where it lives until then. */
#include "graph/plan.h"

#include <string.h>

#include "base/memory.h"
#include "graph/compile.h"
#include "graph/shape.h"

/* Buffers of one step at most: its output, what it saves, gradients of its inputs and their temporaries. */
enum { BUFFERS_PER_STEP = 1 + LS_LAYER_MAX_SAVED + 2 * LS_LAYER_MAX_IN, BUFFERS_FOR_INPUT = 1 };

/* ---- what was asked for -------------------------------------------------------------------------------------- */

static ls_status check_var(const ls_graph *graph, ls_var var, const char *what)
{
    LS_REQUIRE(var.graph != NULL, LS_ERR_CONFIG, "the %s to compile for is no value", what);
    LS_REQUIRE(var.graph == graph, LS_ERR_CONFIG, "the %s to compile for belongs to another graph", what);
    LS_REQUIRE(var.id >= 0 && var.id < graph->n_values, LS_ERR_CONFIG, "the %s to compile for is value %d of %d", what,
               var.id, graph->n_values);
    return LS_OK;
}

static ls_status check_options(const ls_graph *graph, const ls_compile_options *options)
{
    LS_REQUIRE(options->struct_size == sizeof *options, LS_ERR_CONFIG, "compile options are of another version");
    LS_REQUIRE(graph->n_nodes > 0, LS_ERR_CONFIG, "the graph has no layers");
    LS_REQUIRE(options->micro_batch >= 1, LS_ERR_CONFIG, "a plan needs a micro-batch of at least 1 sample");
    LS_REQUIRE(options->n_outputs >= 0 && options->n_outputs <= LS_MAX_OUTPUTS, LS_ERR_CONFIG,
               "%d outputs; a plan has 0 to %d", options->n_outputs, LS_MAX_OUTPUTS);
    LS_REQUIRE(options->compute == LS_F32 || options->compute == LS_F16 || options->compute == LS_BF16, LS_ERR_CONFIG,
               "a plan computes in f32, f16 or bf16, not %s", ls_dtype_name(options->compute));
    for (int i = 0; i < options->n_outputs; i++) {
        LS_TRY(check_var(graph, options->output[i], "output"));
    }
    if (options->mode == LS_INFER) {
        LS_REQUIRE(options->n_outputs > 0, LS_ERR_CONFIG, "an infer plan needs at least one output");
        return LS_OK;
    }
    LS_TRY(check_var(graph, options->loss, "loss"));
    const lsi_value *loss = &graph->value[options->loss.id];

    LS_REQUIRE(loss->producer >= 0 && graph->node[loss->producer].layer.kind->is_loss, LS_ERR_CONFIG,
               "'%s' is not a loss", loss->name);
    return LS_OK;
}

/* ---- which layers run ---------------------------------------------------------------------------------------- */

static bool left_out(const lsi_node *node, ls_mode mode)
{
    return mode != LS_TRAIN && node->layer.kind->identity_outside_training;
}

/* Marks what the marked values depend on. Producers stand before their readers. */
static void mark_back(const ls_graph *graph, bool *marked)
{
    for (int n = graph->n_nodes - 1; n >= 0; n--) {
        const lsi_node *node = &graph->node[n];

        for (int i = 0; i < node->layer.n_in && marked[node->out]; i++) {
            marked[node->in[i]] = true;
        }
    }
}

static void select_steps(lsi_compiler *c)
{
    const ls_graph *graph = c->graph;
    ls_plan *plan = c->plan;

    for (int i = 0; i < plan->n_outputs; i++) {
        c->needed[plan->output[i]] = true;
    }
    if (c->loss >= 0) {
        c->needed[c->loss] = true;
        c->on_path[c->loss] = true;
    }
    mark_back(graph, c->needed);
    mark_back(graph, c->on_path);
    for (int v = 0; v < graph->n_values; v++) {
        c->root[v] = v;
        c->maker[v] = -1;
    }
    for (int n = 0; n < graph->n_nodes; n++) {
        const lsi_node *node = &graph->node[n];
        const ls_layer_node *layer = &node->layer;

        if (!c->needed[node->out]) {
            continue;
        }
        if (left_out(node, plan->mode)) {
            c->root[node->out] = c->root[node->in[0]];
            continue;
        }
        c->trained[node->out] = layer->n_params > 0;
        for (int i = 0; i < layer->n_in; i++) {
            c->trained[node->out] |= c->trained[c->root[node->in[i]]];
        }
        c->maker[node->out] = plan->n_steps;
        plan->step[plan->n_steps++].node = node;
    }
    plan->reads_input = graph->input >= 0 && c->needed[graph->input];
    plan->reads_targets = graph->targets >= 0 && c->needed[graph->targets];
}

static ls_status check_trained(const lsi_compiler *c)
{
    const ls_graph *graph = c->graph;

    LS_REQUIRE(c->trained[c->loss], LS_ERR_CONFIG, "nothing to train: the loss '%s' depends on no parameter",
               graph->value[c->loss].name);
    for (int n = 0; n < graph->n_nodes; n++) {
        const ls_layer_node *layer = &graph->node[n].layer;
        int out = graph->node[n].out;

        LS_REQUIRE(layer->kind->backward != NULL || !c->on_path[out] || !c->trained[out], LS_ERR_CONFIG,
                   "layer '%s' (%s) has no gradient, but parameters before it need one", layer->name,
                   layer->kind->name);
    }
    return LS_OK;
}

static ls_status check_selection(const lsi_compiler *c)
{
    const ls_plan *plan = c->plan;

    LS_REQUIRE(plan->mode != LS_INFER || !plan->reads_targets, LS_ERR_CONFIG,
               "an infer plan has no targets, but an output depends on '%s'", c->graph->value[c->graph->targets].name);
    for (int i = 0; i < plan->n_outputs; i++) {
        LS_REQUIRE(c->maker[c->root[plan->output[i]]] >= 0, LS_ERR_CONFIG,
                   "output '%s' is what the data set gives, no layer's value", c->graph->value[plan->output[i]].name);
    }
    return plan->mode == LS_TRAIN ? check_trained(c) : LS_OK;
}

/* ---- where values live --------------------------------------------------------------------------------------- */

int lsi_compile_buffer(ls_plan *plan, const ls_shape *shape, ls_dtype dtype, int begin, int end)
{
    size_t bytes = (size_t)(ls_shape_count(shape) * plan->micro_batch) * ls_dtype_bytes(lsi_compile_dtype(plan, dtype));

    plan->buffer[plan->n_buffers] = (lsi_memory_request){.bytes = bytes, .begin = begin, .end = end};
    return plan->n_buffers++;
}

static void read_at(lsi_compiler *c, int value, int time)
{
    if (c->last[value] < time) {
        c->last[value] = time;
    }
}

static void find_last_reads(lsi_compiler *c)
{
    ls_plan *plan = c->plan;

    for (int p = 0; p < plan->n_steps; p++) {
        lsi_step *step = &plan->step[p];
        const lsi_node *node = step->node;
        const ls_layer_node *layer = &node->layer;
        int backward = lsi_compile_backward_time(plan, p);

        step->backward = plan->mode == LS_TRAIN && c->on_path[node->out] && c->trained[node->out];
        c->last[node->out] = step->backward && (layer->saves & LS_SAVES_OUT) != 0 ? backward : p;
        for (int i = 0; i < layer->n_in; i++) {
            bool saved = step->backward && (layer->saves & LS_SAVES_IN(i)) != 0;

            read_at(c, c->root[node->in[i]], saved ? backward : p);
        }
    }
    for (int i = 0; i < plan->n_outputs; i++) {
        read_at(c, c->root[plan->output[i]], 2 * plan->n_steps);
    }
}

static bool same_bytes(const ls_layer_node *layer)
{
    return layer->in_dtype[0] == layer->out_dtype &&
           ls_shape_count(&layer->in_shape[0]) == ls_shape_count(&layer->out_shape);
}

/* Whether step p is the last to read its first input, so that it may write its output there. */
static bool may_overwrite(const lsi_compiler *c, int p)
{
    const lsi_node *node = c->plan->step[p].node;
    int value = c->root[node->in[0]];

    for (int i = 1; i < node->layer.n_in; i++) {
        if (c->root[node->in[i]] == value) {
            return false;
        }
    }
    return node->layer.kind->out_over_in && same_bytes(&node->layer) && c->buffer[value] >= 0 && c->last[value] == p;
}

/* Before the first layer's turn, time 0. */
static void place_input(lsi_compiler *c)
{
    ls_plan *plan = c->plan;
    int input = c->graph->input;

    plan->converted_input = LSI_BUFFER_NONE;
    if (plan->reads_input && lsi_compile_dtype(plan, c->graph->value[input].dtype) != c->graph->input_dtype) {
        const lsi_value *v = &c->graph->value[input];

        plan->converted_input = lsi_compile_buffer(plan, &v->shape, v->dtype, 0, c->last[input]);
        c->buffer[input] = plan->converted_input;
    }
}

static void place_forward(lsi_compiler *c)
{
    ls_plan *plan = c->plan;

    place_input(c);
    for (int p = 0; p < plan->n_steps; p++) {
        lsi_step *step = &plan->step[p];
        const lsi_node *node = step->node;
        const ls_layer_node *layer = &node->layer;
        int last = c->last[node->out];

        for (int i = 0; i < layer->n_in; i++) {
            step->in[i] = c->buffer[c->root[node->in[i]]];
        }
        if (may_overwrite(c, p)) {
            step->out = step->in[0];
            plan->buffer[step->out].end = last;
        } else {
            step->out = lsi_compile_buffer(plan, &layer->out_shape, layer->out_dtype, p, last);
        }
        c->buffer[node->out] = step->out;
        for (int i = 0; i < layer->n_saved; i++) {
            step->saved[i] = lsi_compile_buffer(plan, &layer->saved[i].shape, layer->saved[i].dtype, p,
                                                step->backward ? lsi_compile_backward_time(plan, p) : p);
        }
    }
    for (int i = 0; i < plan->n_outputs; i++) {
        plan->output_buffer[i] = c->buffer[c->root[plan->output[i]]];
    }
}

static void mark_first_readers(ls_plan *plan, bool *seen)
{
    for (int p = 0; p < plan->n_steps; p++) {
        for (int k = 0; k < plan->step[p].node->layer.n_params; k++) {
            int param = plan->step[p].node->param[k];

            plan->step[p].first_reader[k] = !seen[param];
            seen[param] = true;
        }
    }
}

/* ---- compile ------------------------------------------------------------------------------------------------- */

/* The largest buffer bounds them all; 2^46 bytes leave room for sums. */
static ls_status check_sizes(const ls_graph *graph, int64_t micro_batch)
{
    for (int v = 0; v < graph->n_values; v++) {
        int64_t count = ls_shape_count(&graph->value[v].shape);

        LS_REQUIRE(count <= ((int64_t)1 << 43) / micro_batch, LS_ERR_CONFIG,
                   "'%s' %s is too large for a micro-batch of %lld samples", graph->value[v].name,
                   lsi_shape_text(&graph->value[v].shape).text, (long long)micro_batch);
    }
    return LS_OK;
}

static ls_status compile(lsi_compiler *c)
{
    ls_plan *plan = c->plan;
    void *buffers, *seen;

    select_steps(c);
    LS_TRY(check_selection(c));
    size_t n_buffers = (size_t)plan->n_steps * BUFFERS_PER_STEP + BUFFERS_FOR_INPUT;

    LS_TRY(lsi_memory_alloc(n_buffers * sizeof *plan->buffer, "plan", &buffers));
    plan->buffer = buffers;
    find_last_reads(c);
    place_forward(c);
    LS_TRY(lsi_memory_alloc((size_t)c->graph->params.n * sizeof(bool), "plan", &seen));
    mark_first_readers(plan, seen);
    lsi_memory_free(seen);
    if (plan->mode == LS_TRAIN) {
        LS_TRY(lsi_gradient_plan(c));
    }
    lsi_fuse(c);
    return lsi_memory_plan(plan->buffer, plan->n_buffers, &plan->size);
}

/* The compiler's arrays, cut from one allocation. */
static ls_status compiler_open(lsi_compiler *c, void **out)
{
    size_t n = (size_t)c->graph->n_values;

    LS_TRY(lsi_memory_alloc(n * (4 * sizeof(int) + 3 * sizeof(bool)), "plan", out));
    c->root = *out;
    c->maker = c->root + n;
    c->last = c->maker + n;
    c->buffer = c->last + n;
    c->needed = (bool *)(c->buffer + n);
    c->on_path = c->needed + n;
    c->trained = c->on_path + n;
    for (size_t v = 0; v < n; v++) {
        c->last[v] = -1;
        c->buffer[v] = LSI_BUFFER_NONE;
    }
    if (c->graph->input >= 0) {
        c->buffer[c->graph->input] = LSI_BUFFER_INPUT;
    }
    if (c->graph->targets >= 0) {
        c->buffer[c->graph->targets] = LSI_BUFFER_TARGETS;
    }
    return LS_OK;
}

static ls_status plan_create(const ls_graph *graph, const ls_compile_options *options, ls_plan **out)
{
    size_t n = (size_t)graph->n_nodes;
    void *plan_memory, *step_memory;

    LS_TRY(lsi_memory_alloc(sizeof(ls_plan), "plan", &plan_memory));
    ls_plan *plan = plan_memory;

    *plan = (ls_plan){.graph = graph, .mode = options->mode, .compute = options->compute,
                      .micro_batch = options->micro_batch, .n_outputs = options->n_outputs};
    ls_status status = lsi_memory_alloc(n * sizeof(lsi_step), "plan", &step_memory);

    if (status != LS_OK) {
        lsi_plan_free(plan);
        return status;
    }
    plan->step = step_memory;
    for (int i = 0; i < options->n_outputs; i++) {
        plan->output[i] = options->output[i].id;
    }
    *out = plan;
    return LS_OK;
}

ls_status ls_graph_compile(ls_graph *graph, const ls_compile_options *options, ls_plan **out)
{
    if (graph->failure.status != LS_OK) {
        return lsi_failure_adopt(&graph->failure);
    }
    LS_TRY(check_options(graph, options));
    LS_TRY(check_sizes(graph, options->micro_batch));
    ls_plan *plan;

    LS_TRY(plan_create(graph, options, &plan));
    lsi_compiler compiler = {.graph = graph, .plan = plan, .loss = options->mode == LS_INFER ? -1 : options->loss.id};
    void *memory = NULL;
    ls_status status = compiler_open(&compiler, &memory);

    if (status == LS_OK) {
        status = compile(&compiler);
    }
    lsi_memory_free(memory);
    if (status != LS_OK) {
        lsi_plan_free(plan);
        return status;
    }
    plan->next = graph->plans;
    graph->plans = plan;
    graph->frozen = true;
    *out = plan;
    return LS_OK;
}

void lsi_plan_free(ls_plan *plan)
{
    while (plan != NULL) {
        ls_plan *next = plan->next;

        lsi_memory_free(plan->buffer);
        lsi_memory_free(plan->step);
        lsi_memory_free(plan);
        plan = next;
    }
}

size_t lsi_plan_activation_bytes(const ls_plan *plan)
{
    return plan->size.bytes;
}

int64_t lsi_plan_micro_batch(const ls_plan *plan)
{
    return plan->micro_batch;
}
