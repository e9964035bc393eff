/* RUN: cuda label=contract,tsan timeout=60 */
/* What only the cuda backend does: finding a GPU or saying why there is none, opening one of several, memory that runs
 * out, the current device of every thread, and failures that name the op. */
#include "support/backend_case.h"

#ifdef LOCKSTEP_HAVE_CUDA

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/buffer.h"
#include "base/memory.h"
#include "base/thread.h"
#include "kernels/ops.h"

static const ls_backend *const b = &lsi_cuda_backend;

static void need_gpu(void)
{
    if (strcmp(test_backend()->name, "cuda") != 0) {
        skip();
    }
}

static ls_device *open_device(int ordinal)
{
    ls_device_options options = {.struct_size = sizeof options, .ordinal = ordinal};
    ls_device *device = NULL;

    CHECK_OK(b->open(&options, &device));
    return device;
}

static int n_devices(void)
{
    int ordinal = 0, n = 0;

    do {
        CHECK_OK(lsi_backend_ordinal(b, n, &ordinal));
    } while (ordinal == n++);
    return n - 1;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static void open_describes_what_it_opened(void **state)
{
    (void)state;
    need_gpu();
    ls_device *device = open_device(0);
    const char *text = b->describe(device), *variant = b->variant(device);

    assert_ptr_equal(strstr(text, "cuda "), text);
    assert_non_null(strstr(text, " SMs, "));
    assert_non_null(strstr(text, "driver "));
    assert_non_null(strstr(text, "cuBLASLt "));
    assert_non_null(strstr(text, variant));
    assert_int_equal(strlen(variant), 5);
    assert_memory_equal(variant, "sm", 2);
    b->close(device);
    test_check_no_memory_live();
}

static void open_refuses_what_it_cannot_do(void **state)
{
    ls_device_options good = {.struct_size = sizeof good}, options = good;
    ls_device *device = NULL;
    char message[64];

    (void)state;
    need_gpu();
    int n = n_devices();
    options.ordinal = n;
    snprintf(message, sizeof message, "cuda device %d does not exist; there are %d", n, n);
    CHECK_FAILS(b->open(&options, &device), LS_ERR_DEVICE, message);
    options = good;
    options.isa = "x86-64-v3";
    CHECK_FAILS(b->open(&options, &device), LS_ERR_DEVICE, "kernel variant 'x86-64-v3' is unknown; this GPU's is sm");
    options.isa = "sm999";
    CHECK_FAILS(b->open(&options, &device), LS_ERR_DEVICE, "kernel variant 'sm999' needs another GPU");
    options = good;
    options.struct_size = 1;
    CHECK_FAILS(b->open(&options, &device), LS_ERR_INTERNAL, "device options of 1 bytes");
    assert_null(device);
    test_check_no_memory_live();
}

/* What ranks on unlike GPUs agree on is the least, by the order of the names. */
static void lesser_variants_are_taken_over(void **state)
{
    ls_device_options options = {.struct_size = sizeof options, .isa = "sm070"};

    (void)state;
    need_gpu();
    ls_device *device = open_device(0);
    assert_true(strcmp("sm070", b->variant(device)) <= 0);
    b->close(device);
    CHECK_OK(b->open(&options, &device));
    assert_string_equal(b->variant(device), "sm070");
    b->close(device);
}

static void processes_go_round_the_gpus(void **state)
{
    (void)state;
    need_gpu();
    int n = n_devices();

    for (int rank = 0; rank < 3 * n; rank++) {
        int ordinal = -1;

        CHECK_OK(lsi_backend_ordinal(b, rank, &ordinal));
        assert_int_equal(ordinal, rank % n);
        CHECK_OK(lsi_backend_ordinal(&lsi_cpu_backend, rank, &ordinal));
        assert_int_equal(ordinal, 0);
    }
}

static void every_allocation_may_fail(void **state)
{
    bool whole = false;

    (void)state;
    need_gpu();
    for (long k = 1; !whole; k++) {
        ls_device_options options = {.struct_size = sizeof options};
        ls_device *device = NULL;
        ls_stream *stream = NULL;

        assert_true(k < 100);
        lsi_memory_fail_at(k);
        ls_status status = b->open(&options, &device);
        if (status == LS_OK) {
            status = b->stream_create(device, "a", 0, &stream);
        }
        lsi_memory_fail_at(0);
        whole = status == LS_OK;
        assert_true(whole || status == LS_ERR_MEMORY);
        b->stream_destroy(stream);
        b->close(device);
        test_check_no_memory_live();
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void memory_of_every_kind_and_size(void **state)
{
    static const size_t sizes[] = {0, 1, 255, 4096, 5 << 20};
    size_t free_before = 0, free_after = 0, total = 0;

    (void)state;
    need_gpu();
    ls_device *device = open_device(0);
    CHECK_OK(b->memory_info(device, &free_before, &total));
    assert_in_range(free_before, 1, total);
    for (int kind = 0; kind < LS_MEM_COUNT; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *pointer = NULL;

            CHECK_OK(b->alloc(device, (ls_memory)kind, sizes[i], &pointer));
            assert_non_null(pointer);
            assert_int_equal((uintptr_t)pointer % 256, 0);
            b->release(device, (ls_memory)kind, sizes[i], pointer);
        }
    }
    b->release(device, LS_MEM_DEVICE, 0, NULL);
    CHECK_OK(b->memory_info(device, &free_after, &total));
    assert_int_equal(free_after, free_before);
    b->close(device);
}

static void too_much_memory_says_what_is_free(void **state)
{
    lsi_memory_account account = {0};
    lsi_buffer buffer = {0};
    void *pointer = NULL;

    (void)state;
    need_gpu();
    ls_device *device = open_device(0);
    CHECK_FAILS(b->alloc(device, LS_MEM_DEVICE, (size_t)1 << 50, &pointer), LS_ERR_MEMORY,
                "GPU 0: cannot allocate 1125899906842624 bytes; ");
    CHECK_FAILS(lsi_buffer_alloc(device, &account, LS_MEM_DEVICE, LSI_MEMORY_ACTIVATIONS, (size_t)1 << 50, &buffer),
                LS_ERR_MEMORY, "no memory for activations: 1073741824.0 MiB more asked for");
    CHECK_OK(b->alloc(device, LS_MEM_DEVICE, 64, &pointer)); /* and nothing is the worse for it */
    b->release(device, LS_MEM_DEVICE, 64, pointer);
    b->close(device);
    test_check_no_memory_live();
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

typedef struct work {
    ls_device *device;
    ls_status status;
    float result[4];
} work;

static ls_status cast_on(ls_device *device, float out[4])
{
    static const float values[4] = {1.0f, -2.5f, 0.0f, 4096.0f};
    const size_t bytes = sizeof values;
    void *x = NULL, *y = NULL, *pinned = NULL;
    ls_stream *stream = NULL;

    LS_TRY(b->stream_create(device, "cast", 0, &stream));
    LS_TRY(b->alloc(device, LS_MEM_DEVICE, bytes, &x));
    LS_TRY(b->alloc(device, LS_MEM_DEVICE, bytes, &y));
    LS_TRY(b->alloc(device, LS_MEM_PINNED, bytes, &pinned));
    memcpy(pinned, values, bytes);
    LS_TRY(b->copy(stream, x, pinned, bytes));
    LS_TRY(lsi_cast(stream, &(lsi_cast_args){.x = ls_view_make(x, 4, LS_F32), .y = ls_view_make(y, 4, LS_F32)}));
    LS_TRY(b->copy(stream, pinned, y, bytes));
    ls_status status = b->stream_sync(stream);
    memcpy(out, pinned, bytes);
    b->stream_destroy(stream);
    b->release(device, LS_MEM_DEVICE, bytes, x);
    b->release(device, LS_MEM_DEVICE, bytes, y);
    b->release(device, LS_MEM_PINNED, bytes, pinned);
    return status;
}

static void *cast_in_thread(void *argument)
{
    work *w = argument;

    w->status = cast_on(w->device, w->result);
    return NULL;
}

/* A new thread's current GPU is the first one, whatever the device is; and two devices may take turns in one thread. */
static void every_thread_uses_the_right_gpu(void **state)
{
    work w[2] = {{0}};
    pthread_t thread;

    (void)state;
    need_gpu();
    for (int i = 0; i < 2; i++) {
        w[i].device = open_device((n_devices() - 1) * i);
    }
    for (int i = 3; i >= 0; i--) {
        CHECK_OK(lsi_thread_start(&thread, "worker", cast_in_thread, &w[i % 2]));
        pthread_join(thread, NULL);
        assert_int_equal(w[i % 2].status, LS_OK);
        assert_true(w[i % 2].result[1] == -2.5f && w[i % 2].result[3] == 4096.0f);
        (void)cast_in_thread(&w[(i + 1) % 2]);
        assert_int_equal(w[(i + 1) % 2].status, LS_OK);
    }
    b->close(w[0].device);
    b->close(w[1].device);
    test_check_no_memory_live();
}

/* ---- in processes of their own: what the simulator is told at its start ----------------------------------------- */

static bool simulated(void)
{
    ls_device *device = open_device(0);
    bool yes = strstr(b->describe(device), "Simulated") != NULL;

    b->close(device);
    return yes;
}

/* Runs `what` of child() with a variable set, and checks that it says `expected`. */
static void check_child(const char *what, const char *variable, const char *value, const char *expected)
{
    char output[4096] = "";
    size_t used = 0;
    int ends[2], status = -1;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_cuda", what, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], output + used, sizeof output - 1 - used)) > 0;) {
        used += (size_t)n;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    if (strstr(output, expected) == NULL) {
        fail_msg("%s with %s = %s says '%s' and not '%s'", what, variable, value, output, expected);
    }
}

static void check_machine(const char *description, const char *expected)
{
    char path[] = "/tmp/lockstep-machine-XXXXXX";
    int file = mkstemp(path);

    assert_true(file >= 0);
    assert_int_equal(write(file, description, strlen(description)), strlen(description));
    close(file);
    check_child("open", "CUSIM_MACHINE", path, expected);
    check_child("auto", "CUSIM_MACHINE", path, "goes on with cpu");
    unlink(path);
}

static void without_a_gpu_it_says_why(void **state)
{
    (void)state;
    need_gpu();
    if (!simulated()) {
        skip();
    }
    check_machine("driver none\n", "no NVIDIA driver on this machine");
    check_machine("driver 450.80.02\ncuda 11000\ngpu name=\"An old friend\" cc=7.0 mem=1024\n",
                  "the NVIDIA driver is too old: it runs CUDA up to 11.0, this build needs ");
    check_machine("driver 580.65.06\ncuda 13000\n", "no GPU on this machine");
    check_child("open", "CUDA_VISIBLE_DEVICES", "", "no GPU is visible: CUDA_VISIBLE_DEVICES = '' hides all there are");
    check_child("open", "CUDA_VISIBLE_DEVICES", "7", "CUDA_VISIBLE_DEVICES = '7' hides all there are");
    check_child("auto", "CUDA_VISIBLE_DEVICES", "", "device.backend = auto goes on with cpu");
}

static void failures_name_the_op(void **state)
{
    (void)state;
    need_gpu();
    if (!simulated()) {
        skip();
    }
    /* an illegal address (700): CUDA tells of it at some later call, whoever makes it, and be it before the next op is
     * queued; or exactly, when asked to */
    check_child("work", "CUSIM_FAIL", "kernel:lsi_add_f32@1=700", "GPU 0: in or before op ");
    check_child("work", "CUSIM_FAIL", "kernel:lsi_add_f32@1=700", "(cudaErrorIllegalAddress)");
    check_child("work-exact", "CUSIM_FAIL", "kernel:lsi_add_f32@1=700", "GPU 0: op add on stream work: cudaStreamSynchronize: an illegal");
    check_child("work", "CUSIM_FAIL", "kernel:lsi_add_f32@1=701", "GPU 0: op add on stream work: add: cudaLaunchKernel: ");
    check_child("work", "CUSIM_FAIL", "cudaMemcpyAsync@1=1", "a copy on stream work: cudaMemcpyAsync: invalid argument");
    check_child("work", "CUSIM_FAIL", "cudaEventSynchronize@1=214", "(cudaErrorECCUncorrectable)");
}

/* Two ops after each other. Prints the failure that the wait at the end tells. */
static ls_status two_ops(bool exact)
{
    ls_device_options options = {.struct_size = sizeof options, .sync_each_op = exact};
    ls_device *device = NULL;
    ls_stream *stream = NULL;
    ls_event *event = NULL;
    void *x = NULL;

    LS_TRY(b->open(&options, &device));
    LS_TRY(b->stream_create(device, "work", 0, &stream));
    LS_TRY(b->event_create(device, &event));
    LS_TRY(b->alloc(device, LS_MEM_DEVICE, 1024, &x));
    ls_view half[2] = {ls_view_make(x, 64, LS_F32), ls_view_make((float *)x + 64, 64, LS_F32)};
    LS_TRY(b->copy(stream, half[0].data, half[1].data, 256));
    LS_TRY(lsi_add(stream, &(lsi_add_args){.a = half[0], .b = half[1], .y = half[0]}));
    for (int i = 0; i < 3; i++) {
        LS_TRY(lsi_cast(stream, &(lsi_cast_args){.x = half[0], .y = half[1]}));
    }
    LS_TRY(b->event_record(event, stream));
    return b->event_sync(event);
}

static int child(const char *what)
{
    const ls_backend *found = NULL;
    ls_device_options options = {.struct_size = sizeof options};
    ls_device *device = NULL;
    ls_status status;

    if (strcmp(what, "auto") == 0) {
        return lsi_backend_find("auto", &found) == LS_OK && found == &lsi_cpu_backend ? 0 : 1;
    }
    status = strcmp(what, "open") == 0 ? b->open(&options, &device) : two_ops(strcmp(what, "work-exact") == 0);
    printf("%s\n", status == LS_OK ? "no failure" : ls_failure_message());
    fflush(stdout);
    _exit(status == LS_ERR_DEVICE ? 0 : 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_describes_what_it_opened),     cmocka_unit_test(open_refuses_what_it_cannot_do),
        cmocka_unit_test(lesser_variants_are_taken_over),    cmocka_unit_test(processes_go_round_the_gpus),
        cmocka_unit_test(every_allocation_may_fail),         cmocka_unit_test(memory_of_every_kind_and_size),
        cmocka_unit_test(too_much_memory_says_what_is_free), cmocka_unit_test(every_thread_uses_the_right_gpu),
        cmocka_unit_test(without_a_gpu_it_says_why),         cmocka_unit_test(failures_name_the_op),
    };

    return argc == 2 ? child(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
    printf("skipped: this build has no GPUs\n");
    return 0;
}

#endif
