/* RUN: timeout=60 */
/* Stamps to times: random steps over three streams, whose times are known because they were made up; through the ring
 * as it wraps, with stamps that come late, with two steps in flight, with stamps that are lost; and the spans of all
 * that. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "job/job.h"
#include "metrics/span.h"
#include "metrics/timeline.h"
#include "support/stamp_device.h"

enum { MAX_STEPS = 300, MAX_EVENTS = 64 * MAX_STEPS, MAX_SLOTS = 4, MAX_BUCKETS = 3, MAX_PENDING = 12 };

typedef struct event {
    uint64_t ns;
    uint32_t id;
    int order;          /* as made: breaks ties */
    bool copy;          /* on the copy stream */
} event;

/* What the steps below are made of, and what is expected of them, in nanoseconds. */
typedef struct expected {
    uint64_t step, data_wait, compute, comm, exposed;
} expected;

static lsi_memory_account account;

static struct {
    event events[MAX_EVENTS];
    int n_events;
    int commit[MAX_STEPS];          /* index of its event, once sorted */
    expected steps[MAX_STEPS];
    lsi_trace_span spans[MAX_EVENTS];
    int n_spans;
    uint64_t now;
    uint32_t random;
} plan;

static uint32_t draw(uint32_t below)
{
    plan.random = plan.random * 1664525u + 1013904223u;
    return (plan.random >> 8) % below;
}

static void add(int64_t step, lsi_point point, int64_t index, uint64_t ns)
{
    bool copy = point == LSI_POINT_COPY_BEGIN || point == LSI_POINT_COPY_END;

    assert_true(plan.n_events < MAX_EVENTS);
    plan.events[plan.n_events] = (event){ns, lsi_timeline_id(step, point, index), plan.n_events, copy};
    plan.n_events++;
}

/* A pair of stamps; returns how long it took. */
static uint64_t add_pair(int64_t step, lsi_point begin, lsi_point end, int64_t index, uint64_t from, uint64_t to)
{
    add(step, begin, index, from);
    add(step, end, index, to);
    return to - from;
}

static void expect_span(int64_t step, lsi_span_kind kind, int64_t index, uint64_t begin, uint64_t end)
{
    plan.spans[plan.n_spans++] =
        (lsi_trace_span){.begin = begin, .end = end, .step = step, .index = (uint32_t)index, .kind = kind};
}

static uint64_t later(uint32_t by)
{
    plan.now += 1 + draw(by);
    return plan.now;
}

/* Gathers on comm from the beginning of the step; compute waits for each somewhere in the first slot. */
static uint64_t make_gathers(int64_t step, int n_buckets, uint64_t *end, expected *e)
{
    uint64_t at = plan.now;

    for (int b = 0; b < n_buckets; b++) {
        uint64_t begin = at + 1 + draw(50);

        end[b] = begin + 1 + draw(400);
        at = end[b];
        e->comm += add_pair(step, LSI_POINT_GATHER_BEGIN, LSI_POINT_GATHER_END, b, begin, end[b]);
        expect_span(step, LSI_SPAN_GATHER, b, begin, end[b]);
    }
    return at;
}

static void make_slot(int64_t step, int64_t slot, int n_gathered, const uint64_t *gathered, expected *e)
{
    uint64_t begin, forward;

    if (slot == 0) {
        uint64_t from = later(20), copied = from + draw(5) + 1, here = copied + 1 + draw(300);

        expect_span(step, LSI_SPAN_COPY, slot, copied, here);
        add_pair(step, LSI_POINT_COPY_BEGIN, LSI_POINT_COPY_END, slot, copied, here);
        plan.now = here + 1;
        e->data_wait += add_pair(step, LSI_POINT_DATA_WAIT, LSI_POINT_DATA_HERE, 0, from, plan.now);
        expect_span(step, LSI_SPAN_DATA_WAIT, 0, from, plan.now);
    }
    begin = later(5);
    add(step, LSI_POINT_SLOT_BEGIN, slot, begin);
    for (int b = 0; slot == 0 && b < n_gathered; b++) {
        uint64_t from = later(100), to = (from > gathered[b] ? from : gathered[b]) + 1;

        e->exposed += add_pair(step, LSI_POINT_GATHER_WAIT_BEGIN, LSI_POINT_GATHER_WAIT_END, b, from, to);
        expect_span(step, LSI_SPAN_GATHER_WAIT, b, from, to);
        plan.now = to;
    }
    forward = later(500);
    add(step, LSI_POINT_FORWARD_END, slot, forward);
    expect_span(step, LSI_SPAN_FORWARD, slot, begin, forward);
    add(step, LSI_POINT_SLOT_END, slot, later(1000));
    expect_span(step, LSI_SPAN_BACKWARD, slot, forward, plan.now);
}

/* Reductions that may begin during the backward, then the exchange. Returns when all has arrived. */
static uint64_t make_reductions(int64_t step, int n_buckets, uint64_t comm_free, expected *e)
{
    uint64_t at = comm_free;

    for (int b = n_buckets - 1; b >= 0; b--) {
        uint64_t begin = at + 1 + draw(300), end = begin + 1 + draw(600);

        e->comm += add_pair(step, LSI_POINT_REDUCE_BEGIN, LSI_POINT_REDUCE_END, b, begin, end);
        expect_span(step, LSI_SPAN_REDUCE, b, begin, end);
        at = end;
    }
    at = (at > plan.now ? at : plan.now) + 1;
    uint64_t end = at + 1 + draw(50);
    e->comm += add_pair(step, LSI_POINT_EXCHANGE_BEGIN, LSI_POINT_EXCHANGE_END, 0, at, end);
    expect_span(step, LSI_SPAN_EXCHANGE, 0, at, end);
    return end + 1;
}

/* The step `e`; the update belongs to the step after it. */
static void make_step(int64_t step, uint64_t last_commit, uint64_t last_update, expected *e, uint64_t *update)
{
    int n_slots = 1 + (int)draw(MAX_SLOTS), n_buckets = 1 + (int)draw(MAX_BUCKETS);
    int n_gathered = (int)draw((uint32_t)n_buckets + 1);
    uint64_t gathered[MAX_BUCKETS], begin = later(30);

    memset(e, 0, sizeof *e);
    add(step, LSI_POINT_BEGIN, 0, begin);
    uint64_t comm_free = make_gathers(step, n_gathered, gathered, e);
    for (int64_t j = 0; j < n_slots; j++) {
        make_slot(step, j, n_gathered, gathered, e);
    }
    uint64_t backward = later(3);
    add(step, LSI_POINT_BACKWARD_END, 0, backward);
    e->compute = backward - begin - e->data_wait - e->exposed + last_update;
    plan.now = make_reductions(step, n_buckets, comm_free, e);
    e->exposed += plan.now - backward;
    add(step, LSI_POINT_ARRIVED, 0, plan.now);
    expect_span(step, LSI_SPAN_GRADIENT_WAIT, 0, backward, plan.now);
    uint64_t arrived = plan.now, commit = later(40), end = later(200);
    add(step, LSI_POINT_COMMIT, 0, commit);
    add(step, LSI_POINT_END, 0, end);
    expect_span(step, LSI_SPAN_COMMIT, 0, arrived, commit);
    expect_span(step, LSI_SPAN_UPDATE, 0, commit, end);
    expect_span(step, LSI_SPAN_STEP, 0, begin, end);
    e->step = last_commit != 0 ? commit - last_commit : last_update + commit - begin;
    *update = end - commit;
}

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;

    return x->ns != y->ns ? (x->ns < y->ns ? -1 : 1) : x->order - y->order;
}

/* `pause_every`: 0, or after so many steps training stands still for long. */
static void make_plan(uint32_t seed, int n_steps, int pause_every)
{
    uint64_t commit = 0, update = 0;

    memset(&plan, 0, sizeof plan);
    plan.random = seed;
    plan.now = 1000;
    for (int t = 0; t < n_steps; t++) {
        make_step(t, commit, update, &plan.steps[t], &update);
        commit = plan.now - update;
        if (pause_every > 0 && (t + 1) % pause_every == 0) {
            plan.now += 1000000;
            commit = 0;
        }
    }
    qsort(plan.events, (size_t)plan.n_events, sizeof *plan.events, by_time);
    int t = 0;
    for (int i = 0; i < plan.n_events; i++) {
        if (t < n_steps && plan.events[i].id == lsi_timeline_id(t, LSI_POINT_COMMIT, 0)) {
            plan.commit[t++] = i;
        }
    }
    assert_int_equal(t, n_steps);
}

static void check_times(const lsi_step_times *got, const expected *e, int step)
{
    const struct {
        const char *name;
        double got;
        uint64_t expected;
    } rows[] = {
        {"step", got->step, e->step},          {"data_wait", got->data_wait, e->data_wait},
        {"compute", got->compute, e->compute}, {"comm", got->comm, e->comm},
        {"comm_exposed", got->comm_exposed, e->exposed},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fabs(rows[i].got * 1e9 - (double)rows[i].expected) > 1e-3) {
            fail_msg("step %d: %s is %.3f ns, expected %llu", step, rows[i].name, rows[i].got * 1e9,
                     (unsigned long long)rows[i].expected);
        }
    }
    assert_true(got->step > got->compute + got->data_wait + got->comm_exposed - 1e-12);
}

/* ---- the ring, with a copy stream whose writes may lag behind what it counted ------------------------------------ */

static stamp_device device;
static struct {
    uint64_t sequence[MAX_PENDING];
    const event *event[MAX_PENDING];
    int n;
    bool lags;
} pending;

static void write_pending(void)
{
    for (int i = 0; i < pending.n; i++) {
        stamp_device_write(&device, pending.sequence[i], pending.event[i]->id, pending.event[i]->ns);
    }
    pending.n = 0;
}

/* While the ring is read: sometimes right behind the reader's back, so that it finds a stamp's successor but not it. */
static void write_pending_sometimes(void)
{
    if (draw(20) == 0) {
        write_pending();
    }
}

static void feed(const event *e)
{
    uint64_t sequence = stamp_device_count(&device);

    if (e->copy && pending.lags && pending.n < MAX_PENDING) {
        pending.sequence[pending.n] = sequence;
        pending.event[pending.n++] = e;
        return;
    }
    if (e->copy) {
        write_pending();
    }
    stamp_device_write(&device, sequence, e->id, e->ns);
}

static lsi_job one = {.rank = 0, .world = 1, .n_local = 1, .n_nodes = 1, .host = "host"};

static lsi_trace *open_trace(void)
{
    lsi_trace_options options = {.job = &one, .device = &device.head, .account = &account, .max_spans = MAX_EVENTS};
    static char path[512];
    lsi_trace *trace;

    snprintf(path, sizeof path, "%s/trace.json", test_folder_make());
    options.path = path;
    CHECK_OK(lsi_trace_open(&options, &trace));
    return trace;
}

static int by_span(const void *a, const void *b)
{
    const lsi_trace_span *x = a, *y = b;

    return x->kind != y->kind ? (int)x->kind - (int)y->kind : (x->begin > y->begin) - (x->begin < y->begin);
}

static void check_spans(lsi_trace *trace)
{
    assert_int_equal(trace->n_made, plan.n_spans);
    qsort(trace->ring, (size_t)plan.n_spans, sizeof *plan.spans, by_span);
    qsort(plan.spans, (size_t)plan.n_spans, sizeof *plan.spans, by_span);
    assert_memory_equal(trace->ring, plan.spans, (size_t)plan.n_spans * sizeof *plan.spans);
}

/* in_flight 2: up to the next step's commit may have been stamped when a step is read. */
static void run(uint32_t seed, int n_steps, int in_flight, int pause_every, bool lags)
{
    lsi_timeline timeline;
    int fed = 0;

    make_plan(seed, n_steps, pause_every);
    stamp_device_open(&device);
    memset(&pending, 0, sizeof pending);
    device.on_count = lags ? write_pending_sometimes : NULL;
    lsi_trace *trace = open_trace();
    lsi_timeline_open(&timeline, &device.head);
    for (int t = 0; t < n_steps; t++) {
        bool pauses = t + 1 == n_steps || (pause_every > 0 && (t + 1) % pause_every == 0);
        int end = t + 1 < n_steps ? plan.commit[t + 1] : plan.n_events, until = plan.commit[t] + 1;
        lsi_step_times times;

        pending.lags = lags && draw(2) == 0;
        if (in_flight == 2 && !pauses) {
            until += (int)draw((uint32_t)(end - until));
        }
        while (fed < until) {
            feed(&plan.events[fed++]);
        }
        lsi_timeline_read(&timeline, t, &times, trace);
        check_times(&times, &plan.steps[t], t);
        write_pending();
        if (pauses) {
            while (fed < end && (plan.events[fed].id >> 8 & 1) == (uint32_t)(t & 1)) {
                feed(&plan.events[fed++]);
            }
            write_pending();
            lsi_timeline_pause(&timeline, t, trace);
        }
    }
    assert_int_equal(timeline.n_lost, 0);
    assert_int_equal(timeline.n_late, 0);
    check_spans(trace);
    lsi_trace_close(&trace);
    test_folder_remove();
    test_check_no_memory_live();
}

static void times_are_those_of_the_steps(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        run(seed, 1 + (int)seed * 7, 1 + (int)(seed & 1), seed % 3 == 0 ? 5 : 0, false);
    }
}

static void late_stamps_are_taken_when_they_come(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        run(1000 + seed, 1 + (int)seed * 7, 1 + (int)(seed & 1), seed % 3 == 0 ? 5 : 0, true);
    }
}

/* More stamps between two readings than the ring holds: zeros and a count of what is lost, never times made of stamps
 * of different steps; and right times again once the ring is read in time. */
static void what_the_ring_lost_is_zero(void **state)
{
    (void)state;
    for (int kept = 0; kept < 60; kept++) {
        lsi_timeline timeline;
        lsi_step_times times;
        int t = 6, read = 0;

        make_plan(77 + (uint32_t)kept, 10, 0);
        int fed = plan.commit[t] + 1;
        stamp_device_open(&device);
        lsi_timeline_open(&timeline, &device.head);
        for (int i = 0; i < fed; i++) {
            stamp_device_put(&device, plan.events[i].id, plan.events[i].ns);
            if (read < t && i == plan.commit[read]) {
                lsi_timeline_read(&timeline, read++, &times, NULL);
            }
            /* All but the last `kept` stamps are overwritten by such as have no meaning. */
            if (fed - 1 - i == kept) {
                for (int k = 0; k < LS_STAMP_RING; k++) {
                    stamp_device_put(&device, lsi_timeline_id(t, LSI_POINT_CLOCK, 0), 1);
                }
            }
        }
        lsi_timeline_read(&timeline, t, &times, NULL);
        assert_true(timeline.n_lost > 0);
        assert_true(times.step == 0 || fabs(times.step * 1e9 - (double)plan.steps[t].step) < 1e-3);
        assert_true(times.data_wait <= (double)plan.steps[t].data_wait * 1e-9 + 1e-12);
        assert_true(times.comm <= (double)plan.steps[t].comm * 1e-9 + 1e-12);
        assert_true(times.comm_exposed <= (double)plan.steps[t].exposed * 1e-9 + 1e-12);
        assert_true(times.compute <= (double)(plan.steps[t].compute) * 1e-9 + 1e-12);
        if (kept == 0) {        /* the commit, too: the next step has no beginning either */
            assert_true(times.step == 0 && times.compute == 0 && times.comm == 0 && times.comm_exposed == 0);
            continue;
        }
        for (t++; t < 10; t++) {
            for (; fed <= plan.commit[t]; fed++) {
                stamp_device_put(&device, plan.events[fed].id, plan.events[fed].ns);
            }
            lsi_timeline_read(&timeline, t, &times, NULL);
            check_times(&times, &plan.steps[t], t);
        }
    }
}

/* Not stamped by a step that has no need of it. */
static void without_arrival_the_commit_counts_as_waiting(void **state)
{
    lsi_timeline timeline;
    lsi_step_times times;

    (void)state;
    stamp_device_open(&device);
    lsi_timeline_open(&timeline, &device.head);
    stamp_device_put(&device, lsi_timeline_id(0, LSI_POINT_BEGIN, 0), 100);
    stamp_device_put(&device, lsi_timeline_id(0, LSI_POINT_BACKWARD_END, 0), 300);
    stamp_device_put(&device, lsi_timeline_id(0, LSI_POINT_COMMIT, 0), 350);
    lsi_timeline_read(&timeline, 0, &times, NULL);
    assert_true(fabs(times.comm_exposed - 50e-9) < 1e-15 && fabs(times.step - 250e-9) < 1e-15);
    assert_true(fabs(times.compute - 200e-9) < 1e-15 && times.data_wait == 0 && times.comm == 0);
}

static void ids_are_taken_apart_as_they_were_put_together(void **state)
{
    (void)state;
    for (int point = 0; point < LSI_POINT_COUNT; point++) {
        for (int64_t index = 0; index < 200000; index += 13) {
            uint32_t id = lsi_timeline_id(index, (lsi_point)point, index);

            assert_int_equal(lsi_timeline_point_of(id), point);
            assert_int_equal(id >> 8 & 0xff, index & 1);
            assert_int_equal(lsi_timeline_index_of(id), index < LSI_POINT_MAX_INDEX ? index : LSI_POINT_MAX_INDEX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_the_steps),
        cmocka_unit_test(late_stamps_are_taken_when_they_come),
        cmocka_unit_test(what_the_ring_lost_is_zero),
        cmocka_unit_test(without_arrival_the_commit_counts_as_waiting),
        cmocka_unit_test(ids_are_taken_apart_as_they_were_put_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
