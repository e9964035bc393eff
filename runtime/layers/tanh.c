#include <lockstep/layers.h>

#include "kernels/ops.h"
#include "layers/elementwise.h"

/* The input, not the output: rounded to 16 bits, the output has lost the slope of the flat ends. */
static ls_status infer(ls_layer_node *node)
{
    node->saves = LS_SAVES_IN(0);
    return lsi_elementwise_infer(node);
}

static ls_status forward(const ls_layer_run *run)
{
    return lsi_tanh_fwd(run->stream, &(lsi_tanh_fwd_args){.x = run->in[0], .y = run->out});
}

static ls_status backward(const ls_layer_run *run)
{
    return lsi_tanh_bwd(run->stream, &(lsi_tanh_bwd_args){.x = run->in[0], .dy = run->d_out, .dx = run->d_in[0]});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "tanh",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .d_in_over_d_out = true,
};

ls_var ls_tanh(ls_graph *graph, const char *name, ls_var x)
{
    return ls_layer_append(graph, &kind, name, &x, 1, NULL, 0);
}
