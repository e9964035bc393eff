/* RUN: cuda timeout=60 label=contract */
/* commit: every rule of the decision, on exchanges laid out by hand over several ranks. How the loss scale moves over
 * many steps: scaler.c; what a block's sum says about its elements: norms.c. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/commit.h"

enum { WORLD = 3, SLOTS = 5, BLOCKS = 7, STRIDE = LS_EXCHANGE_HEADER + 4 * SLOTS + BLOCKS, RATES = 6 };

/* A gathered exchange: slot s and block b lie with rank s % world and b % world. */
typedef struct exchange {
    lsi_commit_args a;
    ls_step_state state;
    double values[WORLD * STRIDE];
    int32_t block_index[BLOCKS], record_index[SLOTS];
    double rates[RATES];
    ls_step_result result;
} exchange;

static ls_slot_record *record_of(exchange *x, int s)
{
    return (ls_slot_record *)(void *)(x->values + x->record_index[s]);
}

static void lay_out(exchange *x, int world)
{
    memset(x, 0, sizeof *x);
    for (int s = 0; s < SLOTS; s++) {
        x->record_index[s] = s % world * STRIDE + LS_EXCHANGE_HEADER + 4 * (s / world);
        *record_of(x, s) = (ls_slot_record){.loss_sum = 10.0 + 0.1 * s, .counted = 4.0 + s, .hits = s, .runs = 1.0};
    }
    for (int b = 0; b < BLOCKS; b++) {
        x->block_index[b] = b % world * STRIDE + LS_EXCHANGE_HEADER + 4 * SLOTS + b / world;
        x->values[x->block_index[b]] = 0.1 * (b + 1);
    }
    for (int i = 0; i < RATES; i++) {
        x->rates[i] = i == 0 ? 10.0 : 0.001 * i;    /* the first rate is that of 10 applied steps */
    }
    x->a = (lsi_commit_args){
        .values = ls_view_make(x->values, world * STRIDE, LS_F64),
        .block_index = ls_view_make(x->block_index, BLOCKS, LS_I32),
        .record_index = ls_view_make(x->record_index, SLOTS, LS_I32),
        .rates = ls_view_make(x->rates, RATES, LS_F64),
        .result = ls_view_make(&x->result, (int64_t)sizeof x->result, LS_U8),
        .state = &x->state,
        .world = world,
        .rank_stride = STRIDE,
        .seed_inverse = 64.0,
        .beta1 = 0.9,
        .beta2 = 0.999,
        /* Once dynamic is 1, the next good step grows the scale from 8 to 16, the next overflow halves it. */
        .growth = 2.0, .backoff = 0.5, .scale_min = 1.0, .scale_max = 0x1p24, .growth_interval = 7, .hysteresis = 1,
    };
    x->state = (ls_step_state){
        .attempted = 14, .applied = 12, .in_a_row = 2, .beta1_power = 0.5, .beta2_power = 0.75, .loss_scale = 8.0f,
        .growth_tracker = 6, .hysteresis_left = 1, .skipped = 2,
    };
}

static const ls_step_result *result_of(const exchange *x)
{
    return &x->result;
}

enum { COUNTED = 4 + 5 + 6 + 7 + 8 };

static double squares(void)
{
    double sum = 0.0;

    for (int b = 0; b < BLOCKS; b++) {
        sum += 0.1 * (b + 1);
    }
    return sum;
}

static double losses(void)
{
    double sum = 0.0;

    for (int s = 0; s < SLOTS; s++) {
        sum += 10.0 + 0.1 * s;
    }
    return sum;
}

static void test_good_step(void **state)
{
    exchange x;

    (void)state;
    lay_out(&x, WORLD);
    lsi_commit_decide(&x.a);
    assert_int_equal(x.state.attempted, 15);
    assert_int_equal(x.state.applied, 13);
    assert_int_equal(x.state.in_a_row, 0);
    assert_int_equal(x.state.skip, 0);
    assert_int_equal(x.state.counted, COUNTED);
    assert_true(x.state.loss == losses() / COUNTED);
    assert_true(x.state.unscale == 64.0 / (8.0 * COUNTED));
    assert_true(x.state.grad_norm == sqrt(squares()) * x.state.unscale);
    assert_true(x.state.clip_factor == 1.0f);
    assert_true(x.state.learning_rate == (float)0.003);     /* 12 applied before: the third rate */
    assert_true(x.state.beta1_power == 0.5 * 0.9);
    assert_true(x.state.beta2_power == 0.75 * 0.999);
    assert_true(x.state.loss_scale == 8.0f && result_of(&x)->scale_used == 8.0f);
    assert_int_equal(x.state.skipped, 2);
    assert_int_equal(result_of(&x)->bad_element, -1);
    assert_memory_equal(&result_of(&x)->state, &x.state, sizeof x.state);
    assert_true(result_of(&x)->hits == 0 + 1 + 2 + 3 + 4);
    assert_true(result_of(&x)->runs_wrong == 0.0);
}

/* The gradients are those of the scale before the step, also where the step moves it. */
static void test_unscale_is_that_of_the_backward(void **state)
{
    exchange good, bad;

    (void)state;
    lay_out(&good, WORLD);
    good.a.dynamic = 1;
    lsi_commit_decide(&good.a);
    assert_true(good.state.unscale == 64.0 / (8.0 * COUNTED));
    assert_true(good.state.loss_scale == 16.0f && result_of(&good)->scale_used == 8.0f);
    assert_int_equal(good.state.growth_tracker, 0);

    lay_out(&bad, WORLD);
    bad.a.dynamic = 1;
    bad.values[bad.block_index[2]] = (double)INFINITY;
    lsi_commit_decide(&bad.a);
    assert_true(bad.state.unscale == 64.0 / (8.0 * COUNTED));
    assert_true(bad.state.loss_scale == 4.0f && result_of(&bad)->scale_used == 8.0f);
    assert_int_equal(bad.state.growth_tracker, 0);
    assert_int_equal(bad.state.hysteresis_left, 0);
    assert_int_equal(bad.state.skipped, 3);
}

static void test_ranks_change_no_bit(void **state)
{
    exchange one, many;

    (void)state;
    lay_out(&one, 1);
    lsi_commit_decide(&one.a);
    for (int world = 2; world <= WORLD; world++) {
        lay_out(&many, world);
        lsi_commit_decide(&many.a);
        assert_memory_equal(&one.state, &many.state, sizeof one.state);
        assert_memory_equal(&one.result, &many.result, sizeof one.result);
    }
}

static void test_clip(void **state)
{
    exchange x;
    double norm = sqrt(squares()) * 64.0 / (8.0 * COUNTED);

    (void)state;
    lay_out(&x, WORLD);
    x.a.clip = norm / 4.0;
    lsi_commit_decide(&x.a);
    assert_true(x.state.clip_factor == (float)(norm / 4.0 / (x.state.grad_norm + 1e-6)));
    assert_true(fabs(x.state.grad_norm - norm) < 1e-15);    /* reported before clipping */

    lay_out(&x, WORLD);
    x.a.clip = norm * 4.0;
    lsi_commit_decide(&x.a);
    assert_true(x.state.clip_factor == 1.0f);
}

/* What a skipped step leaves alone. */
static void check_skipped(const exchange *x, int64_t in_a_row)
{
    assert_int_equal(x->state.skip, 1);
    assert_int_equal(x->state.attempted, 15);
    assert_int_equal(x->state.applied, 12);
    assert_int_equal(x->state.in_a_row, in_a_row);
    assert_true(x->state.beta1_power == 0.5 && x->state.beta2_power == 0.75);
    assert_true(x->state.learning_rate == (float)0.003);
    assert_true(x->state.clip_factor == 1.0f);
    assert_memory_equal(&result_of(x)->state, &x->state, sizeof x->state);
}

static void test_non_finite_steps_are_skipped(void **state)
{
    const double bad[] = {(double)NAN, (double)INFINITY};
    exchange x;

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int b = 0; b < BLOCKS; b++) {
            lay_out(&x, WORLD);
            x.values[x.block_index[b]] = bad[i];
            lsi_commit_decide(&x.a);
            check_skipped(&x, 3);
            assert_false(isfinite(x.state.grad_norm));
            assert_true(isfinite(x.state.loss));
        }
        for (int s = 0; s < SLOTS; s++) {
            lay_out(&x, WORLD);
            record_of(&x, s)->loss_sum = -bad[i];
            lsi_commit_decide(&x.a);
            check_skipped(&x, 3);
            assert_false(isfinite(x.state.loss));
        }
    }
    lsi_commit_decide(&x.a);
    assert_int_equal(x.state.in_a_row, 4);
    assert_int_equal(x.state.skipped, 4);
    assert_true(x.state.loss_scale == 8.0f);
    assert_int_equal(x.state.growth_tracker, 6);
}

/* A dynamic scale above its minimum is still being found; the count begins where it can fall no further. */
static void test_only_overflows_at_the_minimum_count(void **state)
{
    exchange x;

    (void)state;
    lay_out(&x, WORLD);
    x.a.dynamic = 1;
    x.values[x.block_index[0]] = (double)NAN;
    for (int i = 0; i < 3; i++) {       /* at 8, 4, 2 */
        lsi_commit_decide(&x.a);
        assert_int_equal(x.state.in_a_row, 0);
    }
    for (int i = 1; i < 5; i++) {
        lsi_commit_decide(&x.a);
        assert_true(x.state.loss_scale == 1.0f && result_of(&x)->scale_used == 1.0f);
        assert_int_equal(x.state.in_a_row, i);
    }
    assert_int_equal(x.state.skipped, 2 + 7);
    x.values[x.block_index[0]] = 1.0;
    lsi_commit_decide(&x.a);
    assert_int_equal(x.state.in_a_row, 0);
}

static void test_bad_element(void **state)
{
    exchange x;

    (void)state;
    for (int b = 0; b < BLOCKS; b++) {
        lay_out(&x, WORLD);
        for (int after = b; after < BLOCKS; after++) {
            x.values[x.block_index[after]] = lsi_bad_sum(1000 + 7 * after);
        }
        lsi_commit_decide(&x.a);
        assert_int_equal(result_of(&x)->bad_element, b * LSI_BLOCK + 1000 + 7 * b);
        assert_int_equal(x.state.skip, 1);
    }

    lay_out(&x, WORLD);     /* sums that name no element are passed over */
    x.values[x.block_index[0]] = (double)INFINITY;
    x.values[x.block_index[1]] = (double)NAN;
    x.values[x.block_index[4]] = lsi_bad_sum(LSI_BLOCK - 1);
    lsi_commit_decide(&x.a);
    assert_int_equal(result_of(&x)->bad_element, 5 * LSI_BLOCK - 1);

    lay_out(&x, WORLD);     /* only the loss */
    record_of(&x, 2)->loss_sum = (double)NAN;
    lsi_commit_decide(&x.a);
    assert_int_equal(x.state.skip, 1);
    assert_int_equal(result_of(&x)->bad_element, -1);
}

static void test_no_target_at_all(void **state)
{
    exchange x;

    (void)state;
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        lay_out(&x, WORLD);
        x.a.dynamic = dynamic;
        for (int s = 0; s < SLOTS; s++) {
            *record_of(&x, s) = (ls_slot_record){.runs = 1.0};
        }
        lsi_commit_decide(&x.a);
        check_skipped(&x, 2);
        assert_true(isnan(x.state.loss));
        assert_true(x.state.grad_norm == 0.0);
        assert_int_equal(x.state.counted, 0);
        assert_true(x.state.loss_scale == 8.0f && result_of(&x)->scale_used == 8.0f);
        assert_int_equal(x.state.growth_tracker, 6);
        assert_int_equal(x.state.hysteresis_left, 1);
        assert_int_equal(x.state.skipped, 2);
    }
}

static void test_headers_and_runs(void **state)
{
    exchange x;

    (void)state;
    lay_out(&x, WORLD);
    for (int rank = 0; rank < WORLD; rank++) {
        for (int i = 0; i < LS_EXCHANGE_HEADER; i++) {
            x.values[rank * STRIDE + i] = (rank + i) % WORLD == 0 ? 5.0 + i : -1.0;
        }
    }
    record_of(&x, 1)->runs = 0.0;
    record_of(&x, 4)->runs = 2.0;
    lsi_commit_decide(&x.a);
    for (int i = 0; i < LS_EXCHANGE_HEADER; i++) {
        assert_true(result_of(&x)->header[i] == 5.0 + i);
    }
    assert_true(result_of(&x)->runs_wrong == 2.0);
}

/* ---- the op ------------------------------------------------------------------------------------------------ */

static void open_case(op_case *c, lsi_commit_args *a, exchange *x)
{
    *a = x->a;
    op_case_open(c, &lsi_op_commit, a);
    memcpy(op_case_view(c, &a->values, WORLD * STRIDE, LS_F64), x->values, sizeof x->values);
    memcpy(op_case_view(c, &a->block_index, BLOCKS, LS_I32), x->block_index, sizeof x->block_index);
    memcpy(op_case_view(c, &a->record_index, SLOTS, LS_I32), x->record_index, sizeof x->record_index);
    memcpy(op_case_view(c, &a->rates, RATES, LS_F64), x->rates, sizeof x->rates);
    op_case_view(c, &a->result, (int64_t)sizeof x->result / 8, LS_F64);
    c->state = x->state;
}

static void test_op_is_the_decision(void **state)
{
    exchange x;
    lsi_commit_args a;
    op_case c;

    (void)state;
    lay_out(&x, WORLD);
    open_case(&c, &a, &x);
    op_case_run(&c);
    lsi_commit_decide(&x.a);
    op_case_expect_bytes(&c, &a.result, &x.result);
    for (int level = 0; level < op_case_levels(); level++) {
        assert_memory_equal(&c.state_after[level], &x.state, sizeof x.state);
    }
    op_case_close(&c);
}

static void test_op_refuses_what_does_not_fit(void **state)
{
    static const char *const parts[] = {"are not 2 messages", "slot 3 has its record", "block 6 has its sum",
                                        "no learning rate for 15", "no learning rate for 9",
                                        "growth interval 0, hysteresis 1", "hysteresis 0, scale from 1",
                                        "scale from 4 to 2"};
    exchange x;
    lsi_commit_args a;
    op_case c;

    (void)state;
    for (int wrong = 0; wrong < 8; wrong++) {
        lay_out(&x, WORLD);
        x.a.dynamic = 1;
        x.a.world = wrong == 0 ? 2 : WORLD;
        x.a.growth_interval = wrong == 5 ? 0 : 1;
        x.a.hysteresis = wrong == 6 ? 0 : 1;
        x.a.scale_min = wrong == 7 ? 4.0 : 1.0;
        x.a.scale_max = wrong == 7 ? 2.0 : 8.0;
        x.record_index[3] += wrong == 1 ? STRIDE - LS_EXCHANGE_HEADER : 0;
        x.block_index[6] = wrong == 2 ? -1 : x.block_index[6];
        x.state.applied = wrong == 3 ? 15 : wrong == 4 ? 9 : 12;
        open_case(&c, &a, &x);
        CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, parts[wrong]);
        op_case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_step),
        cmocka_unit_test(test_unscale_is_that_of_the_backward),
        cmocka_unit_test(test_ranks_change_no_bit),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_non_finite_steps_are_skipped),
        cmocka_unit_test(test_only_overflows_at_the_minimum_count),
        cmocka_unit_test(test_bad_element),
        cmocka_unit_test(test_no_target_at_all),
        cmocka_unit_test(test_headers_and_runs),
        cmocka_unit_test(test_op_is_the_decision),
        cmocka_unit_test(test_op_refuses_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
