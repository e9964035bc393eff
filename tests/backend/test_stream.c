/* RUN: cuda label=contract,tsan timeout=60 */
#include "support/backend_case.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"

static const ls_backend *b;

/* ---- ops ----------------------------------------------------------------------------------------------------- */

enum { LIST_MAX = 20000 };

typedef struct append_args {
    ls_view list;       /* element 0: how many stand behind it */
    int64_t value;
} append_args;

static ls_status append(const ls_cpu_run *run, const void *arguments)
{
    const append_args *a = arguments;
    int64_t *list = a->list.data;

    (void)run;
    list[++list[0]] = a->value;
    return LS_OK;
}

TEST_OP_ON_CUDA(append, sizeof(append_args))
static const ls_op op_append = {.struct_size = sizeof(ls_op), .name = "append", .n_acc = 1,
                                .cpu = append, .cuda = append_on_cuda,
                                .arguments_bytes = sizeof(append_args)};

static ls_view list_view(int64_t *list, int64_t room)
{
    return ls_view_make(list, room, LS_F64);
}

/* The same with arguments as large as they may be, checked for the bytes they were given with. */
typedef struct large_args {
    ls_view list;
    int64_t value;
    unsigned char filler[LS_OP_MAX_ARGUMENTS - sizeof(ls_view) - sizeof(int64_t)];
} large_args;

static ls_status append_large(const ls_cpu_run *run, const void *arguments)
{
    const large_args *a = arguments;

    for (size_t i = 0; i < sizeof a->filler; i++) {
        LS_REQUIRE(a->filler[i] == (unsigned char)((size_t)a->value + i), LS_ERR_INTERNAL, "arguments were torn");
    }
    return append(run, arguments);
}

TEST_OP_ON_CUDA(append_large, sizeof(large_args))
static const ls_op op_large = {.struct_size = sizeof(ls_op), .name = "append_large", .n_acc = 1,
                               .cpu = append_large, .cuda = append_large_on_cuda,
                               .arguments_bytes = sizeof(large_args)};

typedef struct sum_args {
    ls_view x, y;       /* y = x + 1, slowly */
} sum_args;

static ls_status slow_increment(const ls_cpu_run *run, const void *arguments)
{
    const sum_args *a = arguments;

    (void)run;
    usleep(200);
    for (int64_t i = 0; i < a->x.count; i++) {
        ((float *)a->y.data)[i] = ((const float *)a->x.data)[i] + 1;
    }
    return LS_OK;
}

TEST_OP_ON_CUDA(slow_increment, sizeof(sum_args))
static const ls_op op_increment = {.struct_size = sizeof(ls_op), .name = "increment", .n_in = 1, .n_out = 1,
                                   .cpu = slow_increment, .cuda = slow_increment_on_cuda,
                                   .arguments_bytes = sizeof(sum_args)};

/* ---- order --------------------------------------------------------------------------------------------------- */

static void work_runs_in_order_through_a_wrapping_ring(void **state)
{
    ls_device *device = test_device_open(1);
    int64_t *list = test_memory(device, (LIST_MAX + 1) * sizeof *list);
    ls_stream *stream = test_stream(device, "a");

    (void)state;
    for (int64_t i = 0; i < LIST_MAX; i++) {
        ls_view view = list_view(list, LIST_MAX + 1);

        if (i % 3 == 0) {
            large_args a = {.list = view, .value = i};

            for (size_t k = 0; k < sizeof a.filler; k++) {
                a.filler[k] = (unsigned char)((size_t)i + k);
            }
            CHECK_OK(ls_op_launch(stream, &op_large, &a));
        } else {
            CHECK_OK(ls_op_launch(stream, &op_append, &(append_args){view, i}));
        }
    }
    CHECK_OK(b->stream_sync(stream));
    assert_int_equal(list[0], LIST_MAX);
    for (int64_t i = 0; i < LIST_MAX; i++) {
        assert_int_equal(list[i + 1], i);
    }
    b->stream_destroy(stream);
    test_device_close(device);
    test_check_no_memory_live();
}

static void destroy_runs_what_is_queued(void **state)
{
    ls_device *device = test_device_open(1);
    int64_t *list = test_memory(device, 101 * sizeof *list);
    ls_stream *stream = test_stream(device, "a");

    (void)state;
    for (int64_t i = 0; i < 100; i++) {
        CHECK_OK(ls_op_launch(stream, &op_append, &(append_args){list_view(list, 101), i}));
    }
    b->stream_destroy(stream);
    assert_int_equal(list[0], 100);
    test_device_close(device);
}

/* A value is handed around three streams; every hop waits for the one before. */
static void events_order_streams(void **state)
{
    enum { STREAMS = 3, HOPS = 60, N = 32 };
    ls_device *device = test_device_open(1);
    float(*value)[N] = test_memory(device, STREAMS * sizeof *value);
    ls_stream *stream[STREAMS];
    ls_event *event[STREAMS];

    (void)state;
    for (int i = 0; i < STREAMS; i++) {
        stream[i] = test_stream(device, "hop");
        event[i] = test_event(device);
    }
    for (int hop = 0; hop < HOPS; hop++) {
        int from = hop % STREAMS, to = (hop + 1) % STREAMS;

        CHECK_OK(b->event_wait(stream[to], event[from]));       /* the first: never recorded, so no wait */
        CHECK_OK(ls_op_launch(stream[to], &op_increment,
                              &(sum_args){ls_view_make(value[from], N, LS_F32), ls_view_make(value[to], N, LS_F32)}));
        CHECK_OK(b->event_record(event[to], stream[to]));
    }
    CHECK_OK(b->event_sync(event[HOPS % STREAMS]));
    for (int i = 0; i < N; i++) {
        assert_true(value[HOPS % STREAMS][i] == (float)HOPS);
    }
    for (int i = 0; i < STREAMS; i++) {
        b->event_destroy(event[i]);
        b->stream_destroy(stream[i]);
    }
    test_device_close(device);
    test_check_no_memory_live();
}

/* A wait is for the record queued before it, also when the event is recorded again or destroyed meanwhile. */
static void event_wait_means_the_last_record_before_it(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *gated = test_stream(device, "gated"), *other = test_stream(device, "other");
    ls_event *event = test_event(device);
    ls_flag *gate = test_memory(device, sizeof *gate);

    (void)state;
    CHECK_OK(b->event_record(event, other));
    CHECK_OK(b->event_wait(other, event));
    CHECK_OK(b->flag_wait(gated, gate, 1));
    CHECK_OK(b->event_record(event, gated));        /* not reached yet; the wait above must not see it */
    CHECK_OK(b->stream_sync(other));

    CHECK_OK(b->event_wait(other, event));
    b->event_destroy(event);
    event = test_event(device);                     /* whatever it shares with the old one, it is fresh */
    CHECK_OK(b->event_sync(event));
    CHECK_OK(b->event_wait(gated, event));
    b->host_flag_set(device, gate, 1);
    CHECK_OK(b->stream_sync(other));
    CHECK_OK(b->stream_sync(gated));
    b->event_destroy(event);
    b->event_destroy(NULL);
    b->stream_destroy(gated);
    b->stream_destroy(other);
    b->stream_destroy(NULL);
    test_device_close(device);
    b->close(NULL);
    test_check_no_memory_live();
}

/* ---- flags --------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 500, SHARE = 16 };

typedef struct producer {
    ls_device *device;
    ls_flag full[2];
    int32_t share[2][SHARE];
    ls_status status;
} producer;

static void *produce(void *argument)
{
    producer *p = argument;

    for (int n = 0; n < ROUNDS; n++) {
        p->status = b->host_flag_wait(p->device, &p->full[n % 2], 0, 0);
        if (p->status != LS_OK) {
            break;
        }
        for (int i = 0; i < SHARE; i++) {
            p->share[n % 2][i] = n * SHARE + i;
        }
        b->host_flag_set(p->device, &p->full[n % 2], 1);
    }
    return NULL;
}

/* A helper thread fills two shares in turn, a stream empties them. */
static void flags_hand_shares_to_a_stream(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "copy");
    int32_t(*received)[SHARE] = test_memory(device, ROUNDS * sizeof *received);
    producer *p = test_memory(device, sizeof *p);
    pthread_t thread;

    (void)state;
    p->device = device;
    CHECK_OK(lsi_thread_start(&thread, "producer", produce, p));
    for (int n = 0; n < ROUNDS; n++) {
        CHECK_OK(b->flag_wait(stream, &p->full[n % 2], 1));
        CHECK_OK(b->copy(stream, received[n], p->share[n % 2], sizeof received[n]));
        CHECK_OK(b->flag_set(stream, &p->full[n % 2], 0));
    }
    CHECK_OK(b->stream_sync(stream));
    pthread_join(thread, NULL);
    assert_int_equal(p->status, LS_OK);
    for (int n = 0; n < ROUNDS; n++) {
        for (int i = 0; i < SHARE; i++) {
            assert_int_equal(received[n][i], n * SHARE + i);
        }
    }
    b->stream_destroy(stream);
    test_device_close(device);
}

static void *open_later(void *argument)
{
    producer *p = argument;

    usleep(50000);
    b->host_flag_set(p->device, &p->full[0], 1);
    return NULL;
}

/* More work than the queue holds, behind a wait: the host sleeps until another thread opens the gate. */
static void host_sleeps_while_the_queue_is_full(void **state)
{
    ls_device *device = test_device_open(1);
    int64_t *list = test_memory(device, (LIST_MAX + 1) * sizeof *list);
    ls_stream *stream = test_stream(device, "a");
    producer *gate = test_memory(device, sizeof *gate);
    pthread_t thread;

    (void)state;
    gate->device = device;
    CHECK_OK(lsi_thread_start(&thread, "opener", open_later, gate));
    CHECK_OK(b->flag_wait(stream, &gate->full[0], 1));
    for (int64_t i = 0; i < LIST_MAX; i++) {
        CHECK_OK(ls_op_launch(stream, &op_append, &(append_args){list_view(list, LIST_MAX + 1), i}));
    }
    CHECK_OK(b->stream_sync(stream));
    pthread_join(thread, NULL);
    assert_int_equal(list[0], LIST_MAX);
    b->stream_destroy(stream);
    test_device_close(device);
}

static void host_waits_time_out_and_see_changes(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a");
    ls_flag *flag = test_memory(device, sizeof *flag);
    uint32_t seen = 0;

    (void)state;
    CHECK_OK(b->host_flag_wait(device, flag, 0, 0));
    CHECK_FAILS(b->host_flag_wait(device, flag, 1, 0.02), LS_ERR_TIMEOUT, "did not become 1 within 0.02 s");
    CHECK_FAILS(b->host_flag_wait_change(device, flag, 0, 0.02, &seen), LS_ERR_TIMEOUT, "other than 0");
    CHECK_OK(b->flag_set(stream, flag, 7));
    CHECK_OK(b->host_flag_wait_change(device, flag, 0, 10, &seen));
    assert_int_equal(seen, 7);
    CHECK_OK(b->host_flag_wait(device, flag, 7, 10));
    b->stream_destroy(stream);
    test_device_close(device);
}

/* ---- copies, fills, stamps ----------------------------------------------------------------------------------- */

static void copies_and_fills(void **state)
{
    enum { N = 1000 };
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a");
    unsigned char *from = test_memory(device, N), *to = test_memory(device, N + 2);

    (void)state;
    for (size_t i = 0; i < N; i++) {
        from[i] = (unsigned char)(i * 7);
    }
    CHECK_OK(b->fill(stream, to, 0x1ff, N + 2));        /* the low byte counts */
    CHECK_OK(b->copy(stream, to + 1, from, N));
    CHECK_OK(b->copy(stream, NULL, NULL, 0));
    CHECK_OK(b->fill(stream, NULL, 0, 0));
    CHECK_OK(b->stream_sync(stream));
    assert_int_equal(to[0], 0xff);
    assert_memory_equal(to + 1, from, N);
    assert_int_equal(to[1001], 0xff);
    b->stream_destroy(stream);
    test_device_close(device);
}

/* Every stamp counts at the least, of several streams, run or replayed; and nothing before it is done. */
static void work_is_counted_as_it_is_done(void **state)
{
    ls_device *device = test_device_open(1);
    ls_stream *stream[2] = {test_stream(device, "a"), test_stream(device, "b")};
    ls_flag *flag;
    void *memory;

    (void)state;
    CHECK_OK(b->alloc(device, LS_MEM_PINNED, sizeof *flag, &memory));
    flag = memory;
    b->host_flag_set(device, flag, 0);
    uint64_t before = b->work_count(device);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(b->flag_wait(stream[i], flag, 1));
        CHECK_OK(b->stamp(stream[i], 5));
    }
    assert_int_equal(b->work_count(device), before);
    b->host_flag_set(device, flag, 1);
    CHECK_OK(b->stream_sync(stream[0]));
    CHECK_OK(b->stream_sync(stream[1]));
    assert_true(b->work_count(device) >= before + 2);
    for (int i = 0; i < 2; i++) {
        b->stream_destroy(stream[i]);
    }
    b->release(device, LS_MEM_PINNED, sizeof *flag, memory);
    test_device_close(device);
}

static void stamps_count_from_one_and_wrap(void **state)
{
    enum { N = LS_STAMP_RING + 100 };
    ls_device *device = test_device_open(1);
    ls_stream *stream = test_stream(device, "a");
    const ls_stamp *ring = b->stamps(device);
    uint64_t before = 0;

    (void)state;
    assert_int_equal(b->stamp_count(device), 0);
    for (uint32_t i = 1; i <= N; i++) {
        CHECK_OK(b->stamp(stream, i * 10));
    }
    CHECK_OK(b->stream_sync(stream));
    assert_int_equal(b->stamp_count(device), N);
    for (uint64_t sequence = N - LS_STAMP_RING + 1; sequence <= N; sequence++) {
        ls_stamp stamp = ring[sequence % LS_STAMP_RING];

        assert_int_equal(stamp.sequence, sequence);
        assert_int_equal(stamp.id, sequence * 10);
        assert_true(stamp.nanoseconds >= before);
        before = stamp.nanoseconds;
    }
    b->stream_destroy(stream);
    test_device_close(device);
    test_check_no_memory_live();
}

/* ---- several streams use the compute threads at once --------------------------------------------------------- */

typedef struct blocks_args {
    ls_view y;          /* [64] f64 */
    int64_t seed;
} blocks_args;

static void harmonic_block(void *argument, int64_t block)
{
    const blocks_args *a = argument;
    double sum = 0;

    for (int i = 1; i <= 100; i++) {
        sum += 1.0 / (double)(a->seed + block * 100 + i);
    }
    ((double *)a->y.data)[block] = sum;
}

static ls_status harmonic(const ls_cpu_run *run, const void *arguments)
{
    blocks_args a = *(const blocks_args *)arguments;

    ls_parallel_for(run, a.y.count, harmonic_block, &a);
    return LS_OK;
}

TEST_OP_ON_CUDA(harmonic, sizeof(blocks_args))
static const ls_op op_harmonic = {.struct_size = sizeof(ls_op), .name = "harmonic", .n_out = 1,
                                  .cpu = harmonic, .cuda = harmonic_on_cuda,
                                  .arguments_bytes = sizeof(blocks_args)};

static void same_bits_for_any_number_of_threads(void **state)
{
    enum { STREAMS = 3, REPEATS = 30 };
    static double first[STREAMS][64], y[STREAMS][64];

    (void)state;
    SKIP_UNLESS_CPU(b);
    for (int threads = 1; threads <= 4; threads++) {
        ls_device *device = test_device_open(threads);
        ls_stream *stream[STREAMS];

        for (int s = 0; s < STREAMS; s++) {
            CHECK_OK(b->stream_create(device, "s", s, &stream[s]));
        }
        for (int i = 0; i < REPEATS; i++) {
            for (int s = 0; s < STREAMS; s++) {
                CHECK_OK(ls_op_launch(stream[s], &op_harmonic, &(blocks_args){ls_view_make(y[s], 64, LS_F64), 7 * s}));
            }
        }
        for (int s = 0; s < STREAMS; s++) {
            b->stream_destroy(stream[s]);
        }
        if (threads == 1) {
            memcpy(first, y, sizeof y);
        }
        assert_memory_equal(first, y, sizeof y);
        test_device_close(device);
    }
    test_check_no_memory_live();
}

int main(void)
{
    b = test_backend();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_runs_in_order_through_a_wrapping_ring),
        cmocka_unit_test(destroy_runs_what_is_queued),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(event_wait_means_the_last_record_before_it),
        cmocka_unit_test(flags_hand_shares_to_a_stream),
        cmocka_unit_test(host_sleeps_while_the_queue_is_full),
        cmocka_unit_test(host_waits_time_out_and_see_changes),
        cmocka_unit_test(copies_and_fills),
        cmocka_unit_test(work_is_counted_as_it_is_done),
        cmocka_unit_test(stamps_count_from_one_and_wrap),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
