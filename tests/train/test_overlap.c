/* comm.overlap = auto: which step is queued how, and which times count. */
#include "support/test.h"

#include "train/overlap.h"

enum { FAST = 1, SLOW = 2, MISLEADING = 1000 };

static ls_config config_of(const char *overlap)
{
    ls_config config = {0};

    config.comm.overlap = overlap;
    return config;
}

static lsi_overlap open_auto(bool records)
{
    ls_config config = config_of("auto");
    lsi_overlap overlap;

    lsi_overlap_open(&overlap, &config, 2, records);
    return overlap;
}

/* Runs steps until it is decided. Steps that come right after a change of ways take very long where steps are recorded,
 * for in them lies the recording. Returns the step that decided. */
static int64_t run(lsi_overlap *overlap, bool records, double with, double without)
{
    bool before = true;
    int64_t step = 0, since = 0;

    for (; step < 100; step++, since++) {
        bool on = lsi_overlap_of_step(overlap, step);

        since = on != before || step == LSI_OVERLAP_WARM_UP ? 0 : since;
        before = on;
        bool misleads = step < LSI_OVERLAP_WARM_UP || (records && since < LSI_OVERLAP_RECORDINGS);
        if (lsi_overlap_take(overlap, step, misleads ? MISLEADING : on ? with : without)) {
            return step;
        }
    }
    fail_msg("not decided after %d steps", (int)step);
    return -1;
}

static void the_faster_way_wins_whatever_recording_takes(void **state)
{
    (void)state;
    for (int records = 0; records <= 1; records++) {
        for (int faster_with = 0; faster_with <= 1; faster_with++) {
            lsi_overlap overlap = open_auto(records);
            double with, without;

            int64_t last = run(&overlap, records, faster_with ? FAST : SLOW, faster_with ? SLOW : FAST);
            lsi_overlap_medians(&overlap, &with, &without);
            assert_true(with == (faster_with ? FAST : SLOW) && without == (faster_with ? SLOW : FAST));
            assert_true(overlap.decided);
            assert_int_equal(overlap.on, faster_with);
            assert_int_equal(lsi_overlap_of_step(&overlap, last + 1), faster_with);
            assert_false(lsi_overlap_take(&overlap, last + 1, MISLEADING));
        }
    }
}

static void steps_whose_time_comes_late_go_on_in_the_second_way(void **state)
{
    lsi_overlap overlap = open_auto(true);
    int64_t step = 0;

    (void)state;
    while (lsi_overlap_of_step(&overlap, step)) {
        step++;
    }
    assert_true(step >= LSI_OVERLAP_WARM_UP + LSI_OVERLAP_RECORDINGS + LSI_OVERLAP_TRIES);
    for (int i = 0; i < 50; i++) {
        assert_false(lsi_overlap_of_step(&overlap, step + i));
    }
}

static void what_is_said_or_has_nothing_to_hide_needs_no_try(void **state)
{
    ls_config on = config_of("true"), off = config_of("false"), automatic = config_of("auto");
    lsi_overlap overlap;

    (void)state;
    lsi_overlap_open(&overlap, &on, 4, true);
    assert_true(overlap.decided && lsi_overlap_of_step(&overlap, 0));
    lsi_overlap_open(&overlap, &off, 4, true);
    assert_true(overlap.decided && !lsi_overlap_of_step(&overlap, 0));
    lsi_overlap_open(&overlap, &automatic, 1, true);
    assert_true(overlap.decided && !lsi_overlap_of_step(&overlap, 0));
    assert_false(lsi_overlap_take(&overlap, 0, FAST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_wins_whatever_recording_takes),
        cmocka_unit_test(steps_whose_time_comes_late_go_on_in_the_second_way),
        cmocka_unit_test(what_is_said_or_has_nothing_to_hide_needs_no_try),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
