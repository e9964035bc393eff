#include "graph/survey.h"

#include "graph/compile.h"

/* A device of which the layers see a stream: what they launch on it is shown to `visit`. */
typedef struct survey {
    ls_device device;
    ls_stream stream;
    lsi_survey_fn visit;
    void *argument;
    const char *layer;
} survey;

static ls_status launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    survey *s = (survey *)stream->device; /* its first member */

    return s->visit(s->argument, s->layer, op, arguments);
}

static ls_status copy(ls_stream *stream, void *destination, const void *source, size_t bytes)
{
    (void)stream, (void)destination, (void)source, (void)bytes;
    return LS_OK;
}

static ls_status fill(ls_stream *stream, void *destination, int byte, size_t bytes)
{
    (void)stream, (void)destination, (void)byte, (void)bytes;
    return LS_OK;
}

/* Layers launch ops; the rest of the contract is not theirs. */
static const ls_backend surveyor = {
    .struct_size = sizeof(ls_backend),
    .name = "survey",
    .launch = launch,
    .copy = copy,
    .fill = fill,
};

static void at_layer(void *argument, const char *name)
{
    ((survey *)argument)->layer = name;
}

ls_status lsi_plan_survey(const ls_plan *plan, lsi_survey_fn visit, void *argument)
{
    survey s = {.device = {&surveyor}, .visit = visit, .argument = argument, .layer = ""};
    void *nowhere = (void *)(uintptr_t)4096; /* aligned as allocations are, and not NULL, which means "not given" */
    lsi_plan_run run = {
        .stream = &s.stream,
        .state = nowhere,
        .weights = nowhere,
        .gradients = nowhere,
        .activations = nowhere,
        .input = nowhere,
        .targets = nowhere,
        .record = nowhere,
        .at_layer = at_layer,
        .hook_argument = &s,
    };

    s.stream.device = &s.device;
    LS_TRY(lsi_plan_forward(plan, &run));
    return plan->mode == LS_TRAIN ? lsi_plan_backward(plan, &run) : LS_OK;
}

static ls_status add_flops(void *argument, const char *layer, const ls_op *op, const void *arguments)
{
    (void)layer;
    *(double *)argument += op->flops != NULL ? op->flops(arguments) : 0;
    return LS_OK;
}

ls_status lsi_plan_flops(const ls_plan *plan, double *out)
{
    *out = 0;
    return lsi_plan_survey(plan, add_flops, out);
}
