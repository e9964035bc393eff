#include <lockstep/layers.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

enum { X, TARGETS };

static ls_status infer(ls_layer_node *node)
{
    const ls_shape *x = &node->in_shape[X], *targets = &node->in_shape[TARGETS];

    LS_REQUIRE(node->in_dtype[X] == LS_REAL && node->in_dtype[TARGETS] == LS_F32, LS_ERR_CONFIG,
               "layer '%s' (mse) needs real input and f32 targets (ls_targets_f32), not %s %s and %s %s", node->name,
               ls_dtype_name(node->in_dtype[X]), lsi_shape_text(x).text, ls_dtype_name(node->in_dtype[TARGETS]),
               lsi_shape_text(targets).text);
    LS_REQUIRE(node->in_padding[X] == 0 && ls_shape_count(x) == ls_shape_count(targets), LS_ERR_CONFIG,
               "layer '%s' (mse): input %s and targets %s differ in size", node->name, lsi_shape_text(x).text,
               lsi_shape_text(targets).text);
    node->out_shape = *targets;
    node->out_dtype = LS_F32;
    node->saves = LS_SAVES_IN(X) | LS_SAVES_IN(TARGETS);
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    LS_TRY(lsi_mse_fwd(run->stream,
                       &(lsi_mse_fwd_args){.x = run->in[X], .targets = run->in[TARGETS], .losses = run->out}));
    return lsi_loss_sum(run->stream, &(lsi_loss_sum_args){.losses = run->out,
                                                          .targets = run->in[TARGETS],
                                                          .record = ls_view_make(run->record, 4, LS_F64)});
}

static ls_status backward(const ls_layer_run *run)
{
    return lsi_mse_bwd(run->stream, &(lsi_mse_bwd_args){.x = run->in[X],
                                                        .targets = run->in[TARGETS],
                                                        .dx = run->d_in[X],
                                                        .state = run->state,
                                                        .seed = run->loss_seed});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "mse",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .d_in_over_in = true,
    .is_loss = true,
};

ls_var ls_mse(ls_graph *graph, const char *name, ls_var x, ls_var targets)
{
    return ls_layer_append(graph, &kind, name, (const ls_var[]){x, targets}, 2, NULL, 0);
}
