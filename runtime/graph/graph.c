#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "graph/plan.h"
#include "graph/shape.h"

static const ls_var none = {.id = -1};

ls_status lsi_graph_grow(int n, int *room, size_t item_bytes, void **array)
{
    if (n < *room) {
        return LS_OK;
    }
    int larger = *room == 0 ? 16 : 2 * *room;

    LS_TRY(lsi_memory_resize(array, (size_t)larger * item_bytes, "graph"));
    *room = larger;
    return LS_OK;
}

ls_status ls_graph_create(ls_graph **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(ls_graph), "graph", &memory));
    ls_graph *graph = memory;

    graph->input = -1;
    graph->targets = -1;
    *out = graph;
    return LS_OK;
}

void ls_graph_destroy(ls_graph **graph)
{
    ls_graph *g = *graph;

    if (g == NULL) {
        return;
    }
    lsi_plan_free(g->plans);
    for (int i = 0; i < g->n_values; i++) {
        lsi_memory_free(g->value[i].name);
    }
    lsi_memory_free(g->value);
    lsi_memory_free(g->node);
    lsi_param_free(&g->params);
    lsi_memory_free(g);
    *graph = NULL;
}

const lsi_param_table *lsi_graph_params(const ls_graph *graph)
{
    return &graph->params;
}

void lsi_graph_get_io(const ls_graph *graph, lsi_graph_io *out)
{
    *out = (lsi_graph_io){.input_dtype = LS_F32, .targets_dtype = LS_I32};
    if (graph->input >= 0) {
        out->input_dtype = graph->input_dtype;
        out->input_shape = graph->value[graph->input].shape;
    }
    if (graph->targets >= 0) {
        out->targets_count = ls_shape_count(&graph->value[graph->targets].shape);
        out->targets_dtype = graph->value[graph->targets].dtype;
    }
}

/* ---- values -------------------------------------------------------------------------------------------------- */

static ls_status check_name(const ls_graph *graph, const char *name)
{
    LS_REQUIRE(name != NULL && name[0] != '\0', LS_ERR_CONFIG, "a layer without a name");
    LS_REQUIRE(strlen(name) < LS_NAME_MAX, LS_ERR_CONFIG, "layer name '%.40s...' is longer than %d characters", name,
               LS_NAME_MAX - 1);
    uint64_t key = lsi_hash_text(name);

    for (int i = 0; i < graph->n_values; i++) {
        LS_REQUIRE(graph->value[i].key != key || strcmp(graph->value[i].name, name) != 0, LS_ERR_CONFIG,
                   "two layers are called '%s'", name);
    }
    return LS_OK;
}

static ls_status check_shape(const char *name, const ls_shape *shape)
{
    bool positive = shape->rank >= 0 && shape->rank <= LS_MAX_RANK;
    int64_t count = 1;

    for (int i = 0; positive && i < shape->rank; i++) {
        positive = shape->dim[i] > 0 && !__builtin_mul_overflow(count, shape->dim[i], &count);
    }
    LS_REQUIRE(positive, LS_ERR_CONFIG, "layer '%s': a shape needs %d extents at most, all of them positive", name,
               LS_MAX_RANK);
    return LS_OK;
}

/* The name has been checked. */
static ls_status add_value(ls_graph *graph, const char *name, const ls_shape *shape, ls_dtype dtype, int producer,
                           int *out)
{
    void *values = graph->value;

    LS_TRY(check_shape(name, shape));
    LS_TRY(lsi_graph_grow(graph->n_values, &graph->value_room, sizeof(lsi_value), &values));
    graph->value = values;
    lsi_value *v = &graph->value[graph->n_values];

    *v = (lsi_value){.key = lsi_hash_text(name), .shape = *shape, .dtype = dtype, .producer = producer};
    LS_TRY(lsi_memory_strdup(name, &v->name));
    *out = graph->n_values++;
    return LS_OK;
}

static ls_status check_open(const ls_graph *graph, const char *name)
{
    LS_REQUIRE(!graph->frozen, LS_ERR_CONFIG, "layer '%s' comes after the graph was compiled", name);
    return LS_OK;
}

/* The one place where the graph keeps its first failure. */
static ls_var keep(ls_graph *graph, ls_status status, int id)
{
    if (status != LS_OK) {
        lsi_failure_take(&graph->failure);
        return none;
    }
    return (ls_var){.id = id, .graph = graph};
}

/* ---- builders ------------------------------------------------------------------------------------------------ */

static ls_status add_data(ls_graph *graph, const char *name, ls_dtype dtype, const ls_shape *shape, int producer,
                          int *slot)
{
    LS_TRY(check_name(graph, name));
    LS_TRY(check_open(graph, name));
    LS_REQUIRE(*slot < 0, LS_ERR_CONFIG, "'%s' is a second %s beside '%s'; a graph has one", name,
               producer == LSI_PRODUCER_INPUT ? "input" : "row of targets", graph->value[*slot].name);
    LS_REQUIRE(ls_dtype_bytes(dtype) > 0, LS_ERR_CONFIG, "'%s': a data set cannot store %s", name,
               ls_dtype_name(dtype));
    /* A real input takes the plan's type on its way in, so that is what layers see; targets are not converted. */
    bool converted = dtype == LS_F32 && producer == LSI_PRODUCER_INPUT;

    return add_value(graph, name, shape, converted ? LS_REAL : dtype, producer, slot);
}

ls_var ls_input(ls_graph *graph, const char *name, ls_dtype dtype, ls_shape per_sample)
{
    if (graph->failure.status != LS_OK) {
        return none;
    }
    ls_status status = add_data(graph, name, dtype, &per_sample, LSI_PRODUCER_INPUT, &graph->input);

    if (status == LS_OK) {
        graph->input_dtype = dtype;
    }
    return keep(graph, status, graph->input);
}

static ls_var add_targets(ls_graph *graph, const char *name, ls_dtype dtype, int64_t per_sample)
{
    if (graph->failure.status != LS_OK) {
        return none;
    }
    ls_shape shape = ls_shape1(per_sample);
    ls_status status = add_data(graph, name, dtype, &shape, LSI_PRODUCER_TARGETS, &graph->targets);

    return keep(graph, status, graph->targets);
}

ls_var ls_targets(ls_graph *graph, const char *name, int64_t per_sample)
{
    return add_targets(graph, name, LS_I32, per_sample);
}

ls_var ls_targets_f32(ls_graph *graph, const char *name, int64_t per_sample)
{
    return add_targets(graph, name, LS_F32, per_sample);
}

ls_param_spec *ls_layer_add_param(ls_layer_node *node, const char *owner, const char *suffix, ls_shape shape,
                                  ls_init init)
{
    if (node->n_params == LS_LAYER_MAX_PARAMS) {
        (void)LS_FAIL(LS_ERR_CONFIG, "layer '%s' has more than %d parameters", node->name, LS_LAYER_MAX_PARAMS);
        return NULL;
    }
    ls_param_spec *spec = &node->param[node->n_params];

    if ((size_t)snprintf(spec->name, sizeof spec->name, "%s.%s", owner, suffix) >= sizeof spec->name) {
        (void)LS_FAIL(LS_ERR_CONFIG, "the name of parameter '%s' of layer '%s' is longer than %d characters", suffix,
                      node->name, LS_NAME_MAX - 1);
        return NULL;
    }
    spec->shape = shape;
    spec->init = init;
    node->n_params++;
    return spec;
}

static ls_status check_input(const ls_graph *graph, const ls_layer_kind *kind, const char *name, int i, ls_var in)
{
    LS_REQUIRE(in.graph != NULL, LS_ERR_CONFIG, "layer '%s' (%s): input %d is no value", name, kind->name, i);
    LS_REQUIRE(in.graph == graph, LS_ERR_CONFIG, "layer '%s' (%s): input %d belongs to another graph", name, kind->name,
               i);
    LS_REQUIRE(in.id >= 0 && in.id < graph->n_values, LS_ERR_CONFIG, "layer '%s' (%s): input %d is value %d of %d",
               name, kind->name, i, in.id, graph->n_values);
    const lsi_value *v = &graph->value[in.id];

    LS_REQUIRE(v->padding == 0 || kind->is_loss, LS_ERR_CONFIG,
               "layer '%s' (%s) would read the padding of '%s' %s; only a loss leaves it out", name, kind->name,
               v->name, lsi_shape_text(&v->shape).text);
    LS_REQUIRE(v->producer < 0 || !graph->node[v->producer].layer.kind->is_loss, LS_ERR_CONFIG,
               "layer '%s' (%s) reads the loss '%s'", name, kind->name, v->name);
    return LS_OK;
}

static bool known_dtype(ls_dtype dtype)
{
    return dtype == LS_REAL || ls_dtype_bytes(dtype) > 0;
}

/* Checks what a kind's infer() left in the node. */
static ls_status check_inferred(const ls_layer_node *n)
{
    LS_REQUIRE(n->n_params >= 0 && n->n_params <= LS_LAYER_MAX_PARAMS && n->n_saved >= 0 &&
                   n->n_saved <= LS_LAYER_MAX_SAVED && known_dtype(n->out_dtype),
               LS_ERR_CONFIG, "layer '%s' (%s): infer() left numbers out of range", n->name, n->kind->name);
    LS_REQUIRE(!n->kind->is_loss || n->out_dtype == LS_F32, LS_ERR_CONFIG, "layer '%s' (%s): losses are f32, not %s",
               n->name, n->kind->name, ls_dtype_name(n->out_dtype));
    for (int i = 0; i < n->n_saved; i++) {
        LS_REQUIRE(known_dtype(n->saved[i].dtype), LS_ERR_CONFIG,
                   "layer '%s' (%s): infer() gave saved value %d an unknown type", n->name, n->kind->name, i);
        LS_TRY(check_shape(n->name, &n->saved[i].shape));
    }
    for (int i = 0; i < n->n_params; i++) {
        LS_REQUIRE(n->param[i].shape.rank <= LS_MAX_RANK, LS_ERR_CONFIG,
                   "layer '%s': parameter '%s' has %d extents; at most %d", n->name, n->param[i].name,
                   n->param[i].shape.rank, LS_MAX_RANK);
    }
    return LS_OK;
}

static ls_status append(ls_graph *graph, const ls_layer_kind *kind, const char *name, const ls_var *in, int n_in,
                        const void *attributes, size_t attributes_bytes, int *out)
{
    LS_TRY(check_name(graph, name));
    LS_TRY(check_open(graph, name));
    LS_REQUIRE(kind->struct_size == sizeof *kind && kind->name != NULL && kind->infer != NULL && kind->forward != NULL,
               LS_ERR_CONFIG, "layer '%s': its kind is of another version or lacks a function", name);
    LS_REQUIRE(n_in >= 1 && n_in <= LS_LAYER_MAX_IN && attributes_bytes <= LS_LAYER_ATTRIBUTE_BYTES, LS_ERR_CONFIG,
               "layer '%s' (%s): %d inputs (1 to %d), %zu bytes of attributes (at most %d)", name, kind->name, n_in,
               LS_LAYER_MAX_IN, attributes_bytes, LS_LAYER_ATTRIBUTE_BYTES);
    void *nodes = graph->node;

    LS_TRY(lsi_graph_grow(graph->n_nodes, &graph->node_room, sizeof(lsi_node), &nodes));
    graph->node = nodes;
    lsi_node *node = &graph->node[graph->n_nodes];
    ls_layer_node *layer = &node->layer;

    *node = (lsi_node){.layer = {.kind = kind, .name = name, .key = lsi_hash_text(name), .n_in = n_in}};
    if (attributes_bytes > 0) {
        memcpy(layer->attributes, attributes, attributes_bytes);
    }
    for (int i = 0; i < n_in; i++) {
        LS_TRY(check_input(graph, kind, name, i, in[i]));
        const lsi_value *v = &graph->value[in[i].id];

        node->in[i] = in[i].id;
        layer->in_shape[i] = v->shape;
        layer->in_dtype[i] = v->dtype;
        layer->in_padding[i] = v->padding;
    }
    LS_TRY(kind->infer(layer));
    LS_TRY(check_inferred(layer));
    for (int i = 0; i < layer->n_params; i++) {
        LS_TRY(lsi_param_declare(&graph->params, &graph->param_room, name, &layer->param[i], &node->param[i]));
    }
    LS_TRY(add_value(graph, name, &layer->out_shape, layer->out_dtype, graph->n_nodes, &node->out));
    lsi_value *made = &graph->value[node->out];

    made->padding = layer->out_padding;
    layer->name = made->name;
    graph->n_nodes++;
    *out = node->out;
    return LS_OK;
}

ls_var ls_layer_append(ls_graph *graph, const ls_layer_kind *kind, const char *name, const ls_var *in, int n_in,
                       const void *attributes, size_t attributes_bytes)
{
    int id = -1;

    if (graph->failure.status != LS_OK) {
        return none;
    }
    ls_status status = append(graph, kind, name, in, n_in, attributes, attributes_bytes, &id);

    return keep(graph, status, id);
}
