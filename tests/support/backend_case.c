#include "support/backend_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 16 };

typedef struct block {
    ls_device *device;
    void *data;
    size_t bytes;
} block;

static block blocks[MAX_BLOCKS];

/* Without a device there is nothing to test: the line is what ctest knows a skipped test by. */
const ls_backend *test_backend(void)
{
    static const ls_backend *found;
    const char *name = getenv("LOCKSTEP_TEST_BACKEND");
    int ordinal;

    if (found != NULL) {
        return found;
    }
    if (lsi_backend_find(name != NULL ? name : "cpu", &found) != LS_OK) {
        print_error("%s\n", ls_failure_message());
        exit(1);
    }
    if (lsi_backend_ordinal(found, 0, &ordinal) != LS_OK) {
        printf("skipped: %s\n", ls_failure_message());
        exit(0);
    }
    return found;
}

void *test_memory(ls_device *device, size_t bytes)
{
    block *b = blocks;

    while (b->data != NULL) {
        b++;
        assert_true(b < blocks + MAX_BLOCKS);
    }
    CHECK_OK(device->backend->alloc(device, LS_MEM_PINNED, bytes, &b->data));
    memset(b->data, 0, bytes);
    b->device = device;
    b->bytes = bytes;
    return b->data;
}

ls_stream *test_stream(ls_device *device, const char *name)
{
    ls_stream *stream = NULL;

    CHECK_OK(device->backend->stream_create(device, name, 0, &stream));
    return stream;
}

ls_event *test_event(ls_device *device)
{
    ls_event *event = NULL;

    CHECK_OK(device->backend->event_create(device, &event));
    return event;
}

/* ---- host functions on a GPU's streams ------------------------------------------------------------------------ */

#ifdef LOCKSTEP_HAVE_CUDA

#include "backend/cpu/cpu.h"
#include "backend/cuda/device.h"
#include "base/failure.h"

typedef struct call {
    ls_device *device;
    const char *name;
    ls_cpu_fn cpu;
    struct call *next;
    _Alignas(16) unsigned char arguments[LS_OP_MAX_ARGUMENTS];
} call;

/* Kept until the device closes, because a replay calls them again. */
static call *calls;
static struct ls_cpu_run host_run;

static void CUDART_CB run_call(void *argument)
{
    const call *c = argument;
    lsi_failure cause;

    if (lsi_cuda_device_stopped((lsi_cuda_device *)c->device)) {
        return;
    }
    ls_status status = c->cpu(&host_run, c->arguments);
    if (status != LS_OK) {
        char message[LSI_FAILURE_MAX + 64];

        lsi_failure_take(&cause);
        snprintf(message, sizeof message, "op %s: %s", c->name,
                 cause.status == status ? cause.message : ls_status_text(status));
        (c->device->backend->fail)(c->device, status, message);
    }
}

ls_status test_op_on_cuda(ls_stream *stream, const char *name, ls_cpu_fn cpu, const void *arguments, size_t bytes)
{
    call *c = calloc(1, sizeof *c);

    LS_REQUIRE(c != NULL && bytes <= sizeof c->arguments, LS_ERR_INTERNAL, "no room for a call");
    c->device = stream->device;
    c->name = name;
    c->cpu = cpu;
    c->next = calls;
    calls = c;
    if (bytes > 0) {
        memcpy(c->arguments, arguments, bytes);
    }
    LS_REQUIRE(cudaLaunchHostFunc(lsi_cuda_stream(stream), run_call, c) == cudaSuccess, LS_ERR_DEVICE,
               "a host function was refused");
    return LS_OK;
}

static void open_calls(void)
{
    CHECK_OK(lsi_pool_create(1, &host_run.pool));
}

static void close_calls(void)
{
    while (calls != NULL) {
        call *c = calls;

        calls = c->next;
        free(c);
    }
    lsi_pool_destroy(&host_run.pool);
}

#else

ls_status test_op_on_cuda(ls_stream *stream, const char *name, ls_cpu_fn cpu, const void *arguments, size_t bytes)
{
    (void)stream, (void)name, (void)cpu, (void)arguments, (void)bytes;
    return LS_FAIL(LS_ERR_INTERNAL, "this build has no GPUs");
}

static void open_calls(void)
{
}

static void close_calls(void)
{
}

#endif

ls_device *test_device_open(int n_threads)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = n_threads};
    const ls_backend *backend = test_backend();
    ls_device *device = NULL;

    CHECK_OK(backend->open(&options, &device));
    if (!backend->host_memory) {
        open_calls();
    }
    return device;
}

void test_device_close(ls_device *device)
{
    if (device == NULL) {
        return;
    }
    for (block *b = blocks; b < blocks + MAX_BLOCKS; b++) {
        if (b->device == device) {
            device->backend->release(device, LS_MEM_PINNED, b->bytes, b->data);
            *b = (block){0};
        }
    }
    const ls_backend *backend = device->backend;

    backend->close(device);
    if (!backend->host_memory) {
        close_calls();
    }
}
