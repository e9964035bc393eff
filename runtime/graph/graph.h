/* What the files of this folder share: values, nodes, and the growing graph. */
#ifndef LSI_GRAPH_GRAPH_H
#define LSI_GRAPH_GRAPH_H

#include "base/failure.h"
#include "graph/param.h"
#include <lockstep/graph.h>
#include <lockstep/layer.h>

enum { LSI_PRODUCER_INPUT = -1, LSI_PRODUCER_TARGETS = -2 };

/* What a layer makes or the data set gives. A layer's value carries the layer's name. */
typedef struct lsi_value {
    char *name;
    uint64_t key;       /* hash of the name */
    ls_shape shape;     /* of one sample */
    ls_dtype dtype;     /* LS_REAL: the plan's type */
    int64_t padding;    /* columns at the end of the last extent that mean nothing */
    int producer;       /* node, or one of the above */
} lsi_value;

typedef struct lsi_node {
    ls_layer_node layer;
    int in[LS_LAYER_MAX_IN];            /* values */
    int out;
    int param[LS_LAYER_MAX_PARAMS];     /* of the table */
} lsi_node;

struct ls_graph {
    lsi_failure failure;    /* the first one; status LS_OK: none */
    bool frozen;            /* compiled: plans point at nodes */
    lsi_value *value;
    int n_values, value_room;
    lsi_node *node;         /* in the order of declaration, which is an order of execution */
    int n_nodes, node_room;
    int input, targets;     /* values, -1: none */
    ls_dtype input_dtype;   /* as the data set stores it */
    lsi_param_table params;
    int param_room;
    ls_plan *plans;         /* all of them, linked */
};

/* Makes room for item n of an array of counted memory, which may move. */
LS_MUST_USE ls_status lsi_graph_grow(int n, int *room, size_t item_bytes, void **array);

/* Enters a layer's parameter, or finds it when it is shared. */
LS_MUST_USE ls_status lsi_param_declare(lsi_param_table *table, int *room, const char *layer, const ls_param_spec *spec,
                                        int *out);
void lsi_param_free(lsi_param_table *table);

void lsi_plan_free(ls_plan *plan);  /* with those linked behind it */

#endif
