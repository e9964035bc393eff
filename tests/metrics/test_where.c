/* RUN: */
/* What a device is at, read off a ring of stamps that streams may be writing. */
#include "support/test.h"

#include <string.h>

#include "metrics/timeline.h"
#include "metrics/where.h"
#include "support/stamp_device.h"

static stamp_device device;

static int setup(void **state)
{
    (void)state;
    stamp_device_open(&device);
    return 0;
}

static void put(int64_t step, lsi_point point, int64_t index)
{
    stamp_device_put(&device, lsi_timeline_id(step, point, index), 1);
}

static void check(int64_t step, const char *expected, bool waits)
{
    char text[160];

    bool said = lsi_where_describe(&device.head, step, text, sizeof text);
    assert_string_equal(text, expected);
    assert_int_equal(said, waits);
}

static void every_part_of_a_step_has_words(void **state)
{
    static const struct {
        lsi_point point;
        int64_t index;
        const char *text;
        bool waits;
    } cases[] = {
        {LSI_POINT_BEGIN, 0, "step 18, at its beginning", false},
        {LSI_POINT_DATA_WAIT, 0, "step 18, compute waits: wait for data", false},
        {LSI_POINT_DATA_HERE, 0, "step 18, compute waits: after wait for data", false},
        {LSI_POINT_SLOT_BEGIN, 3, "step 18, compute: forward of slot 3", false},
        {LSI_POINT_FORWARD_END, 3, "step 18, compute: backward of slot 3", false},
        {LSI_POINT_SLOT_END, 3, "step 18, compute: after backward of slot 3", false},
        {LSI_POINT_REDUCE_BEGIN, 7, "step 18, compute: after backward of slot 3; comm: reduce of bucket 7", false},
        {LSI_POINT_BACKWARD_END, 0, "step 18, compute waits: wait for gradients; comm: reduce of bucket 7", true},
        {LSI_POINT_REDUCE_END, 7, "step 18, compute waits: wait for gradients", false},
        {LSI_POINT_EXCHANGE_BEGIN, 0, "step 18, compute waits: wait for gradients; comm: exchange", true},
        {LSI_POINT_EXCHANGE_END, 0, "step 18, compute waits: wait for gradients", false},
        {LSI_POINT_ARRIVED, 0, "step 18, compute: commit", false},
        {LSI_POINT_COMMIT, 0, "step 18, compute: update", false},
        {LSI_POINT_END, 0, "step 18, compute: after update", false},
    };

    (void)state;
    check(18, "step 18, before its work", false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(17, cases[i].point, cases[i].index); /* stamps count steps from 0 */
        check(18, cases[i].text, cases[i].waits);
    }
}

/* The host has begun the next step, whose gathers wait for a rank that still updates. */
static void stamps_of_the_step_before_say_so(void **state)
{
    (void)state;
    put(17, LSI_POINT_COMMIT, 0);
    check(19, "step 18, compute: update", false);
    put(17, LSI_POINT_END, 0);
    put(18, LSI_POINT_BEGIN, 0);
    put(18, LSI_POINT_GATHER_BEGIN, 2);
    check(19, "step 19, at its beginning; comm: gather of bucket 2", false);
    put(18, LSI_POINT_GATHER_WAIT_BEGIN, 2);
    check(19, "step 19, compute waits: wait for weights of bucket 2; comm: gather of bucket 2", true);
}

/* Copies, clocks and stamps on their way are passed over; of an old ring nothing is believed. */
static void what_is_not_there_is_passed_over(void **state)
{
    (void)state;
    put(4, LSI_POINT_SLOT_BEGIN, 1);
    put(4, LSI_POINT_COPY_BEGIN, 2);
    stamp_device_put(&device, lsi_timeline_id(0, LSI_POINT_CLOCK, 0), 1);
    stamp_device_count(&device);
    check(5, "step 5, compute: forward of slot 1", false);
    for (int i = 0; i < LS_STAMP_RING; i++) {
        stamp_device_count(&device);
    }
    check(5, "step 5, before its work", false);
}

static void a_short_room_is_kept_to(void **state)
{
    char text[24];

    (void)state;
    memset(text, 'x', sizeof text);
    put(17, LSI_POINT_SLOT_BEGIN, 3);
    lsi_where_describe(&device.head, 18, text, 20);
    assert_string_equal(text, "step 18, compute: f");
    assert_int_equal(text[20], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_part_of_a_step_has_words, setup),
        cmocka_unit_test_setup(stamps_of_the_step_before_say_so, setup),
        cmocka_unit_test_setup(what_is_not_there_is_passed_over, setup),
        cmocka_unit_test_setup(a_short_room_is_kept_to, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
