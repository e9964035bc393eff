/* The cases of tests/ops on a GPU. Under the simulator every case runs in its three orders of threads and blocks, which
 * must give the same bits. */
#include "support/op_run.h"

#ifdef LOCKSTEP_HAVE_CUDA

#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "support/same_bits.h"
#include "support/test.h"
#include <lockstep/step_state.h>

/* Forward, reverse, shuffled; absent where a GPU executes. */
__attribute__((weak)) void cusim_set_order(int order, uint64_t seed);

enum { N_ORDERS = 3, SHUFFLE_SEED = 7 };

static const ls_backend *const b = &lsi_cuda_backend;
/* Kept from case to case; after a failure, which stops a device for good, another is opened. */
static ls_device *device;
static ls_stream *stream;
static bool failed;

static int levels(void)
{
    return 1;
}

static const char *level_name(int level)
{
    (void)level;
    return "cuda";
}

static int max_threads(void)
{
    return cusim_set_order == NULL ? 1 : N_ORDERS;
}

static void close_device(void)
{
    if (device != NULL) {
        b->stream_destroy(stream);
        b->close(device);
        device = NULL;
    }
}

static void begin(int level, int n_threads)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};

    (void)level;
    if (device == NULL) {
        CHECK_OK(b->open(&options, &device));
        CHECK_OK(b->stream_create(device, "ops", 0, &stream));
        atexit(close_device);
    }
    if (cusim_set_order != NULL) {
        cusim_set_order(n_threads - 1, SHUFFLE_SEED);
    }
}

static void end(void)
{
    if (failed) {
        close_device();
        failed = false;
    }
}

static void *to_device(const void *data, size_t bytes)
{
    void *out = NULL;

    CHECK_OK(b->alloc(device, LS_MEM_DEVICE, bytes, &out));
    CHECK_OK(b->copy(stream, out, data, bytes));
    CHECK_OK(b->stream_sync(stream));
    return out;
}

/* After a failed op nothing is copied any more, and nobody looks at what it wrote. */
static void from_device(void *data, void *on_device, size_t bytes, bool copy)
{
    if (copy) {
        CHECK_OK(b->copy(stream, data, on_device, bytes));
        CHECK_OK(b->stream_sync(stream));
    }
    b->release(device, LS_MEM_DEVICE, bytes, on_device);
}

/* Points the view to where its memory is on the device. */
static void move_view(ls_view *view, const op_run_memory *memories, unsigned char *const *devices, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned char *data = view->data;

        if (devices[i] != NULL && data >= memories[i].memory && data < memories[i].memory + memories[i].bytes) {
            view->data = devices[i] + (data - memories[i].memory);
            return;
        }
    }
    assert_null(view->data);
}

static ls_status run(const ls_op *op, const void *arguments, const op_run_memory *memories, int n_memories)
{
    _Alignas(64) unsigned char on_device[LS_OP_MAX_ARGUMENTS];
    unsigned char **devices = calloc((size_t)n_memories, sizeof *devices);
    ls_step_state *state = NULL, *device_state = NULL;
    /* A GPU's own compiler and library have not been seen to agree. */
    same_bits *cpu = cusim_set_order == NULL ? NULL : same_bits_begin(op, arguments, memories, n_memories);

    assert_non_null(devices);
    memcpy(on_device, arguments, op->arguments_bytes);
    for (int i = 0; i < n_memories; i++) {
        devices[i] = memories[i].memory == NULL ? NULL : to_device(memories[i].memory, memories[i].bytes);
    }
    for (int i = 0; i < op->n_in + op->n_out + op->n_acc; i++) {
        move_view((ls_view *)on_device + i, memories, devices, n_memories);
    }
    if (op->state_access != LS_STATE_NONE) {
        memcpy(&state, on_device + op->state_offset, sizeof state);
        device_state = to_device(state, sizeof *state);
        memcpy(on_device + op->state_offset, &device_state, sizeof device_state);
    }

    ls_status status = ls_op_launch(stream, op, on_device);
    if (status == LS_OK) {
        status = b->stream_sync(stream);
    }
    for (int i = 0; i < n_memories; i++) {
        if (devices[i] != NULL) {
            from_device(memories[i].memory, devices[i], memories[i].bytes, status == LS_OK);
        }
    }
    if (device_state != NULL) {
        from_device(state, device_state, sizeof *state, status == LS_OK);
    }
    free(devices);
    same_bits_end(cpu, op, arguments);
    failed = failed || status != LS_OK;
    return status;
}

const op_runner op_runner_cuda = {
    .levels = levels,
    .level_name = level_name,
    .max_threads = max_threads,
    .any_nan = true,
    .begin = begin,
    .end = end,
    .run = run,
};

#endif
