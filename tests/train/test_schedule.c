/* RUN: timeout=30 */
#include "support/test.h"

#include "train/schedule.h"

#include <math.h>

static ls_config make(const char *kind, int64_t warmup, double final, int64_t decay)
{
    ls_config c = {0};

    c.optimizer.lr = 2.0;
    c.schedule.kind = kind;
    c.schedule.warmup_steps = warmup;
    c.schedule.final_fraction = final;
    c.schedule.decay_steps = decay;
    return c;
}

static void near(double value, double expected)
{
    if (fabs(value - expected) > 1e-12) {
        fail_msg("%.15g, expected %.15g", value, expected);
    }
}

static void warmup_rises_to_the_rate(void **state)
{
    static const char *const kinds[] = {"constant", "linear", "cosine", "wsd"};

    (void)state;
    for (int k = 0; k < 4; k++) {
        ls_config c = make(kinds[k], 10, 0.1, 0);

        near(lsi_schedule_rate(&c, 1000, 0), 0.2);
        near(lsi_schedule_rate(&c, 1000, 9), 2.0);
        near(lsi_schedule_rate(&c, 1000, 10), 2.0);
    }
}

static void decays_end_at_the_final_fraction(void **state)
{
    static const char *const kinds[] = {"linear", "cosine", "wsd"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        for (int64_t total = 12; total < 400; total += 97) {
            ls_config c = make(kinds[k], 10, 0.1, 0);
            double before = 3;

            near(lsi_schedule_rate(&c, total, total - 1), 0.2);
            near(lsi_schedule_rate(&c, total, total + 50), 0.2);
            for (int64_t step = 10; step < total; step++) {
                double rate = lsi_schedule_rate(&c, total, step);

                assert_true(rate <= before);
                before = rate;
            }
        }
    }
}

static void middles(void **state)
{
    ls_config c = make("linear", 0, 0.5, 100);

    (void)state;
    near(lsi_schedule_rate(&c, 1000, 50), 2.0 * 0.75);
    near(lsi_schedule_rate(&c, 1000, 100), 1.0);
    c = make("cosine", 0, 0, 100);
    near(lsi_schedule_rate(&c, 1000, 50), 1.0);
    c = make("wsd", 0, 0, 100);
    near(lsi_schedule_rate(&c, 1000, 899), 2.0);
    near(lsi_schedule_rate(&c, 1000, 900), 2.0);
    near(lsi_schedule_rate(&c, 1000, 999), 0.0);
    c = make("constant", 0, 0, 0);
    near(lsi_schedule_rate(&c, 1000, 999), 2.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warmup_rises_to_the_rate),
        cmocka_unit_test(decays_end_at_the_final_fraction),
        cmocka_unit_test(middles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
