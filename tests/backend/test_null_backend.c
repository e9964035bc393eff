/* RUN: timeout=60 */
#include "support/null_backend.h"
#include "support/test.h"

#include <string.h>

#include "backend/registry.h"

static const ls_op op_any = {.struct_size = sizeof(ls_op), .name = "any", .arguments_bytes = 8};

static void it_orders_and_computes_nothing(void **state)
{
    const ls_backend *b = &null_backend;
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};
    ls_device *device = NULL;
    ls_stream *copy = NULL, *compute = NULL;
    ls_event *event = NULL;
    ls_recording *recording = NULL;
    ls_flag flag = {0};
    void *memory = NULL;
    uint32_t seen = 0;
    int64_t argument = 42;

    (void)state;
    CHECK_OK(lsi_backend_check(b));
    CHECK_OK(b->open(&options, &device));
    CHECK_OK(b->stream_create(device, "copy", 0, &copy));
    CHECK_OK(b->stream_create(device, "compute", 1, &compute));
    CHECK_OK(b->event_create(device, &event));
    CHECK_OK(b->alloc(device, LS_MEM_DEVICE, 64, &memory));
    memset(memory, 3, 64);
    assert_int_equal(null_alive(device), 4);

    CHECK_OK(b->capture_begin(copy));
    CHECK_OK(b->fill(copy, memory, 0, 64));
    CHECK_OK(b->event_record(event, copy));
    CHECK_OK(b->event_wait(compute, event));
    CHECK_OK(ls_op_launch(compute, &op_any, &argument));
    CHECK_OK(b->flag_set(compute, &flag, 9));
    CHECK_OK(b->stamp(compute, 77));
    CHECK_OK(b->capture_end(copy, &recording));
    CHECK_OK(b->replay(recording));
    CHECK_OK(b->stream_sync(compute));

    static const null_kind kinds[] = {NULL_CAPTURE_BEGIN, NULL_FILL,  NULL_RECORD,      NULL_WAIT,   NULL_OP,
                                      NULL_FLAG_SET,      NULL_STAMP, NULL_CAPTURE_END, NULL_REPLAY, NULL_STREAM_SYNC};
    assert_int_equal(null_log_count(device), sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(null_log_entry(device, i)->kind, kinds[i]);
        assert_int_equal(null_log_entry(device, i)->captured, i < 7);
    }
    assert_int_equal(((char *)memory)[0], 3);
    assert_string_equal(null_log_entry(device, 3)->stream, "compute");
    assert_ptr_equal(null_log_entry(device, 3)->object, event);
    assert_ptr_equal(null_log_entry(device, 4)->op, &op_any);
    assert_memory_equal(null_log_entry(device, 4)->arguments, &argument, sizeof argument);
    assert_int_equal(b->stamps(device)[b->stamp_count(device)].id, 77);
    CHECK_OK(b->host_flag_wait(device, &flag, 9, 1));
    CHECK_OK(b->host_flag_wait_change(device, &flag, 8, 1, &seen));
    assert_int_equal(seen, 9);
    CHECK_FAILS(b->host_flag_wait(device, &flag, 1, 0.01), LS_ERR_TIMEOUT, "flag");

    (b->fail)(device, LS_ERR_COMM, "gone");         /* in parentheses: cmocka has a macro fail() */
    CHECK_FAILS(b->event_sync(event), LS_ERR_COMM, "gone");
    null_log_clear(device);
    assert_int_equal(null_log_count(device), 0);
    b->recording_destroy(recording);
    b->release(device, LS_MEM_DEVICE, 64, memory);
    b->event_destroy(event);
    b->stream_destroy(copy);
    b->stream_destroy(compute);
    assert_int_equal(null_alive(device), 0);
    assert_int_equal(null_made(device), 5);
    b->close(device);
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_orders_and_computes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
