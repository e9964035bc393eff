#include <lockstep/layers.h>

#include "base/random.h"
#include "kernels/ops.h"
#include "layers/elementwise.h"

typedef struct dropout {
    float probability;
} dropout;

static float probability(const ls_layer_node *node)
{
    const dropout *d = ls_layer_attributes(node);

    return d->probability;
}

static ls_status infer(ls_layer_node *node)
{
    LS_REQUIRE(probability(node) >= 0.0f && probability(node) < 1.0f, LS_ERR_CONFIG,
               "layer '%s' (dropout): probability %g is not in [0, 1)", node->name, (double)probability(node));
    return lsi_elementwise_infer(node);
}

/* The mask is drawn again in the backward: nothing is saved. */
static ls_status mask(const ls_layer_run *run, ls_view x, ls_view y)
{
    return lsi_dropout(run->stream, &(lsi_dropout_args){.x = x,
                                                        .y = y,
                                                        .state = run->state,
                                                        .per_sample = ls_shape_count(&run->node->out_shape),
                                                        .first_sample = run->first_sample,
                                                        .key = lsi_random_key(run->seed, run->node->key),
                                                        .probability = probability(run->node)});
}

static ls_status forward(const ls_layer_run *run)
{
    return mask(run, run->in[0], run->out);
}

static ls_status backward(const ls_layer_run *run)
{
    return mask(run, run->d_out, run->d_in[0]);
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "dropout",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .identity_outside_training = true,
    .out_over_in = true,
    .d_in_over_d_out = true,
};

ls_var ls_dropout(ls_graph *graph, const char *name, ls_var x, float probability_of_zero)
{
    if (probability_of_zero == 0.0f) {
        return x;
    }
    return ls_layer_append(graph, &kind, name, &x, 1, &(dropout){probability_of_zero}, sizeof(dropout));
}
