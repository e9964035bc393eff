/* Layers that work for others, or earlier than in their turn, where nobody sees the difference: buffers keep their
 * contents, one of them from a little earlier or later on. A GELU is made by the product in front of it, and its
 * gradient by the backward of the product behind it; a residual's sum by the norm behind it; the gradient of a loss by
 * its forward. */
#include "graph/compile.h"

static bool is_gelu(const lsi_step *step)
{
    const ls_layer_node *layer = &step->node->layer;

    return layer->kind->is_gelu && layer->n_in == 1 && layer->n_params == 0 && layer->n_saved == 0;
}

/* The step in front of gelu q writes q's output, too, which is there from its turn on. */
static void fuse_forward(lsi_compiler *c, int q)
{
    ls_plan *plan = c->plan;
    lsi_step *gelu = &plan->step[q];
    int p = c->maker[c->root[gelu->node->in[0]]];

    /* A value may have a second gelu behind it: one is enough. Out over in would overwrite what is still to be read. */
    if (p < 0 || !plan->step[p].node->layer.kind->makes_gelu || plan->step[p].gelu_out != LSI_BUFFER_NONE ||
        gelu->out == gelu->in[0] || plan->step[p].out != gelu->in[0]) {
        return;
    }
    plan->step[p].gelu_out = gelu->out;
    gelu->forward_elsewhere = true;
    plan->buffer[gelu->out].begin = p;
}

/* The one step whose backward contributes to the gradient of the value, by its first input; -1: there is none. */
static int only_reader(const ls_plan *plan, int value)
{
    int found = -1;

    for (int p = 0; p < plan->n_steps; p++) {
        const lsi_step *step = &plan->step[p];

        for (int i = 0; i < step->node->layer.n_in && step->backward; i++) {
            if (step->node->in[i] == value) {
                if (found >= 0 || i > 0) {
                    return -1;
                }
                found = p;
            }
        }
    }
    return found;
}

/* Gelu q works in place of its gradient: the step behind it writes there at once what q would. Its input is kept until
 * q's backward, which comes later. */
static void fuse_backward(lsi_compiler *c, int q)
{
    ls_plan *plan = c->plan;
    lsi_step *gelu = &plan->step[q], *reader;
    int r = gelu->backward && (gelu->node->layer.saves & LS_SAVES_IN(0)) != 0 ? only_reader(plan, gelu->node->out) : -1;

    if (r < 0) {
        return;
    }
    reader = &plan->step[r];
    if (!reader->node->layer.kind->makes_gelu || reader->d_in[0] < 0 || reader->accumulate_in[0] ||
        reader->sum_in[0] != LSI_BUFFER_NONE || gelu->d_out != reader->d_in[0] || gelu->d_in[0] != gelu->d_out ||
        gelu->sum_in[0] != LSI_BUFFER_NONE || gelu->accumulate_in[0]) {
        return;
    }
    reader->gelu_in = gelu->in[0];
    gelu->backward_elsewhere = true;
}

/* Step q makes the sum that the step in front of it would, and reads it; the summands stay for so long. */
static void fuse_sum(ls_plan *plan, int q)
{
    lsi_step *reader = &plan->step[q], *sum = &plan->step[q > 0 ? q - 1 : 0];

    if (q == 0 || !sum->node->layer.kind->is_sum || sum->forward_elsewhere || sum->out != reader->in[0] ||
        sum->out == sum->in[0] || sum->out == sum->in[1]) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        reader->sum_of[i] = sum->in[i];
        if (sum->in[i] >= 0 && plan->buffer[sum->in[i]].end < q) {
            plan->buffer[sum->in[i]].end = q;
        }
    }
    sum->forward_elsewhere = true;
}

/* Behind the forward of loss p its input's buffer holds the gradient: no later forward may read it. Backwards of other
 * layers come after p's own, which would have overwritten it too. */
static void fuse_loss(ls_plan *plan, int p)
{
    lsi_step *loss = &plan->step[p];
    int buffer = loss->in[0];
    bool only_input = loss->d_in[0] >= 0;

    for (int i = 1; i < loss->node->layer.n_in; i++) {
        only_input = only_input && loss->d_in[i] == LSI_BUFFER_NONE && loss->in[i] != buffer;
    }
    if (!only_input || loss->d_in[0] != buffer || loss->accumulate_in[0] || loss->sum_in[0] != LSI_BUFFER_NONE) {
        return;
    }
    for (int q = p + 1; q < plan->n_steps; q++) {
        for (int i = 0; i < plan->step[q].node->layer.n_in; i++) {
            if (plan->step[q].in[i] == buffer) {
                return;
            }
        }
    }
    loss->forward_makes_d_in = true;
    loss->backward_elsewhere = true;
}

void lsi_fuse(lsi_compiler *compiler)
{
    ls_plan *plan = compiler->plan;

    for (int p = 0; p < plan->n_steps; p++) {
        plan->step[p].gelu_out = plan->step[p].gelu_in = LSI_BUFFER_NONE;
        plan->step[p].sum_of[0] = plan->step[p].sum_of[1] = LSI_BUFFER_NONE;
    }
    for (int q = 0; q < plan->n_steps; q++) {
        if (is_gelu(&plan->step[q])) {
            fuse_forward(compiler, q);
            fuse_backward(compiler, q);
        }
        if (plan->step[q].node->layer.kind->makes_sum) {
            fuse_sum(plan, q);
        }
        if (plan->step[q].backward && plan->step[q].node->layer.kind->forward_makes_d_in) {
            fuse_loss(plan, q);
        }
    }
}
