#include "graph/compile.h"

#include <inttypes.h>

#include "base/number.h"
#include "base/text.h"
#include "graph/shape.h"

static const char *const mode_names[] = {[LS_TRAIN] = "train", [LS_EVAL] = "eval", [LS_INFER] = "infer"};

static void print_buffer(const ls_plan *plan, const char *what, int buffer, lsi_text *out)
{
    if (buffer >= 0) {
        lsi_text_append(out, "  %s @%zu", what, plan->buffer[buffer].offset);
    }
}

static void print_step(const ls_plan *plan, const lsi_step *step, lsi_text *out)
{
    const ls_layer_node *layer = &step->node->layer;

    lsi_text_append(out, "%-24s %-12s", layer->name, layer->kind->name);
    for (int i = 0; i < layer->n_in; i++) {
        lsi_text_append(out, " %s", lsi_shape_text(&layer->in_shape[i]).text);
    }
    lsi_text_append(out, " -> %s", lsi_shape_text(&layer->out_shape).text);
    print_buffer(plan, "out", step->out, out);
    print_buffer(plan, "and its gelu", step->gelu_out, out);
    for (int i = 0; i < 2; i++) {
        print_buffer(plan, "of the sum of", step->sum_of[i], out);
    }
    for (int i = 0; i < layer->n_saved; i++) {
        print_buffer(plan, "extra", step->saved[i], out);
    }
    for (int i = 0; i < layer->n_in && step->backward; i++) {
        if ((layer->saves & LS_SAVES_IN(i)) != 0) {
            lsi_text_append(out, "  saves in%d", i);
        }
    }
    if (step->backward && (layer->saves & LS_SAVES_OUT) != 0) {
        lsi_text_append(out, "  saves out");
    }
    for (int i = 0; i < layer->n_in && step->backward; i++) {
        print_buffer(plan, step->accumulate_in[i] ? "adds to d_in" : "d_in", step->d_in[i], out);
    }
    print_buffer(plan, "through the gelu of", step->gelu_in, out);
    if (step->forward_makes_d_in) {
        lsi_text_append(out, "  backward by the forward");
    } else if (step->forward_elsewhere || step->backward_elsewhere) {
        lsi_text_append(out, "  %s%s%s by the layer next to it", step->forward_elsewhere ? "forward" : "",
                        step->forward_elsewhere && step->backward_elsewhere ? " and " : "",
                        step->backward_elsewhere ? "backward" : "");
    }
    lsi_text_append(out, "\n");
}

ls_status lsi_plan_print(const ls_plan *plan, lsi_text *out)
{
    lsi_text_append(out, "%s plan: %d layers in %s, slots of %" PRId64 " samples, ", mode_names[plan->mode],
                    plan->n_steps, ls_dtype_name(plan->compute), plan->micro_batch);
    lsi_number_append_bytes_human(out, (double)plan->size.bytes);
    lsi_text_append(out, " of activations (at least ");
    lsi_number_append_bytes_human(out, (double)plan->size.bound);
    lsi_text_append(out, "; ");
    lsi_number_append_bytes_human(out, (double)plan->size.sum);
    lsi_text_append(out, " without sharing)\n");
    if (plan->converted_input != LSI_BUFFER_NONE) {
        const lsi_value *input = &plan->graph->value[plan->graph->input];

        lsi_text_append(out, "%-24s %-12s %s", input->name, "converted", lsi_shape_text(&input->shape).text);
        print_buffer(plan, "out", plan->converted_input, out);
        lsi_text_append(out, "\n");
    }
    for (int p = 0; p < plan->n_steps; p++) {
        print_step(plan, &plan->step[p], out);
    }
    return lsi_text_status(out);
}
