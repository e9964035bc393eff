#include <lockstep/layers.h>

#include "kernels/ops.h"
#include "layers/elementwise.h"

static ls_status forward(const ls_layer_run *run)
{
    return lsi_add(run->stream, &(lsi_add_args){.a = run->in[0], .b = run->in[1], .y = run->out});
}

/* Called for the inputs whose gradient could not share the output's memory. */
static ls_status backward(const ls_layer_run *run)
{
    const ls_backend *backend = run->stream->device->backend;
    ls_view dy = run->d_out;

    for (int i = run->node->n_in - 1; i >= 0; i--) {
        ls_view dx = run->d_in[i];

        if (dx.count == 0) {
            continue;
        }
        if (run->accumulate_in[i]) {
            LS_TRY(lsi_add_into(run->stream, &(lsi_add_into_args){.x = dy, .y = dx}));
        } else {
            LS_TRY(backend->copy(run->stream, dx.data, dy.data, (size_t)dy.count * ls_dtype_bytes(dy.dtype)));
        }
    }
    return LS_OK;
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "add",
    .infer = lsi_elementwise_infer,
    .forward = forward,
    .backward = backward,
    .adds_input_gradient = true,
    .passes_gradient = true,
    .is_sum = true,
};

ls_var ls_add(ls_graph *graph, const char *name, ls_var a, ls_var b)
{
    return ls_layer_append(graph, &kind, name, (const ls_var[]){a, b}, 2, NULL, 0);
}
