/* RUN: cuda label=contract,tsan timeout=60 */
#include "support/backend_case.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* Its member `fail` is called as (b->fail): cmocka has a macro of that name. */
static const ls_backend *b;

/* ---- ops ----------------------------------------------------------------------------------------------------- */

static ls_status explode(const ls_cpu_run *run, const void *arguments)
{
    (void)run, (void)arguments;
    return LS_FAIL(LS_ERR_NUMERIC, "element %d is odd", 3);
}

static ls_status sulk(const ls_cpu_run *run, const void *arguments)
{
    (void)run, (void)arguments;
    return LS_ERR_DATA;
}

static ls_status mark(const ls_cpu_run *run, const void *arguments)
{
    const ls_view *marked = arguments;

    (void)run;
    *(int32_t *)marked->data = 1;
    return LS_OK;
}

TEST_OP_ON_CUDA(explode, 0)
static const ls_op op_explode = {.struct_size = sizeof(ls_op), .name = "explode",
                                 .cpu = explode, .cuda = explode_on_cuda};
TEST_OP_ON_CUDA(sulk, 0)
static const ls_op op_sulk = {.struct_size = sizeof(ls_op), .name = "sulk", .cpu = sulk, .cuda = sulk_on_cuda};
TEST_OP_ON_CUDA(mark, sizeof(ls_view))
static const ls_op op_mark = {.struct_size = sizeof(ls_op), .name = "mark", .n_out = 1,
                              .cpu = mark, .cuda = mark_on_cuda,
                              .arguments_bytes = sizeof(ls_view)};

/* ---- failed work --------------------------------------------------------------------------------------------- */

static void failure_names_the_op_and_stops_later_work(void **state)
{
    ls_device *device = test_device_open(2);
    ls_stream *first = test_stream(device, "first"), *second = test_stream(device, "second");
    ls_event *event = test_event(device);
    int32_t *marked = test_memory(device, sizeof *marked);
    unsigned char *bytes = test_memory(device, 2);
    ls_flag *set = test_memory(device, sizeof *set), *never = test_memory(device, sizeof *never);

    (void)state;
    CHECK_OK(ls_op_launch(first, &op_explode, NULL));
    CHECK_OK(ls_op_launch(first, &op_sulk, NULL));          /* skipped: the first failure is the one to tell */
    CHECK_OK(b->event_record(event, first));
    CHECK_OK(b->event_wait(second, event));
    CHECK_OK(ls_op_launch(second, &op_mark, &(ls_view){marked, 1, LS_I32}));
    CHECK_OK(b->fill(second, bytes, 1, 1));
    CHECK_OK(b->copy(second, bytes, bytes + 1, 1));
    CHECK_OK(b->stamp(second, 1));
    CHECK_OK(b->flag_wait(second, never, 1));              /* returns, or the next lines never would */
    CHECK_OK(b->flag_set(second, set, 5));
    CHECK_FAILS(b->event_sync(event), LS_ERR_NUMERIC, "op explode: element 3 is odd");
    CHECK_FAILS(b->stream_sync(second), LS_ERR_NUMERIC, "op explode: element 3 is odd");
    CHECK_FAILS(b->stream_sync(first), LS_ERR_NUMERIC, "op explode");
    /* The flag is set; who waits for it must not take that for the work before it. */
    CHECK_FAILS(b->host_flag_wait(device, set, 5, 10), LS_ERR_NUMERIC, "op explode: element 3 is odd");
    CHECK_FAILS(b->host_flag_wait(device, never, 1, 10), LS_ERR_NUMERIC, "op explode: element 3 is odd");
    assert_int_equal(*marked, 0);
    if (b->host_memory) {       /* a GPU cannot be told to leave queued copies out */
        assert_int_equal(bytes[0], 0);
        assert_int_equal(b->stamp_count(device), 0);
    }
    uint64_t stamps = b->stamp_count(device);
    CHECK_OK(ls_op_launch(second, &op_mark, &(ls_view){marked, 1, LS_I32}));    /* but takes no more of them */
    CHECK_OK(b->fill(second, bytes, 7, 1));
    CHECK_OK(b->stamp(second, 1));
    CHECK_FAILS(b->stream_sync(second), LS_ERR_NUMERIC, "op explode");
    assert_int_equal(*marked, 0);
    assert_int_not_equal(bytes[0], 7);
    assert_int_equal(b->stamp_count(device), stamps);
    b->event_destroy(event);
    b->stream_destroy(first);
    b->stream_destroy(second);
    test_device_close(device);
    test_check_no_memory_live();
}

static void failure_without_a_message_has_the_status_text(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a");

    (void)state;
    CHECK_OK(ls_op_launch(stream, &op_sulk, NULL));
    CHECK_FAILS(b->stream_sync(stream), LS_ERR_DATA, "op sulk: data error");
    b->stream_destroy(stream);
    test_device_close(device);
}

static void failure_inside_a_replay(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *origin = test_stream(device, "origin"), *side = test_stream(device, "side");
    ls_event *fork = test_event(device), *join = test_event(device);
    ls_recording *recording = NULL;
    int32_t *marked = test_memory(device, sizeof *marked);

    (void)state;
    CHECK_OK(b->capture_begin(origin));
    CHECK_OK(b->event_record(fork, origin));
    CHECK_OK(b->event_wait(side, fork));
    CHECK_OK(ls_op_launch(side, &op_explode, NULL));
    CHECK_OK(b->event_record(join, side));
    CHECK_OK(b->event_wait(origin, join));
    CHECK_OK(ls_op_launch(origin, &op_mark, &(ls_view){marked, 1, LS_I32}));
    CHECK_OK(b->capture_end(origin, &recording));
    CHECK_OK(b->replay(recording));
    CHECK_OK(b->replay(recording));
    CHECK_FAILS(b->stream_sync(origin), LS_ERR_NUMERIC, "op explode");
    assert_int_equal(*marked, 0);
    b->stream_destroy(origin);
    b->stream_destroy(side);
    b->recording_destroy(recording);
    b->event_destroy(fork);
    b->event_destroy(join);
    test_device_close(device);
    test_check_no_memory_live();
}

static void launch_refuses_what_it_cannot_run(void **state)
{
    static const ls_op no_cpu = {.struct_size = sizeof(ls_op), .name = "elsewhere"};
    static const ls_op large = {.struct_size = sizeof(ls_op), .name = "large", .cpu = explode, .cuda = explode_on_cuda,
                                .arguments_bytes = LS_OP_MAX_ARGUMENTS + 1};
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a");
    char no_function[64];

    (void)state;
    snprintf(no_function, sizeof no_function, "op elsewhere: no function for the %s backend", b->name);
    CHECK_FAILS(ls_op_launch(stream, &no_cpu, NULL), LS_ERR_DEVICE, no_function);
    CHECK_FAILS(ls_op_launch(stream, &large, NULL), LS_ERR_INTERNAL, "op large: 449 bytes of arguments");
    CHECK_OK(b->stream_sync(stream));
    b->stream_destroy(stream);
    test_device_close(device);
}

/* ---- helper threads ------------------------------------------------------------------------------------------ */

typedef struct helper {
    ls_device *device;
    ls_flag flag;
    ls_status status;
} helper;

static void *fail_later(void *argument)
{
    helper *h = argument;

    usleep(20000);
    (b->fail)(h->device, LS_ERR_COMM, "rank 3 does not answer");
    return NULL;
}

/* The stream waits for a flag that the failed helper will never set. */
static void helper_failure_ends_the_wait_of_the_host(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a");
    helper *h = test_memory(device, sizeof *h);
    pthread_t thread;

    (void)state;
    h->device = device;
    CHECK_OK(lsi_thread_start(&thread, "helper", fail_later, h));
    CHECK_OK(b->flag_wait(stream, &h->flag, 1));
    CHECK_FAILS(b->stream_sync(stream), LS_ERR_COMM, "rank 3 does not answer");
    pthread_join(thread, NULL);
    (b->fail)(device, LS_ERR_DATA, "a consequence of the first");
    CHECK_FAILS(b->stream_sync(stream), LS_ERR_COMM, "rank 3 does not answer");
    b->stream_destroy(stream);
    test_device_close(device);
}

static void *wait_for_flag(void *argument)
{
    helper *h = argument;

    h->status = b->host_flag_wait(h->device, &h->flag, 1, 0);
    return NULL;
}

static void abort_ends_every_wait(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a"), *other = test_stream(device, "b");
    ls_event *event = test_event(device);
    helper *h = test_memory(device, sizeof *h);
    ls_flag *never = test_memory(device, sizeof *never), *set = test_memory(device, sizeof *set);
    int32_t *marked = test_memory(device, sizeof *marked);
    uint32_t seen;
    pthread_t thread;

    (void)state;
    h->device = device;
    CHECK_OK(lsi_thread_start(&thread, "helper", wait_for_flag, h));
    CHECK_OK(b->flag_wait(stream, never, 1));
    CHECK_OK(ls_op_launch(stream, &op_mark, &(ls_view){marked, 1, LS_I32}));
    CHECK_OK(b->event_record(event, stream));
    CHECK_OK(b->event_wait(other, event));
    CHECK_OK(b->flag_set(other, set, 1));
    usleep(20000);

    double start = lsi_clock_seconds();
    b->abort(device);
    pthread_join(thread, NULL);
    assert_int_equal(h->status, LS_ERR_INTERNAL);
    CHECK_FAILS(b->event_sync(event), LS_ERR_INTERNAL, "aborted");
    CHECK_FAILS(b->stream_sync(other), LS_ERR_INTERNAL, "aborted");
    CHECK_FAILS(b->stream_sync(stream), LS_ERR_INTERNAL, "aborted");
    assert_true(lsi_clock_seconds() - start < 5);
    assert_int_equal(*marked, 0);
    assert_int_equal(set->word, 1);
    CHECK_FAILS(b->host_flag_wait(device, set, 1, 0), LS_ERR_INTERNAL, "aborted");
    CHECK_FAILS(b->host_flag_wait_change(device, set, 0, 0, &seen), LS_ERR_INTERNAL, "aborted");
    b->event_destroy(event);
    b->stream_destroy(stream);
    b->stream_destroy(other);
    test_device_close(device);
    test_check_no_memory_live();
}

int main(void)
{
    b = test_backend();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_names_the_op_and_stops_later_work),
        cmocka_unit_test(failure_without_a_message_has_the_status_text),
        cmocka_unit_test(failure_inside_a_replay),
        cmocka_unit_test(launch_refuses_what_it_cannot_run),
        cmocka_unit_test(helper_failure_ends_the_wait_of_the_host),
        cmocka_unit_test(abort_ends_every_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
