#include "graph/compile.h"

#include "graph/plan.h"
#include "kernels/ops.h"

static ls_view view_of(const ls_plan *plan, const lsi_plan_run *run, int buffer, const ls_shape *shape, ls_dtype dtype)
{
    int64_t count = ls_shape_count(shape) * plan->micro_batch;

    dtype = lsi_compile_dtype(plan, dtype);
    switch (buffer) {
    case LSI_BUFFER_NONE:
        return ls_view_make(NULL, 0, dtype);
    case LSI_BUFFER_INPUT:
        return ls_view_make((void *)run->input, count, dtype);
    case LSI_BUFFER_TARGETS:
        return ls_view_make((void *)run->targets, count, dtype);
    default:
        return ls_view_make((char *)run->activations + plan->buffer[buffer].offset, count, dtype);
    }
}

/* What forward and backward have in common. */
static void fill_run(const ls_plan *plan, const lsi_plan_run *run, const lsi_step *step, ls_layer_run *out)
{
    const ls_layer_node *layer = &step->node->layer;

    *out = (ls_layer_run){.node = layer,
                          .stream = run->stream,
                          .state = run->state,
                          .mode = plan->mode,
                          .n_samples = plan->micro_batch,
                          .first_sample = run->first_sample,
                          .seed = run->seed,
                          .loss_seed = run->loss_seed,
                          .record = run->record};
    for (int k = 0; k < layer->n_params; k++) {
        const lsi_param *p = &plan->graph->params.param[step->node->param[k]];

        const char *weights = (const char *)run->weights + (size_t)p->offset * ls_dtype_bytes(plan->compute);

        out->param[k] = ls_view_make((void *)weights, p->padded_count, plan->compute);
    }
    for (int i = 0; i < layer->n_saved; i++) {
        out->saved[i] = view_of(plan, run, step->saved[i], &layer->saved[i].shape, layer->saved[i].dtype);
    }
}

static ls_status check_run(const ls_plan *plan, const lsi_plan_run *run)
{
    LS_REQUIRE((run->input != NULL || !plan->reads_input) && (run->targets != NULL || !plan->reads_targets) &&
                   (run->weights != NULL || plan->graph->params.n == 0),
               LS_ERR_INTERNAL, "a slot to execute lacks its input, targets or weights");
    return LS_OK;
}

static void announce_layer(const lsi_plan_run *run, const lsi_step *step)
{
    if (run->at_layer != NULL) {
        run->at_layer(run->hook_argument, step->node->layer.name);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------------- */

static ls_status convert_input(const ls_plan *plan, const lsi_plan_run *run)
{
    const ls_graph *graph = plan->graph;
    const lsi_value *v = &graph->value[graph->input];

    return lsi_cast(run->stream,
                    &(lsi_cast_args){.x = view_of(plan, run, LSI_BUFFER_INPUT, &v->shape, graph->input_dtype),
                                     .y = view_of(plan, run, plan->converted_input, &v->shape, v->dtype)});
}

static ls_status queue_forward(const ls_plan *plan, const lsi_plan_run *run, const lsi_step *step)
{
    const ls_layer_node *layer = &step->node->layer;
    ls_layer_run r;

    announce_layer(run, step);
    fill_run(plan, run, step, &r);
    for (int i = 0; i < layer->n_in; i++) {
        r.in[i] = view_of(plan, run, step->in[i], &layer->in_shape[i], layer->in_dtype[i]);
    }
    r.out = view_of(plan, run, step->out, &layer->out_shape, layer->out_dtype);
    r.gelu_out = view_of(plan, run, step->gelu_out, &layer->out_shape, layer->out_dtype);
    for (int i = 0; i < 2; i++) {
        r.sum_of[i] = view_of(plan, run, step->sum_of[i], &layer->in_shape[0], layer->in_dtype[0]);
    }
    if (step->forward_makes_d_in) {
        r.d_in[0] = view_of(plan, run, step->d_in[0], &layer->in_shape[0], layer->in_dtype[0]);
    }
    for (int k = 0; k < layer->n_params && run->param_need != NULL; k++) {
        if (step->first_reader[k]) {
            LS_TRY(run->param_need(run->hook_argument, step->node->param[k]));
        }
    }
    return layer->kind->forward(&r);
}

static ls_status forward_step(const ls_plan *plan, const lsi_plan_run *run, const lsi_step *step)
{
    lsi_ranges_push(run->ranges, "%s forward", step->node->layer.name);
    ls_status status = queue_forward(plan, run, step);

    lsi_ranges_pop(run->ranges);
    return status;
}

ls_status lsi_plan_forward(const ls_plan *plan, const lsi_plan_run *run)
{
    LS_TRY(check_run(plan, run));
    if (plan->converted_input != LSI_BUFFER_NONE) {
        LS_TRY(convert_input(plan, run));
    }
    for (int p = 0; p < plan->n_steps; p++) {
        if (!plan->step[p].forward_elsewhere) {
            LS_TRY(forward_step(plan, run, &plan->step[p]));
        }
    }
    return LS_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

/* Saved values keep their views; the others may have been overwritten, so the layer does not get to see them. */
static void fill_backward(const ls_plan *plan, const lsi_plan_run *run, const lsi_step *step, ls_layer_run *r)
{
    const ls_layer_node *layer = &step->node->layer;

    fill_run(plan, run, step, r);
    if ((layer->saves & LS_SAVES_OUT) != 0) {
        r->out = view_of(plan, run, step->out, &layer->out_shape, layer->out_dtype);
    }
    r->d_out = view_of(plan, run, step->d_out, &layer->out_shape, layer->out_dtype);
    r->gelu_in = view_of(plan, run, step->gelu_in, &layer->in_shape[0], layer->in_dtype[0]);
    for (int i = 0; i < layer->n_in; i++) {
        if ((layer->saves & LS_SAVES_IN(i)) != 0) {
            r->in[i] = view_of(plan, run, step->in[i], &layer->in_shape[i], layer->in_dtype[i]);
        }
        r->d_in[i] = view_of(plan, run, step->d_in[i], &layer->in_shape[i], layer->in_dtype[i]);
        r->accumulate_in[i] = step->accumulate_in[i];
    }
    for (int k = 0; k < layer->n_params; k++) {
        const lsi_param *p = &plan->graph->params.param[step->node->param[k]];

        r->d_param[k] = ls_view_make(run->gradients + p->offset, p->padded_count, LS_F32);
        r->accumulate_param[k] = !run->first_in_lane || !step->first_writer[k];
    }
}

/* False where every gradient is shared with the output's or not wanted. */
static bool has_work(const lsi_step *step)
{
    bool work = step->node->layer.n_params > 0;

    for (int i = 0; i < step->node->layer.n_in; i++) {
        work = work || step->d_in[i] != LSI_BUFFER_NONE;
    }
    return work;
}

/* Right behind the layer, so that what waits for the gradient does not wait for the sums below, too. */
static ls_status announce_done(const lsi_plan_run *run, const lsi_step *step)
{
    for (int k = 0; k < step->node->layer.n_params && run->param_done != NULL; k++) {
        if (step->last_writer[k]) {
            LS_TRY(run->param_done(run->hook_argument, step->node->param[k]));
        }
    }
    return LS_OK;
}

static ls_status queue_backward(const ls_plan *plan, const lsi_plan_run *run, const lsi_step *step)
{
    const ls_layer_node *layer = &step->node->layer;
    ls_layer_run r;

    announce_layer(run, step);
    fill_backward(plan, run, step, &r);
    LS_TRY(layer->kind->backward(&r));
    LS_TRY(announce_done(run, step));
    for (int i = 0; i < layer->n_in; i++) {
        if (step->sum_in[i] != LSI_BUFFER_NONE) {
            ls_view sum = view_of(plan, run, step->sum_in[i], &layer->in_shape[i], layer->in_dtype[i]);

            LS_TRY(lsi_add_into(run->stream, &(lsi_add_into_args){.x = r.d_in[i], .y = sum}));
        }
    }
    return LS_OK;
}

static ls_status backward_step(const ls_plan *plan, const lsi_plan_run *run, const lsi_step *step)
{
    lsi_ranges_push(run->ranges, "%s backward", step->node->layer.name);
    ls_status status = queue_backward(plan, run, step);

    lsi_ranges_pop(run->ranges);
    return status;
}

ls_status lsi_plan_backward(const ls_plan *plan, const lsi_plan_run *run)
{
    LS_REQUIRE(plan->mode == LS_TRAIN && run->gradients != NULL, LS_ERR_INTERNAL,
               "a backward needs a train plan and memory for gradients");
    LS_TRY(check_run(plan, run));
    for (int p = plan->n_steps - 1; p >= 0; p--) {
        if (plan->step[p].backward && !plan->step[p].backward_elsewhere && has_work(&plan->step[p])) {
            LS_TRY(backward_step(plan, run, &plan->step[p]));
        }
    }
    return LS_OK;
}

ls_view lsi_plan_output(const ls_plan *plan, int i, void *activations)
{
    const lsi_value *v = &plan->graph->value[plan->output[i]];
    lsi_plan_run run = {.activations = activations};

    return view_of(plan, &run, plan->output_buffer[i], &v->shape, v->dtype);
}
