/* Where gradients live, and how each is put together.
 *
 * A value's gradient is the sum of what its readers contribute, the last reader first: the first contribution
 * overwrites, later ones add. A layer that passes its gradient on, or writes over it, shares the buffer of its output's
 * gradient where nobody needs the old contents. Several values then hold one buffer, each until its maker's turn. */
#include "graph/compile.h"

#include "base/memory.h"

/* A value's readers that contribute to its gradient are counted as slots: step * LS_LAYER_MAX_IN + input. */

typedef struct gradients {
    const lsi_compiler *c;
    ls_plan *plan;
    int *buffer;        /* by value: of its gradient; none before the first contribution */
    int *next_slot;     /* by value: slot of the reader that contributes next, -1: none */
    int *slot_before;   /* by slot: that of the same value's next contribution, -1: none */
    int *holder;        /* by buffer: a value whose gradient is in it, -1: none */
    int *next_holder;   /* by value: another one */
} gradients;

/* When the maker's backward reads the value's complete gradient. */
static int read_time(const gradients *g, int value)
{
    return lsi_compile_backward_time(g->plan, g->c->maker[value]);
}

/* Whether a write to a's gradient is still to come when or before b's has been read. */
static bool written_before_read(const gradients *g, int a, int b)
{
    int slot = g->next_slot[a];

    return slot >= 0 && lsi_compile_backward_time(g->plan, slot / LS_LAYER_MAX_IN) <= read_time(g, b);
}

/* Whether `value` may hold `buffer` from `time` on, beside others that still need it; all have equal contents now. */
static bool may_share(const gradients *g, int buffer, int value, int time)
{
    for (int w = g->holder[buffer]; w >= 0; w = g->next_holder[w]) {
        if (read_time(g, w) >= time && (written_before_read(g, value, w) || written_before_read(g, w, value))) {
            return false;
        }
    }
    return true;
}

/* Whether only `value`, read at `time`, still needs the buffer. */
static bool held_alone(const gradients *g, int buffer, int value, int time)
{
    for (int w = g->holder[buffer]; w >= 0; w = g->next_holder[w]) {
        if (w != value && read_time(g, w) >= time) {
            return false;
        }
    }
    return true;
}

static void hold(gradients *g, int buffer, int value)
{
    int end = read_time(g, value);

    g->buffer[value] = buffer;
    g->next_holder[value] = g->holder[buffer];
    g->holder[buffer] = value;
    if (g->plan->buffer[buffer].end < end) {
        g->plan->buffer[buffer].end = end;
    }
}

/* As described, not as it happens to be in memory: plans of all types share alike. */
static bool same_memory(const ls_layer_node *layer, int i)
{
    return layer->in_dtype[i] == layer->out_dtype &&
           ls_shape_count(&layer->in_shape[i]) == ls_shape_count(&layer->out_shape);
}

static int new_buffer(gradients *g, const ls_layer_node *layer, int i, int time)
{
    int b = lsi_compile_buffer(g->plan, &layer->in_shape[i], layer->in_dtype[i], time, time);

    g->holder[b] = -1;
    return b;
}

static void first_contribution(gradients *g, lsi_step *step, int i, int time)
{
    const ls_layer_node *layer = &step->node->layer;
    const ls_layer_kind *kind = layer->kind;
    int value = step->node->in[i], out = step->node->out;
    bool over = i == 0 && step->d_out >= 0 && kind->d_in_over_d_out && same_memory(layer, i);

    if (kind->passes_gradient && step->d_out >= 0 && layer->in_dtype[i] == layer->out_dtype &&
        may_share(g, step->d_out, value, time)) {
        hold(g, step->d_out, value);
        return;
    }
    if (over && held_alone(g, step->d_out, out, time)) {
        step->d_in[i] = step->d_out;
    } else if (i == 0 && kind->d_in_over_in && step->in[i] >= 0 && g->c->last[value] == time) {
        step->d_in[i] = step->in[i];
    } else {
        step->d_in[i] = new_buffer(g, layer, i, time);
    }
    hold(g, step->d_in[i], value);
}

static void later_contribution(gradients *g, lsi_step *step, int i, int time)
{
    int sum = g->buffer[step->node->in[i]];

    if (step->node->layer.kind->adds_input_gradient) {
        step->d_in[i] = sum;
        step->accumulate_in[i] = true;
    } else {
        step->d_in[i] = new_buffer(g, &step->node->layer, i, time);
        step->sum_in[i] = sum;
    }
}

/* Inputs from the last to the first, as the chains of readers go. */
static void place_step(gradients *g, int p)
{
    lsi_step *step = &g->plan->step[p];
    int time = lsi_compile_backward_time(g->plan, p);

    step->d_out = step->node->layer.kind->is_loss ? LSI_BUFFER_NONE : g->buffer[step->node->out];
    for (int i = step->node->layer.n_in - 1; i >= 0; i--) {
        int value = step->node->in[i];

        step->d_in[i] = LSI_BUFFER_NONE;
        step->sum_in[i] = LSI_BUFFER_NONE;
        if (!g->c->trained[value]) {
            continue;
        }
        g->next_slot[value] = g->slot_before[p * LS_LAYER_MAX_IN + i];
        if (g->buffer[value] < 0) {
            first_contribution(g, step, i, time);
        } else {
            later_contribution(g, step, i, time);
        }
    }
}

static void chain_readers(gradients *g)
{
    for (int v = 0; v < g->c->graph->n_values; v++) {
        g->buffer[v] = LSI_BUFFER_NONE;
        g->next_slot[v] = -1;
    }
    for (int b = 0; b < g->plan->n_buffers; b++) {
        g->holder[b] = -1;
    }
    for (int p = 0; p < g->plan->n_steps; p++) {
        const lsi_step *step = &g->plan->step[p];

        for (int i = 0; i < step->node->layer.n_in && step->backward; i++) {
            int slot = p * LS_LAYER_MAX_IN + i;

            g->slot_before[slot] = g->next_slot[step->node->in[i]];
            g->next_slot[step->node->in[i]] = slot;
        }
    }
}

static void mark_writers(ls_plan *plan, bool *written, bool *finished)
{
    for (int p = plan->n_steps - 1; p >= 0; p--) {
        lsi_step *step = &plan->step[p];

        for (int k = 0; k < step->node->layer.n_params && step->backward; k++) {
            step->first_writer[k] = !written[step->node->param[k]];
            written[step->node->param[k]] = true;
        }
    }
    for (int p = 0; p < plan->n_steps; p++) {
        lsi_step *step = &plan->step[p];

        for (int k = step->node->layer.n_params - 1; k >= 0 && step->backward; k--) {
            step->last_writer[k] = !finished[step->node->param[k]];
            finished[step->node->param[k]] = true;
        }
    }
}

/* Every parameter must get a gradient, or the optimizer would read memory that nobody wrote. */
static ls_status check_written(const lsi_compiler *c, const bool *written)
{
    for (int k = 0; k < c->graph->params.n; k++) {
        LS_REQUIRE(written[k], LS_ERR_CONFIG, "parameter '%s' gets no gradient: the loss '%s' does not depend on it",
                   c->graph->params.param[k].name, c->graph->value[c->loss].name);
    }
    return LS_OK;
}

ls_status lsi_gradient_plan(lsi_compiler *compiler)
{
    ls_plan *plan = compiler->plan;
    size_t n_values = (size_t)compiler->graph->n_values, n_params = (size_t)compiler->graph->params.n;
    size_t n_slots = (size_t)plan->n_steps * LS_LAYER_MAX_IN, n_buffers = (size_t)plan->n_buffers + 2 * n_slots;
    void *memory;

    LS_TRY(lsi_memory_alloc((3 * n_values + n_slots + n_buffers) * sizeof(int) + 2 * n_params * sizeof(bool), "plan",
                            &memory));
    gradients g = {.c = compiler, .plan = plan};

    g.buffer = memory;
    g.next_slot = g.buffer + n_values;
    g.next_holder = g.next_slot + n_values;
    g.slot_before = g.next_holder + n_values;
    g.holder = g.slot_before + n_slots;
    bool *written = (bool *)(g.holder + n_buffers);

    chain_readers(&g);
    for (int p = plan->n_steps - 1; p >= 0; p--) {
        if (plan->step[p].backward) {
            place_step(&g, p);
        }
    }
    mark_writers(plan, written, written + n_params);
    ls_status status = check_written(compiler, written);

    lsi_memory_free(memory);
    return status;
}
