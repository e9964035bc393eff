#include <lockstep/layers.h>

#include <inttypes.h>

#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

enum { LOGITS, TARGETS };
enum { LSE, HITS };         /* saved */

typedef struct softmax_xent {
    int64_t classes;
} softmax_xent;

static int64_t classes(const ls_layer_node *node)
{
    const softmax_xent *s = ls_layer_attributes(node);

    return s->classes;
}

static int64_t pitch(const ls_layer_node *node)
{
    return node->in_shape[LOGITS].dim[node->in_shape[LOGITS].rank - 1];
}

static ls_status infer(ls_layer_node *node)
{
    const ls_shape *logits = &node->in_shape[LOGITS], *targets = &node->in_shape[TARGETS];

    LS_REQUIRE(node->in_dtype[LOGITS] == LS_REAL && logits->rank >= 1 && node->in_dtype[TARGETS] == LS_I32,
               LS_ERR_CONFIG, "layer '%s' (softmax_xent) needs real logits and i32 targets, not %s %s and %s %s",
               node->name, ls_dtype_name(node->in_dtype[LOGITS]), lsi_shape_text(logits).text,
               ls_dtype_name(node->in_dtype[TARGETS]), lsi_shape_text(targets).text);
    LS_REQUIRE(ls_shape_count(logits) / pitch(node) == ls_shape_count(targets), LS_ERR_CONFIG,
               "layer '%s' (softmax_xent): logits %s and targets %s differ in rows", node->name,
               lsi_shape_text(logits).text, lsi_shape_text(targets).text);
    LS_REQUIRE(classes(node) >= 1 && classes(node) <= pitch(node) - node->in_padding[LOGITS], LS_ERR_CONFIG,
               "layer '%s' (softmax_xent): %" PRId64 " classes, but logits %s with %" PRId64 " columns of padding",
               node->name, classes(node), lsi_shape_text(logits).text, node->in_padding[LOGITS]);
    node->out_shape = *targets;
    node->out_dtype = LS_F32;
    node->n_saved = 2;
    node->saved[LSE] = (ls_saved_spec){*targets, LS_F32};
    node->saved[HITS] = (ls_saved_spec){*targets, LS_F32};
    node->saves = LS_SAVES_IN(LOGITS) | LS_SAVES_IN(TARGETS);
    return LS_OK;
}

static ls_status losses_only(const ls_layer_run *run)
{
    return lsi_softmax_xent_fwd(run->stream, &(lsi_softmax_xent_fwd_args){.logits = run->in[LOGITS],
                                                                          .targets = run->in[TARGETS],
                                                                          .losses = run->out,
                                                                          .lse = run->saved[LSE],
                                                                          .hits = run->saved[HITS],
                                                                          .rows = run->out.count,
                                                                          .pitch = pitch(run->node),
                                                                          .classes = classes(run->node)});
}

static ls_status losses_and_gradient(const ls_layer_run *run)
{
    return lsi_softmax_xent(run->stream, &(lsi_softmax_xent_args){.targets = run->in[TARGETS],
                                                                  .losses = run->out,
                                                                  .hits = run->saved[HITS],
                                                                  .logits = run->d_in[LOGITS],
                                                                  .state = run->state,
                                                                  .rows = run->out.count,
                                                                  .pitch = pitch(run->node),
                                                                  .classes = classes(run->node),
                                                                  .seed = run->loss_seed});
}

static ls_status forward(const ls_layer_run *run)
{
    LS_TRY(run->d_in[LOGITS].count > 0 ? losses_and_gradient(run) : losses_only(run));
    return lsi_loss_sum(run->stream, &(lsi_loss_sum_args){.losses = run->out,
                                                          .hits = run->saved[HITS],
                                                          .targets = run->in[TARGETS],
                                                          .record = ls_view_make(run->record, 4, LS_F64)});
}

static ls_status backward(const ls_layer_run *run)
{
    return lsi_softmax_xent_bwd(run->stream, &(lsi_softmax_xent_bwd_args){.logits = run->in[LOGITS],
                                                                          .targets = run->in[TARGETS],
                                                                          .lse = run->saved[LSE],
                                                                          .dlogits = run->d_in[LOGITS],
                                                                          .state = run->state,
                                                                          .rows = run->in[TARGETS].count,
                                                                          .pitch = pitch(run->node),
                                                                          .classes = classes(run->node),
                                                                          .seed = run->loss_seed});
}

static const ls_layer_kind kind = {
    .struct_size = sizeof(ls_layer_kind),
    .name = "softmax_xent",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .d_in_over_in = true,
    .forward_makes_d_in = true,
    .is_loss = true,
};

ls_var ls_softmax_xent(ls_graph *graph, const char *name, ls_var logits, ls_var targets, int64_t n_classes)
{
    return ls_layer_append(graph, &kind, name, (const ls_var[]){logits, targets}, 2, &(softmax_xent){n_classes},
                           sizeof(softmax_xent));
}
