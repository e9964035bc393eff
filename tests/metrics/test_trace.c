/* RUN: np=1,2,3 timeout=120 */
/* The trace file of a job whose ranks have different clocks: read back, it holds every rank's spans, on one clock,
 * under the right names; what does not fit is dropped oldest first and counted; and failures name the file. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/memory.h"
#include "job/job.h"
#include "metrics/span.h"
#include "support/stamp_device.h"

static lsi_memory_account account;

static lsi_job *job;
static stamp_device device;
static char path[512];
static size_t blocks_of_job;

static void check_memory(void)
{
    assert_int_equal(lsi_memory_live_blocks(), blocks_of_job);
}

/* The file is rank 0's. */
static void make_folder(void)
{
    if (job->rank == 0) {
        snprintf(path, sizeof path, "%s/deep/er/trace.json", test_folder_make());
    }
}

static void remove_folder(void)
{
    if (job->rank == 0) {
        test_folder_remove();
    }
    check_memory();
}

static lsi_trace *open_trace(int64_t max_spans)
{
    lsi_trace_options options = {
        .job = job, .device = &device.head, .account = &account, .path = path, .max_spans = max_spans};
    lsi_trace *trace;

    CHECK_OK(lsi_trace_open(&options, &trace));
    return trace;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static int64_t skew_of(int rank)
{
    return rank * (int64_t)-86400123456789;
}

/* Whatever the barriers do, the true offset lies within the accuracy. */
static void clocks_are_compared_within_the_accuracy(void **state)
{
    (void)state;
    for (int skewed = 0; skewed < 2; skewed++) {
        make_folder();
        stamp_device_open(&device);
        device.skew = skewed ? skew_of(job->rank) : 0;
        lsi_trace *trace = open_trace(0);
        CHECK_OK(lsi_trace_align(trace));
        int64_t wrong = trace->offset.nanoseconds - (device.skew - skew_of(0));
        assert_true(wrong <= trace->offset.accuracy && -wrong <= trace->offset.accuracy);
        assert_true(trace->offset.accuracy >= 0 && trace->offset.accuracy < 2000000000);
        if (device.skew == 0) {     /* processes of one host share a clock */
            assert_int_equal(trace->offset.nanoseconds, 0);
        }
        lsi_trace_close(&trace);
        remove_folder();
    }
}

/* The rank that cannot read its clock says so; the others go on, and nobody hangs. */
static void a_clock_that_cannot_be_read_stops_nobody_else(void **state)
{
    (void)state;
    make_folder();
    stamp_device_open(&device);
    device.has_no_streams = job->rank == job->world - 1;
    lsi_trace *trace = open_trace(0);
    ls_status status = lsi_trace_align(trace);
    if (device.has_no_streams) {
        CHECK_FAILS(status, LS_ERR_DEVICE, "no streams");
    } else {
        CHECK_OK(status);
    }
    lsi_trace_close(&trace);
    remove_folder();
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Steps [first, first + n) of this rank, on a clock that is right but for the skew: the step lasts 1000 ns, the rest is
 * placed in it so that rank, slot and bucket can be seen. */
static void stamp_steps(lsi_trace *trace, int64_t first, int64_t n)
{
    static const struct {
        lsi_point point;
        int64_t index;
        uint64_t at;
    } stamps[] = {
        {LSI_POINT_BEGIN, 0, 0},           {LSI_POINT_GATHER_BEGIN, 2, 5},      {LSI_POINT_DATA_WAIT, 0, 10},
        {LSI_POINT_COPY_BEGIN, 0, 11},     {LSI_POINT_COPY_END, 0, 19},         {LSI_POINT_DATA_HERE, 0, 20},
        {LSI_POINT_SLOT_BEGIN, 0, 21},     {LSI_POINT_GATHER_WAIT_BEGIN, 2, 25}, {LSI_POINT_GATHER_END, 2, 29},
        {LSI_POINT_GATHER_WAIT_END, 2, 30}, {LSI_POINT_FORWARD_END, 0, 100},    {LSI_POINT_SLOT_END, 0, 300},
        {LSI_POINT_SLOT_BEGIN, 70000, 301}, {LSI_POINT_FORWARD_END, 70000, 400}, {LSI_POINT_REDUCE_BEGIN, 1, 550},
        {LSI_POINT_SLOT_END, 70000, 600},  {LSI_POINT_BACKWARD_END, 0, 601},    {LSI_POINT_REDUCE_END, 1, 650},
        {LSI_POINT_EXCHANGE_BEGIN, 0, 651}, {LSI_POINT_EXCHANGE_END, 0, 699},   {LSI_POINT_ARRIVED, 0, 700},
        {LSI_POINT_COMMIT, 0, 710},        {LSI_POINT_END, 0, 900},
    };

    for (int64_t step = first; step < first + n; step++) {
        for (size_t i = 0; i < sizeof stamps / sizeof stamps[0]; i++) {
            uint64_t now = (uint64_t)1000000000000000 + (uint64_t)(step - first) * 1000 + stamps[i].at;
            ls_stamp stamp = {.nanoseconds = now + (uint64_t)device.skew + (uint64_t)job->rank * 7,
                              .id = lsi_timeline_id(step, stamps[i].point, stamps[i].index)};

            lsi_trace_stamp(trace, step, &stamp);
        }
    }
}

static const struct {
    const char *name, *counts;
    int row, index;
    double begin, end;      /* nanoseconds since the step's begin */
} expected_spans[] = {
    {"copy batch", "slot", LSI_ROW_COPY, 0, 11, 19},
    {"wait for data", NULL, LSI_ROW_WAIT, 0, 10, 20},
    {"gather", "bucket", LSI_ROW_COMM, 2, 5, 29},
    {"wait for weights", "bucket", LSI_ROW_WAIT, 2, 25, 30},
    {"forward", "slot", LSI_ROW_COMPUTE, 0, 21, 100},
    {"backward", "slot", LSI_ROW_COMPUTE, 0, 100, 300},
    {"forward", "slot", LSI_ROW_COMPUTE, LSI_POINT_MAX_INDEX, 301, 400},
    {"backward", "slot", LSI_ROW_COMPUTE, LSI_POINT_MAX_INDEX, 400, 600},
    {"reduce", "bucket", LSI_ROW_COMM, 1, 550, 650},
    {"exchange", NULL, LSI_ROW_COMM, 0, 651, 699},
    {"wait for gradients", NULL, LSI_ROW_WAIT, 0, 601, 700},
    {"commit", NULL, LSI_ROW_COMPUTE, 0, 700, 710},
    {"step", NULL, LSI_ROW_STEP, 0, 0, 900},
    {"update", NULL, LSI_ROW_COMPUTE, 0, 710, 900},
};
enum { SPANS = sizeof expected_spans / sizeof expected_spans[0] };

static json_t *load(void)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    if (root == NULL) {
        fail_msg("%s:%d: %s", path, error.line, error.text);
    }
    return root;
}

static double number(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    if (!json_is_number(value)) {
        fail_msg("no number %s", name);
    }
    return json_number_value(value);
}

static const char *text(json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    assert_non_null(value);
    return value;
}

/* Process and thread names of rank r, from event `at`; returns the event behind them. */
static size_t check_names(json_t *events, size_t at, int r)
{
    static const char *const rows[] = {"step", "compute", "copy", "comm", "compute waits"};
    char begin[32];

    snprintf(begin, sizeof begin, "rank %d ", r);
    json_t *process = json_array_get(events, at);
    assert_string_equal(text(process, "name"), "process_name");
    assert_int_equal((int)number(process, "pid"), r);
    assert_int_equal(strncmp(text(json_object_get(process, "args"), "name"), begin, strlen(begin)), 0);
    at += 2;
    for (int row = 0; row < LSI_ROW_COUNT; row++, at += 2) {
        json_t *thread = json_array_get(events, at);

        assert_string_equal(text(thread, "name"), "thread_name");
        assert_int_equal((int)number(thread, "pid"), r);
        assert_int_equal((int)number(thread, "tid"), row);
        assert_string_equal(text(json_object_get(thread, "args"), "name"), rows[row]);
    }
    return at;
}

/* Spans of rank r: number `from` of those it made, and all that followed. */
static size_t check_spans(json_t *events, size_t at, int r, int64_t first_step, int64_t from, int64_t n_made,
                          double start, double accuracy)
{
    for (int64_t k = from; k < n_made; k++, at++) {
        json_t *event = json_array_get(events, at), *args = json_object_get(event, "args");
        int64_t step = k / SPANS, kind = k % SPANS;
        double begin = (double)(step * 1000 + r * 7) + expected_spans[kind].begin - start;
        double length = expected_spans[kind].end - expected_spans[kind].begin;

        assert_string_equal(text(event, "ph"), "X");
        assert_string_equal(text(event, "name"), expected_spans[kind].name);
        assert_int_equal((int)number(event, "pid"), r);
        assert_int_equal((int)number(event, "tid"), expected_spans[kind].row);
        assert_int_equal(json_integer_value(json_object_get(args, "step")), first_step + step + 1);
        assert_int_equal(json_object_size(args), expected_spans[kind].counts != NULL ? 2 : 1);
        if (expected_spans[kind].counts != NULL) {
            assert_int_equal((int)number(args, expected_spans[kind].counts), expected_spans[kind].index);
        }
        assert_true(fabs(number(event, "dur") * 1e3 - length) < 1e-3);
        if (fabs(number(event, "ts") * 1e3 - begin) > accuracy + 1e-3) {
            fail_msg("rank %d %s: at %.3f ns, expected %.3f +- %.0f", r, expected_spans[kind].name,
                     number(event, "ts") * 1e3, begin, accuracy);
        }
    }
    return at;
}

/* `room`: spans a rank can keep. */
static void check_file(int64_t first_step, int64_t n_steps, int64_t room)
{
    json_t *root = load(), *events = json_object_get(root, "traceEvents"), *other = json_object_get(root, "otherData");
    int64_t n_made = n_steps * SPANS, from = n_made > room ? n_made - room : 0;
    double accuracy = number(other, "clock_accuracy_us") * 1e3;
    size_t at = 0;

    assert_int_equal((int)number(other, "world"), job->world);
    assert_int_equal((int)number(other, "lost_stamps"), job->world * 5);
    assert_int_equal((int)number(other, "dropped_spans"), job->world * (int)from);
    assert_true(job->world > 1 || accuracy == 0);
    /* The earliest span kept is time 0; which one that is, its rank's clock decides. */
    double start = INFINITY;
    for (int64_t k = from; k < n_made && k < from + 2 * SPANS; k++) {
        double begin = (double)(k / SPANS * 1000) + expected_spans[k % SPANS].begin;
        start = begin < start ? begin : start;
    }
    for (int r = 0; r < job->world; r++) {
        at = check_names(events, at, r);
        at = check_spans(events, at, r, first_step, from, n_made, n_made > 0 ? start : 0, 2 * accuracy);
    }
    assert_int_equal(json_array_size(events), at);
    json_decref(root);
}

static void the_file_holds_the_spans_of_all_ranks(void **state)
{
    static const struct {
        int64_t first_step, n_steps, room;
    } cases[] = {
        {0, 0, 100}, {0, 1, 100}, {1, 3, 10}, {5, 100, 1}, {7, 900, LSI_TRACE_PIECE + 77}, {0, 600, 100000},
        {(int64_t)1 << 60, 2, 100},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_folder();
        stamp_device_open(&device);
        device.skew = skew_of(job->rank);
        lsi_trace *trace = open_trace(cases[i].room * job->world);
        CHECK_OK(lsi_trace_align(trace));
        stamp_steps(trace, cases[i].first_step, cases[i].n_steps);
        for (int again = 0; again < 2; again++) {
            CHECK_OK(lsi_trace_write(trace, 5));
            if (job->rank == 0) {
                check_file(cases[i].first_step, cases[i].n_steps, cases[i].room);
            }
        }
        lsi_trace_close(&trace);
        remove_folder();
    }
}

/* Whichever two stamps are lost: they cost the spans they belong to and no other, and make none out of two. */
static void spans_of_lost_stamps_are_left_out(void **state)
{
    enum { STEPS = 3, PER_STEP = 6, ALL = STEPS * PER_STEP };
    static const struct {
        lsi_point point;
        int64_t index;
        int partner;            /* the other end of the span */
    } stamps[PER_STEP] = {
        {LSI_POINT_BEGIN, 0, 5},    {LSI_POINT_COPY_BEGIN, 0, 2}, {LSI_POINT_COPY_END, 0, 1},
        {LSI_POINT_COPY_BEGIN, 1, 4}, {LSI_POINT_COPY_END, 1, 3}, {LSI_POINT_END, 0, 0},
    };

    (void)state;
    make_folder();
    stamp_device_open(&device);
    for (int lost = 0; lost < ALL * ALL; lost++) {
        lsi_trace *trace = open_trace(100 * (int64_t)job->world);
        int a = lost / ALL, b = lost % ALL;
        uint64_t n_expected = 0;

        for (int k = 0; k < ALL; k++) {
            int i = k % PER_STEP, partner = k - i + stamps[i].partner;
            ls_stamp stamp = {.nanoseconds = (uint64_t)(1000 + k),
                              .id = lsi_timeline_id(k / PER_STEP, stamps[i].point, stamps[i].index)};

            if (k == a || k == b) {
                continue;
            }
            lsi_trace_stamp(trace, k / PER_STEP, &stamp);
            n_expected += partner < k && partner != a && partner != b;
            if (trace->n_made > 0 && partner < k) {
                const lsi_trace_span *span = &trace->ring[trace->n_made - 1];
                assert_true(span->end < stamp.nanoseconds || span->begin == (uint64_t)(1000 + partner));
            }
        }
        assert_int_equal(trace->n_made, n_expected);
        lsi_trace_close(&trace);
    }
    remove_folder();
}

static void an_unwritten_trace_is_empty_and_whole(void **state)
{
    (void)state;
    make_folder();
    stamp_device_open(&device);
    lsi_trace *trace = open_trace(0);
    stamp_steps(trace, 0, 3);
    if (job->rank == 0) {
        json_t *root = load();
        assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 0);
        assert_true(json_is_array(json_object_get(root, "traceEvents")));
        json_decref(root);
    }
    lsi_trace_close(&trace);
    assert_null(trace);
    remove_folder();
}

/* Only rank 0 touches the file, and only it fails. */
static void a_path_that_cannot_be_written_is_named(void **state)
{
    static const char *const bad[] = {"/dev/null/trace.json", "/"};

    (void)state;
    stamp_device_open(&device);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lsi_trace_options options = {.job = job, .device = &device.head, .account = &account, .path = bad[i]};
        lsi_trace *trace = NULL;
        ls_status status = lsi_trace_open(&options, &trace);

        if (job->rank == 0) {
            CHECK_FAILS(status, LS_ERR_OUTPUT, bad[i][1] != '\0' ? "/dev/null" : "/");
            assert_null(trace);
        } else {
            CHECK_OK(status);
            lsi_trace_close(&trace);
        }
        check_memory();
    }
}

/* The folder goes away during training: rank 0 fails, the others do not hang. */
static void a_folder_that_vanishes_is_reported(void **state)
{
    char old[512];

    (void)state;
    make_folder();
    stamp_device_open(&device);
    lsi_trace *trace = open_trace(0);
    stamp_steps(trace, 0, 2);
    if (job->rank == 0) {
        assert_int_equal(unlink(path), 0);
        snprintf(old, sizeof old, "%s", path);
        *strrchr(old, '/') = '\0';
        assert_int_equal(rmdir(old), 0);
    }
    ls_status status = lsi_trace_write(trace, 0);
    if (job->rank == 0) {
        CHECK_FAILS(status, LS_ERR_OUTPUT, "trace.json");
    } else {
        CHECK_OK(status);
    }
    lsi_trace_close(&trace);
    remove_folder();
}

static void memory_may_run_out_anywhere(void **state)
{
    bool done = false;

    (void)state;
    make_folder();
    stamp_device_open(&device);
    for (long k = 1; !done; k++) {
        lsi_trace_options options = {.job = job, .device = &device.head, .account = &account, .path = path};
        lsi_trace *trace = NULL;

        lsi_memory_fail_at(k);
        ls_status status = lsi_trace_open(&options, &trace);
        lsi_memory_fail_at(0);
        done = status == LS_OK;
        assert_true(done || (status == LS_ERR_MEMORY && trace == NULL));
        lsi_trace_close(&trace);
        check_memory();
    }
    /* For the file, at the end, on rank 0: the others' part must not depend on it. */
    lsi_trace *trace = open_trace(0);
    stamp_steps(trace, 0, 2);
    lsi_memory_fail_at(job->rank == 0 ? 1 : 0);
    ls_status status = lsi_trace_write(trace, 5);
    lsi_memory_fail_at(0);
    assert_int_equal(status, job->rank == 0 ? LS_ERR_MEMORY : LS_OK);
    lsi_trace_close(&trace);
    remove_folder();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_compared_within_the_accuracy),
        cmocka_unit_test(a_clock_that_cannot_be_read_stops_nobody_else),
        cmocka_unit_test(the_file_holds_the_spans_of_all_ranks),
        cmocka_unit_test(spans_of_lost_stamps_are_left_out),
        cmocka_unit_test(an_unwritten_trace_is_empty_and_whole),
        cmocka_unit_test(a_path_that_cannot_be_written_is_named),
        cmocka_unit_test(a_folder_that_vanishes_is_reported),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };

    if (lsi_job_open("test_trace", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    blocks_of_job = lsi_memory_live_blocks();
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    lsi_job_close(&job);
    return failures != 0;
}
