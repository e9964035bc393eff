#include <lockstep/layers.h>

#include "kernels/ops.h"
#include "layers/elementwise.h"

static ls_status infer(ls_layer_node *node)
{
    node->saves = LS_SAVES_IN(0) | LS_SAVES_IN(1);
    return lsi_elementwise_infer(node);
}

static ls_status forward(const ls_layer_run *run)
{
    return lsi_mul(run->stream, &(lsi_mul_args){.a = run->in[0], .b = run->in[1], .y = run->out});
}

/* The first factor's comes last, because it may take the place of the output's gradient. */
static ls_status backward(const ls_layer_run *run)
{
    for (int i = 1; i >= 0; i--) {
        if (run->d_in[i].count > 0) {
            LS_TRY(lsi_mul(run->stream, &(lsi_mul_args){.a = run->d_out, .b = run->in[1 - i], .y = run->d_in[i]}));
        }
    }
    return LS_OK;
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "mul",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .d_in_over_d_out = true,
};

ls_var ls_mul(ls_graph *graph, const char *name, ls_var a, ls_var b)
{
    return ls_layer_append(graph, &kind, name, (const ls_var[]){a, b}, 2, NULL, 0);
}
