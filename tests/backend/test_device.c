/* RUN: timeout=60 */
#include "support/backend_case.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/buffer.h"
#include "backend/cpu/isa.h"
#include "base/memory.h"

static const ls_backend *const b = &lsi_cpu_backend;

/* ---- registry ------------------------------------------------------------------------------------------------ */

static void backends_by_name(void **state)
{
    const ls_backend *found = NULL;

    (void)state;
    CHECK_OK(lsi_backend_find("cpu", &found));
    assert_ptr_equal(found, b);
    CHECK_OK(lsi_backend_find("auto", &found));
    assert_non_null(found);
    CHECK_FAILS(lsi_backend_find("gpu", &found), LS_ERR_CONFIG, "no backend 'gpu' in this build; choices: auto, cpu");
#ifdef LOCKSTEP_HAVE_CUDA
    CHECK_OK(lsi_backend_find("cuda", &found));
    assert_ptr_equal(found, &lsi_cuda_backend);
#else
    CHECK_FAILS(lsi_backend_find("cuda", &found), LS_ERR_CONFIG, "no backend 'cuda'");
#endif
    test_check_no_memory_live();
}

static void tables_with_a_hole_are_refused(void **state)
{
    ls_backend table = *b;

    (void)state;
    CHECK_OK(lsi_backend_check(&table));
    table.struct_size -= sizeof(void *);
    CHECK_FAILS(lsi_backend_check(&table), LS_ERR_INTERNAL, "another version");
    table = *b;
    table.name = NULL;
    CHECK_FAILS(lsi_backend_check(&table), LS_ERR_INTERNAL, "without a name");
    for (size_t at = offsetof(ls_backend, open); at < sizeof table; at += sizeof(void *)) {
        table = *b;
        memset((char *)&table + at, 0, sizeof(void *));
        CHECK_FAILS(lsi_backend_check(&table), LS_ERR_INTERNAL, "backend cpu: entry");
    }
}

/* ---- open ---------------------------------------------------------------------------------------------------- */

static void open_describes_what_it_opened(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)lsi_isa_best(); isa++) {
        const char *name = lsi_isa_name((lsi_isa)isa);
        ls_device_options options = {.struct_size = sizeof options, .n_threads = 2, .isa = name};
        ls_device *device = NULL;

        assert_int_equal(lsi_isa_find(name), isa);
        CHECK_OK(b->open(&options, &device));
        assert_string_equal(b->variant(device), name);
        assert_ptr_equal(strstr(b->describe(device), "cpu "), b->describe(device));
        assert_non_null(strstr(b->describe(device), name));
        assert_non_null(strstr(b->describe(device), "oneDNN "));
        b->close(device);
    }
    ls_device *device = test_device_open(1);
    assert_string_equal(b->variant(device), lsi_isa_name(lsi_isa_best()));
    b->close(device);
    test_check_no_memory_live();
}

static void open_refuses_what_it_cannot_do(void **state)
{
    ls_device_options good = {.struct_size = sizeof good, .n_threads = 1}, options = good;
    ls_device *device = NULL;

    (void)state;
    options.isa = "x86-64-v9";
    CHECK_FAILS(b->open(&options, &device), LS_ERR_DEVICE, "kernel variant 'x86-64-v9' is unknown; choices: ");
    options = good;
    options.ordinal = 1;
    CHECK_FAILS(b->open(&options, &device), LS_ERR_DEVICE, "cpu device 1 does not exist");
    options = good;
    options.n_threads = 0;
    CHECK_FAILS(b->open(&options, &device), LS_ERR_INTERNAL, "0 threads");
    options = good;
    options.struct_size = 1;
    CHECK_FAILS(b->open(&options, &device), LS_ERR_INTERNAL, "device options of 1 bytes");
    assert_null(device);
    test_check_no_memory_live();
}

/* Whichever allocation fails, opening and making a stream report it and leave nothing behind. */
static void every_allocation_may_fail(void **state)
{
    bool whole = false;

    (void)state;
    for (long k = 1; !whole; k++) {
        ls_device_options options = {.struct_size = sizeof options, .n_threads = 3};
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

/* ---- memory -------------------------------------------------------------------------------------------------- */

static void memory_of_every_kind_and_size(void **state)
{
    static const size_t sizes[] = {0, 1, 255, 4096, (2 << 20) - 1, 2 << 20, 5 << 20};
    ls_device *device = test_device_open(1);
    size_t free_bytes = 0, total_bytes = 0;

    (void)state;
    CHECK_OK(b->memory_info(device, &free_bytes, &total_bytes));
    assert_true(free_bytes > 0 && free_bytes <= total_bytes);
    for (int kind = 0; kind < LS_MEM_COUNT; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *pointer = NULL;

            CHECK_OK(b->alloc(device, (ls_memory)kind, sizes[i], &pointer));
            assert_non_null(pointer);
            assert_int_equal((uintptr_t)pointer % 256, 0);
            memset(pointer, 1, sizes[i]);
            b->release(device, (ls_memory)kind, sizes[i], pointer);
        }
    }
    b->release(device, LS_MEM_DEVICE, 0, NULL);
    b->close(device);
}

static void shared_memory_is_shared(void **state)
{
    ls_device *device = test_device_open(1);
    void *pointer = NULL;
    int status = -1;

    (void)state;
    CHECK_OK(b->alloc(device, LS_MEM_SHARED, 4096, &pointer));
    ((volatile char *)pointer)[5] = 1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ((volatile char *)pointer)[5] = 2;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(((volatile char *)pointer)[5], 2);
    b->release(device, LS_MEM_SHARED, 4096, pointer);
    b->close(device);
}

static void too_much_memory_names_class_size_and_what_is_free(void **state)
{
    ls_device *device = test_device_open(1);
    lsi_memory_account account = {0};
    lsi_buffer buffer = {0};

    (void)state;
    CHECK_FAILS(lsi_buffer_alloc(device, &account, LS_MEM_DEVICE, LSI_MEMORY_ACTIVATIONS, (size_t)1 << 50, &buffer),
                LS_ERR_MEMORY, "no memory for activations: 1073741824.0 MiB more asked for, 0.0 MiB held");
    CHECK_FAILS(lsi_buffer_alloc(device, &account, LS_MEM_DEVICE, LSI_MEMORY_ACTIVATIONS, (size_t)1 << 50, &buffer),
                LS_ERR_MEMORY, "MiB free");
    assert_int_equal(account.live_total, 0);
    assert_null(buffer.data);
    b->close(device);
}

static void accounts_keep_live_and_highest_bytes(void **state)
{
    ls_device *device = test_device_open(1);
    lsi_memory_account account = {0};
    lsi_buffer w = {0}, a = {0};

    (void)state;
    CHECK_OK(lsi_buffer_alloc(device, &account, LS_MEM_DEVICE, LSI_MEMORY_WEIGHTS, 1000, &w));
    CHECK_OK(lsi_buffer_alloc(device, &account, LS_MEM_PINNED, LSI_MEMORY_BATCH, 300, &a));
    assert_int_equal(a.bytes, 300);
    assert_int_equal(a.kind, LS_MEM_PINNED);
    lsi_memory_account_add(&account, LSI_MEMORY_COMM, 50);
    lsi_buffer_release(device, &account, &a);
    assert_null(a.data);
    lsi_buffer_release(device, &account, &a);
    CHECK_OK(lsi_buffer_alloc(device, &account, LS_MEM_DEVICE, LSI_MEMORY_BATCH, 100, &a));
    assert_int_equal(account.live[LSI_MEMORY_WEIGHTS], 1000);
    assert_int_equal(account.live[LSI_MEMORY_BATCH], 100);
    assert_int_equal(account.peak[LSI_MEMORY_BATCH], 300);
    assert_int_equal(account.live_total, 1150);
    assert_int_equal(account.peak_total, 1350);
    lsi_memory_account_remove(&account, LSI_MEMORY_COMM, 50);
    lsi_buffer_release(device, &account, &a);
    lsi_buffer_release(device, &account, &w);
    assert_int_equal(account.live_total, 0);
    b->close(device);
    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        assert_non_null(lsi_memory_class_text((lsi_memory_class)c));
    }
    assert_string_equal(lsi_memory_class_text(LSI_MEMORY_OPTIMIZER), "optimizer state");
}

static void poison_is_nan(void **state)
{
    ls_device *device = test_device_open(1);
    lsi_memory_account account = {.poison = true};
    lsi_buffer buffer = {0};

    (void)state;
    CHECK_OK(lsi_buffer_alloc(device, &account, LS_MEM_DEVICE, LSI_MEMORY_GRADIENTS, 4000, &buffer));
    for (int i = 0; i < 1000; i++) {
        float value = ((float *)buffer.data)[i];

        assert_true(value != value);
    }
    lsi_buffer_release(device, &account, &buffer);
    b->close(device);
    test_check_no_memory_live();
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

static ls_status nothing(const ls_cpu_run *run, const void *arguments)
{
    (void)run, (void)arguments;
    return LS_OK;
}

static void op_descriptions_are_checked(void **state)
{
    const ls_op good = {.struct_size = sizeof(ls_op), .name = "mine", .arguments_bytes = 2 * sizeof(ls_view) + 16,
                        .n_in = 1, .n_out = 1, .state_access = LS_STATE_READ, .state_offset = 2 * sizeof(ls_view),
                        .cpu = nothing};
    ls_device *device = test_device_open(1);
    ls_op op = good;

    (void)state;
    CHECK_OK(ls_op_register(device, &op));
    CHECK_FAILS(ls_op_register(device, NULL), LS_ERR_INTERNAL, "op description");
    op.struct_size = 8;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "op description of 8 bytes");
    op = good;
    op.name = "";
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "without a name");
    op = good;
    op.n_acc = -1;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "op mine: negative");
    op = good;
    op.arguments_bytes = LS_OP_MAX_ARGUMENTS + 8;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "op mine: 456 bytes of arguments, at most 448");
    op = good;
    op.n_in = 3;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "bytes of views");
    op = good;
    op.state_offset = 8;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "step state cannot stand at offset 8");
    op.state_offset = good.arguments_bytes;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_INTERNAL, "step state");
    op = good;
    op.cpu = NULL;
    CHECK_FAILS(ls_op_register(device, &op), LS_ERR_DEVICE, "op mine: no function for the cpu backend");
    b->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_by_name),
        cmocka_unit_test(tables_with_a_hole_are_refused),
        cmocka_unit_test(open_describes_what_it_opened),
        cmocka_unit_test(open_refuses_what_it_cannot_do),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(memory_of_every_kind_and_size),
        cmocka_unit_test(shared_memory_is_shared),
        cmocka_unit_test(too_much_memory_names_class_size_and_what_is_free),
        cmocka_unit_test(accounts_keep_live_and_highest_bytes),
        cmocka_unit_test(poison_is_nan),
        cmocka_unit_test(op_descriptions_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
