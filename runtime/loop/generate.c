#include "loop/generate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/pipe_signal.h"
#include "loop/checkpoint_config.h"
#include "loop/inference.h"
#include "loop/prompt.h"

typedef struct generator {
    const lsi_generate_options *options;
    lsi_checkpoint *checkpoint;
    lsi_config *loaded;
    const ls_config *config; /* its values */
    int64_t vocab;
    lsi_model model;
    lsi_inference *session;
    bool bytes;        /* tokens are bytes of a text */
    int64_t n_classes; /* ids that may be drawn: those that can be shown */
    int32_t *prompt;
    int64_t n_prompt;
    int32_t *window;            /* the last n_window tokens, at most model.context */
    int64_t n_window, position; /* position: tokens so far, the prompt's included */
    double *logits;
    lsi_candidate *room;
} generator;

/* ---- opening ------------------------------------------------------------------------------------------------- */

static ls_status open_checkpoint(generator *g)
{
    const lsi_generate_options *o = g->options;

    LS_TRY(lsi_checkpoint_open(o->checkpoint, &g->checkpoint));
    LS_TRY(lsi_checkpoint_config(g->checkpoint, o->sets, o->n_sets, &g->loaded));
    g->config = lsi_config_values(g->loaded);
    LS_REQUIRE(strcmp(g->config->model.kind, "gpt") == 0, LS_ERR_CONFIG,
               "%s: model.kind = %s continues no text; --generate takes checkpoints of gpt", o->checkpoint,
               g->config->model.kind);
    LS_TRY(lsi_checkpoint_vocab(g->checkpoint, g->config, &g->vocab));
    enum { BYTES = 256 };
    g->bytes = strcmp(g->config->data.kind, "text") == 0;
    g->n_classes = g->bytes && g->vocab > BYTES ? BYTES : g->vocab;
    return lsi_prompt_read(o->prompt, g->bytes, g->vocab, &g->prompt, &g->n_prompt);
}

static ls_status open_model(generator *g)
{
    const lsi_generate_options *o = g->options;
    int64_t threads = g->config->device.threads;
    /* No data: only its shapes, which are those of the model. */
    ls_dataset shapes = {
        .input_dtype = LS_I32,
        .input_shape = ls_shape1(g->config->model.context),
        .target_count = g->config->model.context,
        .n_classes = g->vocab,
        .description = "the checkpoint's weights",
    };
    lsi_inference_options options = {
        .config = g->config,
        .model = &g->model,
        .n_threads = threads > 0 ? (int)threads : o->n_threads,
        .source = lsi_checkpoint_read_weights,
    };

    LS_TRY(lsi_checkpoint_verify(g->checkpoint, 0, 1, NULL));
    LS_TRY(lsi_model_build(g->config, &shapes, &g->model));
    LS_TRY(lsi_checkpoint_bind_weights(g->checkpoint, lsi_graph_params(g->model.graph)));
    options.source_argument = g->checkpoint;
    return lsi_inference_open(&options, &g->session);
}

static ls_status allocate(generator *g)
{
    size_t n = (size_t)g->n_classes, context = (size_t)lsi_inference_context(g->session);

    LS_TRY(lsi_memory_alloc(context * sizeof *g->window, "tokens", (void **)&g->window));
    LS_TRY(lsi_memory_alloc(n * sizeof *g->logits, "logits", (void **)&g->logits));
    return lsi_memory_alloc(n * sizeof *g->room, "candidates", (void **)&g->room);
}

static void close_all(generator *g)
{
    lsi_memory_free(g->room);
    lsi_memory_free(g->logits);
    lsi_memory_free(g->window);
    lsi_memory_free(g->prompt);
    lsi_inference_close(&g->session);
    ls_graph_destroy(&g->model.graph);
    lsi_config_destroy(&g->loaded);
    lsi_checkpoint_close(&g->checkpoint);
}

/* ---- tokens -------------------------------------------------------------------------------------------------- */

static ls_status write_out(const lsi_text *text)
{
    lsi_pipe_signal signals;

    LS_TRY(lsi_text_status(text));
    lsi_pipe_signal_hold(&signals);
    bool broken = fwrite(text->data, 1, text->length, stdout) != text->length || fflush(stdout) != 0;
    lsi_pipe_signal_release(&signals, broken);
    return broken ? LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output: %s", strerror(errno)) : LS_OK;
}

/* Appends to the window, which forgets its first token where it is full. */
static void take(generator *g, int32_t token)
{
    if (g->n_window == lsi_inference_context(g->session)) {
        memmove(g->window, g->window + 1, (size_t)(g->n_window - 1) * sizeof *g->window);
        g->n_window--;
    }
    g->window[g->n_window++] = token;
    g->position++;
}

static ls_status write_prompt(generator *g, lsi_text *text)
{
    for (int64_t i = 0; i < g->n_prompt; i++) {
        lsi_prompt_append(text, g->bytes, i, g->prompt[i]);
        take(g, g->prompt[i]);
    }
    return write_out(text);
}

static ls_status write_next(generator *g, lsi_text *text)
{
    int64_t token;

    LS_TRY(lsi_inference_run(g->session, g->window, g->n_window, g->n_classes, g->logits));
    LS_TRY(lsi_sampling_draw(&g->options->sampling, g->logits, g->n_classes, g->position, g->room, &token));
    lsi_text_clear(text);
    lsi_prompt_append(text, g->bytes, g->position, (int32_t)token);
    take(g, (int32_t)token);
    return write_out(text);
}

static ls_status write_all(generator *g, lsi_text *text)
{
    LS_TRY(write_prompt(g, text));
    for (int64_t i = 0; i < g->options->n_tokens; i++) {
        LS_TRY(write_next(g, text));
    }
    lsi_text_clear(text);
    lsi_text_append(text, "\n");
    return write_out(text);
}

ls_status lsi_generate(const lsi_generate_options *options)
{
    generator g = {.options = options};
    lsi_text text = {0};

    ls_status status = open_checkpoint(&g);
    if (status == LS_OK) {
        status = open_model(&g);
    }
    if (status == LS_OK) {
        status = allocate(&g);
    }
    if (status == LS_OK) {
        status = write_all(&g, &text);
    }
    lsi_text_free(&text);
    close_all(&g);
    return status;
}
