#include "loop/inference.h"

#include <string.h>

#include "backend/buffer.h"
#include "backend/registry.h"
#include "base/half.h"
#include "base/memory.h"
#include "graph/plan.h"
#include "train/precision.h"

enum { PIECE = 1 << 20 }; /* weights that pass through host memory at a time */

struct lsi_inference {
    const ls_backend *backend;
    ls_device *device;
    ls_stream *stream;
    ls_plan *plan; /* the graph's */
    ls_dtype compute;
    uint64_t seed;
    int64_t context;
    ls_view logits; /* [context, columns] inside the activations */
    int64_t columns;
    lsi_memory_account account;
    lsi_buffer weights, activations, input, state;
    lsi_buffer tokens, row; /* pinned: the window on its way in, one row of logits on its way out */
};

/* ---- memory -------------------------------------------------------------------------------------------------- */

enum { N_BUFFERS = 6 };

static void list_buffers(lsi_inference *m, lsi_buffer *out[N_BUFFERS])
{
    lsi_buffer *buffers[N_BUFFERS] = {&m->weights, &m->activations, &m->input, &m->state, &m->tokens, &m->row};

    memcpy(out, buffers, sizeof buffers);
}

static ls_status allocate(lsi_inference *m, int64_t n_weights)
{
    size_t tokens = (size_t)m->context * sizeof(int32_t), element = ls_dtype_bytes(m->compute);
    const struct {
        ls_memory kind;
        lsi_memory_class c;
        size_t bytes;
    } part[N_BUFFERS] = {
        {LS_MEM_DEVICE, LSI_MEMORY_WEIGHTS, (size_t)n_weights * element},
        {LS_MEM_DEVICE, LSI_MEMORY_ACTIVATIONS, lsi_plan_activation_bytes(m->plan)},
        {LS_MEM_DEVICE, LSI_MEMORY_BATCH, tokens},
        {LS_MEM_DEVICE, LSI_MEMORY_CONTROL, sizeof(ls_step_state)},
        {LS_MEM_PINNED, LSI_MEMORY_BATCH, tokens},
        {LS_MEM_PINNED, LSI_MEMORY_BATCH, (size_t)m->columns * element},
    };
    lsi_buffer *buffer[N_BUFFERS];

    list_buffers(m, buffer);
    for (int i = 0; i < N_BUFFERS; i++) {
        LS_TRY(lsi_buffer_alloc(m->device, &m->account, part[i].kind, part[i].c, part[i].bytes, buffer[i]));
    }
    LS_TRY(m->backend->fill(m->stream, m->state.data, 0, m->state.bytes));
    return m->backend->stream_sync(m->stream);
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

static void round_to(ls_dtype type, const float *in, int64_t n, uint16_t *out)
{
    if (type == LS_F16) {
        lsi_half_f16_narrow(in, n, out);
    } else {
        lsi_half_bf16_narrow(in, n, out);
    }
}

static ls_status load_pieces(lsi_inference *m, const lsi_inference_options *o, int64_t n_weights, float *piece,
                             uint16_t *rounded)
{
    size_t element = ls_dtype_bytes(m->compute);

    for (int64_t at = 0; at < n_weights; at += PIECE) {
        int64_t n = n_weights - at < PIECE ? n_weights - at : PIECE;
        bool mixed = m->compute != LS_F32;

        LS_TRY(o->source(o->source_argument, LSI_STATE_WEIGHTS, at, n, piece));
        if (mixed) {
            round_to(m->compute, piece, n, rounded);
        }
        LS_TRY(m->backend->copy(m->stream, (char *)m->weights.data + (size_t)at * element,
                                mixed ? (const void *)rounded : piece, (size_t)n * element));
        LS_TRY(m->backend->stream_sync(m->stream));
    }
    return LS_OK;
}

static ls_status load(lsi_inference *m, const lsi_inference_options *o, int64_t n_weights)
{
    float *piece;

    LS_TRY(lsi_memory_alloc(PIECE * (sizeof *piece + sizeof(uint16_t)), "weights to load", (void **)&piece));
    ls_status status = load_pieces(m, o, n_weights, piece, (uint16_t *)(void *)(piece + PIECE));
    lsi_memory_free(piece);
    return status;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static ls_status open_device(lsi_inference *m, const lsi_inference_options *o)
{
    ls_device_options options = {
        .struct_size = sizeof options,
        .n_threads = o->n_threads,
        .sync_each_op = o->config->device.sync_each_op,
        .tf32 = strcmp(o->config->precision.compute, "tf32") == 0,
    };

    LS_TRY(lsi_backend_find(o->config->device.backend, &m->backend));
    LS_TRY(m->backend->open(&options, &m->device));
    return m->backend->stream_create(m->device, "inference", 0, &m->stream);
}

static ls_status compile(lsi_inference *m, const lsi_model *model)
{
    ls_compile_options options = {
        .struct_size = sizeof options,
        .mode = LS_INFER,
        .micro_batch = 1,
        .compute = m->compute,
        .n_outputs = 1,
        .output = {model->logits},
    };
    lsi_graph_io io;

    LS_TRY(ls_graph_compile(model->graph, &options, &m->plan));
    lsi_graph_get_io(model->graph, &io);
    LS_REQUIRE(io.input_dtype == LS_I32 && io.input_shape.rank == 1, LS_ERR_INTERNAL, "a model of %s is run on tokens",
               ls_dtype_name(io.input_dtype));
    m->context = io.input_shape.dim[0];
    return LS_OK;
}

static ls_status open_all(lsi_inference *m, const lsi_inference_options *o)
{
    m->compute = lsi_precision_compute(o->config);
    m->seed = (uint64_t)o->config->train.seed;
    m->account.poison = o->config->device.poison;
    LS_TRY(open_device(m, o));
    LS_TRY(compile(m, o->model));
    int64_t n_weights = lsi_graph_params(o->model->graph)->n_elements;

    m->columns = lsi_plan_output(m->plan, 0, NULL).count / m->context;
    LS_TRY(allocate(m, n_weights));
    m->logits = lsi_plan_output(m->plan, 0, m->activations.data);
    return load(m, o, n_weights);
}

ls_status lsi_inference_open(const lsi_inference_options *options, lsi_inference **out)
{
    lsi_inference *m;

    LS_TRY(lsi_memory_alloc(sizeof *m, "inference", (void **)&m));
    ls_status status = open_all(m, options);

    if (status != LS_OK) {
        lsi_inference_close(&m);
        return status;
    }
    *out = m;
    return LS_OK;
}

void lsi_inference_close(lsi_inference **inference)
{
    lsi_inference *m = *inference;
    lsi_buffer *buffer[N_BUFFERS];

    if (m == NULL) {
        return;
    }
    if (m->stream != NULL) {
        m->backend->stream_destroy(m->stream);
    }
    list_buffers(m, buffer);
    for (int i = 0; i < N_BUFFERS; i++) {
        lsi_buffer_release(m->device, &m->account, buffer[i]);
    }
    if (m->device != NULL) {
        m->backend->close(m->device);
    }
    lsi_memory_free(m);
    *inference = NULL;
}

/* ---- one forward --------------------------------------------------------------------------------------------- */

int64_t lsi_inference_context(const lsi_inference *inference)
{
    return inference->context;
}

static void widen(ls_dtype type, const void *row, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        switch (type) {
        case LS_F16:
            out[i] = (double)lsi_half_f16_to_f32(((const uint16_t *)row)[i]);
            break;
        case LS_BF16:
            out[i] = (double)lsi_half_bf16_to_f32(((const uint16_t *)row)[i]);
            break;
        default:
            out[i] = (double)((const float *)row)[i];
        }
    }
}

ls_status lsi_inference_run(lsi_inference *inference, const int32_t *token, int64_t n, int64_t n_classes, double *out)
{
    lsi_inference *m = inference;
    lsi_plan_run run = {
        .stream = m->stream,
        .state = m->state.data,
        .weights = m->weights.data,
        .activations = m->activations.data,
        .input = m->input.data,
        .seed = m->seed,
    };
    size_t row_bytes = m->row.bytes;

    LS_REQUIRE(n >= 1 && n <= m->context && n_classes <= m->columns, LS_ERR_INTERNAL,
               "%lld tokens and %lld logits asked of a model with %lld and %lld", (long long)n, (long long)n_classes,
               (long long)m->context, (long long)m->columns);
    memset(m->tokens.data, 0, m->tokens.bytes);
    memcpy(m->tokens.data, token, (size_t)n * sizeof *token);
    LS_TRY(m->backend->copy(m->stream, m->input.data, m->tokens.data, m->tokens.bytes));
    LS_TRY(lsi_plan_forward(m->plan, &run));
    LS_TRY(m->backend->copy(m->stream, m->row.data, (const char *)m->logits.data + (size_t)(n - 1) * row_bytes,
                            row_bytes));
    LS_TRY(m->backend->stream_sync(m->stream));
    widen(m->compute, m->row.data, n_classes, out);
    return LS_OK;
}
