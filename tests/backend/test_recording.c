/* RUN: cuda label=contract,tsan timeout=60 */
#include "support/backend_case.h"

#include <string.h>

static const ls_backend *b;

/* y += x + 1: not commutative with a copy, so that a missing or doubled run shows. */
typedef struct step_args {
    ls_view x, y;
} step_args;

static ls_status add_next(const ls_cpu_run *run, const void *arguments)
{
    const step_args *a = arguments;

    (void)run;
    for (int64_t i = 0; i < a->x.count; i++) {
        ((uint32_t *)a->y.data)[i] += ((const uint32_t *)a->x.data)[i] + 1;     /* wraps around */
    }
    return LS_OK;
}

TEST_OP_ON_CUDA(add_next, sizeof(step_args))
static const ls_op op_add_next = {.struct_size = sizeof(ls_op), .name = "add_next", .n_in = 1, .n_acc = 1,
                                  .cpu = add_next, .cuda = add_next_on_cuda, .arguments_bytes = sizeof(step_args)};

enum { N = 64 };

typedef struct bench {
    ls_device *device;
    ls_stream *origin, *side, *third;
    ls_event *fork, *join, *other;
} bench;

static int set_up(void **state)
{
    static bench t;

    t.device = test_device_open(2);
    t.origin = test_stream(t.device, "origin");
    t.side = test_stream(t.device, "side");
    t.third = test_stream(t.device, "third");
    t.fork = test_event(t.device);
    t.join = test_event(t.device);
    t.other = test_event(t.device);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    bench *t = *state;

    b->stream_destroy(t->origin);
    b->stream_destroy(t->side);
    b->stream_destroy(t->third);
    b->event_destroy(t->fork);
    b->event_destroy(t->join);
    b->event_destroy(t->other);
    test_device_close(t->device);
    test_check_no_memory_live();
    return 0;
}

/* ---- the same work, captured or not -------------------------------------------------------------------------- */

typedef struct data {
    uint32_t a[N], c[N], d[N], first[N];
    ls_flag flag;
} data;

/* Uses every call that may be captured; `repeats` makes the lanes long. */
static void queue_work(bench *t, data *w, int repeats)
{
    ls_view a = ls_view_make(w->a, N, LS_I32), c = ls_view_make(w->c, N, LS_I32), d = ls_view_make(w->d, N, LS_I32);

    CHECK_OK(b->stamp(t->origin, 1));
    CHECK_OK(b->event_record(t->fork, t->origin));
    CHECK_OK(b->event_wait(t->side, t->fork));
    CHECK_OK(b->copy(t->side, w->first, w->a, sizeof w->a));
    CHECK_OK(b->fill(t->side, w->d, 0, sizeof w->d));
    CHECK_OK(b->flag_set(t->side, &w->flag, 1));
    for (int i = 0; i < repeats; i++) {
        CHECK_OK(ls_op_launch(t->side, &op_add_next, &(step_args){a, c}));
        CHECK_OK(b->event_record(t->join, t->side));
        CHECK_OK(b->event_wait(t->origin, t->join));
        CHECK_OK(ls_op_launch(t->origin, &op_add_next, &(step_args){c, a}));
        CHECK_OK(b->event_record(t->fork, t->origin));
        CHECK_OK(b->event_wait(t->side, t->fork));
    }
    CHECK_OK(ls_op_launch(t->side, &op_add_next, &(step_args){a, d}));
    CHECK_OK(b->event_record(t->join, t->side));
    CHECK_OK(b->flag_wait(t->origin, &w->flag, 1));
    CHECK_OK(b->flag_set(t->origin, &w->flag, 0));
    CHECK_OK(b->event_wait(t->origin, t->join));
    CHECK_OK(b->stamp(t->origin, 2));
}

static data *start(bench *t)
{
    data *w = test_memory(t->device, sizeof *w);

    for (int i = 0; i < N; i++) {
        w->a[i] = (uint32_t)i;
    }
    return w;
}

static void replays_do_what_the_calls_do(void **state)
{
    enum { STEPS = 20 };
    bench *t = *state;
    data *eager = start(t), *replayed = start(t);
    ls_recording *recording = NULL;

    for (int step = 0; step < STEPS; step++) {
        queue_work(t, eager, 2);
    }
    CHECK_OK(b->stream_sync(t->origin));
    assert_int_equal(b->stamp_count(t->device), 2 * STEPS);

    CHECK_OK(b->capture_begin(t->origin));
    queue_work(t, replayed, 2);
    CHECK_OK(b->capture_end(t->origin, &recording));
    assert_int_equal(replayed->a[1], 1);             /* nothing has run */
    assert_int_equal(b->stamp_count(t->device), 2 * STEPS);
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(b->replay(recording));
    }
    CHECK_OK(b->stream_sync(t->origin));
    assert_memory_equal(eager, replayed, sizeof *eager);
    assert_int_equal(b->stamp_count(t->device), 4 * STEPS);

    queue_work(t, eager, 2);                       /* and the streams are as before */
    CHECK_OK(b->replay(recording));
    CHECK_OK(b->stream_sync(t->origin));
    assert_memory_equal(eager, replayed, sizeof *eager);
    b->recording_destroy(recording);
    b->recording_destroy(NULL);
}

/* One recording per parity of the step, replayed in turn. */
static void two_recordings_take_turns(void **state)
{
    enum { STEPS = 30 };
    bench *t = *state;
    data *eager = start(t), *replayed = start(t);
    ls_recording *recording[2];

    for (int parity = 0; parity < 2; parity++) {
        CHECK_OK(b->capture_begin(t->origin));
        queue_work(t, replayed, 1 + parity);
        CHECK_OK(b->capture_end(t->origin, &recording[parity]));
    }
    for (int step = 0; step < STEPS; step++) {
        queue_work(t, eager, 1 + step % 2);
        CHECK_OK(b->stream_sync(t->origin));
        CHECK_OK(b->replay(recording[step % 2]));
    }
    CHECK_OK(b->stream_sync(t->origin));
    assert_memory_equal(eager, replayed, sizeof *eager);
    b->recording_destroy(recording[0]);
    b->recording_destroy(recording[1]);
}

/* Lanes and edges that outgrow what they start with. */
static void long_recordings(void **state)
{
    bench *t = *state;
    data *eager = start(t), *replayed = start(t);
    ls_recording *recording = NULL;

    queue_work(t, eager, 2000);
    CHECK_OK(b->capture_begin(t->origin));
    queue_work(t, replayed, 2000);
    CHECK_OK(b->capture_end(t->origin, &recording));
    CHECK_OK(b->replay(recording));
    CHECK_OK(b->stream_sync(t->origin));
    assert_memory_equal(eager, replayed, sizeof *eager);
    b->recording_destroy(recording);
}

static void empty_recording(void **state)
{
    bench *t = *state;
    ls_recording *recording = NULL;

    CHECK_OK(b->capture_begin(t->origin));
    CHECK_OK(b->capture_end(t->origin, &recording));
    CHECK_OK(b->replay(recording));
    CHECK_OK(b->stream_sync(t->origin));
    b->recording_destroy(recording);
}

/* ---- a step is closed ---------------------------------------------------------------------------------------- */

/* After a broken rule the capture cannot be used, and everything works again once it has ended. */
static void ends_broken(bench *t)
{
    ls_recording *recording = NULL;

    CHECK_FAILS(b->capture_end(t->origin, &recording), LS_ERR_INTERNAL, "a call inside it failed");
    assert_null(recording);
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_OK(b->capture_end(t->origin, &recording));
    b->recording_destroy(recording);
    CHECK_OK(b->stream_sync(t->side));
}

static void streams_outside_are_refused(void **state)
{
    bench *t = *state;
    unsigned char *byte = test_memory(t->device, 1);

    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->fill(t->side, byte, 0, 1), LS_ERR_INTERNAL, "work for stream side while a capture is open");
    ends_broken(t);
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->event_record(t->fork, t->side), LS_ERR_INTERNAL, "stream side");
    ends_broken(t);
}

static void events_from_outside_are_refused(void **state)
{
    bench *t = *state;
    ls_recording *recording = NULL;

    CHECK_OK(b->event_record(t->fork, t->side));
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->event_wait(t->origin, t->fork), LS_ERR_INTERNAL, "stream origin waits inside a capture");
    ends_broken(t);
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->event_wait(t->origin, t->other), LS_ERR_INTERNAL, "recorded outside");
    ends_broken(t);

    /* of an earlier capture, and after it */
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_OK(b->event_record(t->fork, t->origin));
    CHECK_OK(b->capture_end(t->origin, &recording));
    CHECK_FAILS(b->event_wait(t->side, t->fork), LS_ERR_INTERNAL, "recorded inside a capture");
    CHECK_FAILS(b->event_sync(t->fork), LS_ERR_INTERNAL, "recorded inside a capture");
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->event_wait(t->side, t->fork), LS_ERR_INTERNAL, "recorded outside");
    ends_broken(t);
    b->recording_destroy(recording);
    CHECK_OK(b->event_record(t->fork, t->side));
    CHECK_OK(b->event_sync(t->fork));
}

static void host_waits_inside_are_refused(void **state)
{
    bench *t = *state;

    CHECK_OK(b->event_record(t->fork, t->origin));
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->stream_sync(t->origin), LS_ERR_INTERNAL, "inside a capture");
    ends_broken(t);
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->event_sync(t->fork), LS_ERR_INTERNAL, "inside a capture");
    ends_broken(t);
}

static void streams_must_join_at_the_end(void **state)
{
    bench *t = *state;
    ls_recording *recording = NULL;
    unsigned char *byte = test_memory(t->device, 1);

    CHECK_OK(b->capture_begin(t->origin));
    CHECK_OK(b->event_record(t->fork, t->origin));
    CHECK_OK(b->event_wait(t->side, t->fork));
    CHECK_OK(b->event_record(t->join, t->side));
    CHECK_FAILS(b->capture_end(t->origin, &recording), LS_ERR_INTERNAL, "stream side does not end the capture");

    CHECK_OK(b->capture_begin(t->origin));
    CHECK_OK(b->event_record(t->fork, t->origin));
    CHECK_OK(b->event_wait(t->side, t->fork));
    CHECK_OK(b->event_record(t->join, t->side));
    CHECK_OK(b->event_wait(t->origin, t->join));
    CHECK_OK(b->fill(t->side, byte, 0, 1));
    CHECK_FAILS(b->capture_end(t->origin, &recording), LS_ERR_INTERNAL, "stream side does not end the capture");

    /* joining through a third stream is fine */
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_OK(b->event_record(t->fork, t->origin));
    CHECK_OK(b->event_wait(t->side, t->fork));
    CHECK_OK(b->event_record(t->join, t->side));
    CHECK_OK(b->event_wait(t->third, t->join));
    CHECK_OK(b->event_record(t->other, t->third));
    CHECK_OK(b->event_wait(t->origin, t->other));
    CHECK_OK(b->capture_end(t->origin, &recording));
    CHECK_OK(b->replay(recording));
    CHECK_OK(b->stream_sync(t->origin));
    b->recording_destroy(recording);
}

static void captures_do_not_nest(void **state)
{
    bench *t = *state;
    ls_recording *recording = NULL, *inner = NULL;

    CHECK_FAILS(b->capture_end(t->origin, &recording), LS_ERR_INTERNAL, "ends a capture that it did not begin");
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->capture_begin(t->side), LS_ERR_INTERNAL, "stream side: a capture is already open");
    CHECK_FAILS(b->capture_end(t->side, &inner), LS_ERR_INTERNAL, "stream side ends a capture");
    CHECK_OK(b->capture_end(t->origin, &recording));
    CHECK_OK(b->capture_begin(t->origin));
    CHECK_FAILS(b->replay(recording), LS_ERR_INTERNAL, "a replay inside a capture");
    ends_broken(t);
    b->recording_destroy(recording);
}

int main(void)
{
    b = test_backend();
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(replays_do_what_the_calls_do),
        CASE(two_recordings_take_turns),
        CASE(long_recordings),
        CASE(empty_recording),
        CASE(streams_outside_are_refused),
        CASE(events_from_outside_are_refused),
        CASE(host_waits_inside_are_refused),
        CASE(streams_must_join_at_the_end),
        CASE(captures_do_not_nest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
