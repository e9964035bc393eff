/* RUN: timeout=120 */
/* The loss scale: 10,000 random patterns of overflows per set of options against PyTorch's GradScaler, written anew
 * from its definition, with bounds and hysteresis; and updates of exactly 1 while the scale moves at every step. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/pool.h"
#include "base/random.h"
#include "kernels/commit.h"

enum { PATTERNS = 10000, STEPS = 60, LONG_STEPS = 20000, COUNTED = 48, RECORD = LS_EXCHANGE_HEADER, SUM = RECORD + 4 };

typedef enum outcome { GOOD, OVERFLOW_IN_SUM, OVERFLOW_IN_ELEMENT, OVERFLOW_IN_LOSS, NO_TARGET } outcome;

typedef struct options {
    double initial, growth, backoff, min, max;
    int64_t interval, hysteresis;
} options;

/* One rank, one slot, one block. */
typedef struct scaler {
    lsi_commit_args a;
    ls_step_state state;
    double values[SUM + 1];
    int32_t record_index, block_index;
    double rates[LONG_STEPS + 2];
    ls_step_result result;
} scaler;

static scaler *scaler_make(const options *o, int dynamic)
{
    scaler *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->record_index = RECORD;
    s->block_index = SUM;
    for (int i = 1; i < LONG_STEPS + 2; i++) {
        s->rates[i] = 1.0;
    }
    s->a = (lsi_commit_args){
        .values = ls_view_make(s->values, SUM + 1, LS_F64),
        .block_index = ls_view_make(&s->block_index, 1, LS_I32),
        .record_index = ls_view_make(&s->record_index, 1, LS_I32),
        .rates = ls_view_make(s->rates, LONG_STEPS + 2, LS_F64),
        .result = ls_view_make(&s->result, (int64_t)sizeof s->result / 8, LS_F64),
        .state = &s->state, .world = 1, .rank_stride = SUM + 1, .seed_inverse = 64.0, .beta1 = 0.9, .beta2 = 0.999,
        .dynamic = dynamic, .growth = o->growth, .backoff = o->backoff, .scale_min = o->min, .scale_max = o->max,
        .growth_interval = o->interval, .hysteresis = o->hysteresis,
    };
    s->state = (ls_step_state){.beta1_power = 1.0, .beta2_power = 1.0, .loss_scale = (float)o->initial,
                               .hysteresis_left = o->hysteresis};
    return s;
}

/* The step's numbers as the ranks would have exchanged them, then the op. */
static void scaler_step(scaler *s, const ls_cpu_run *run, outcome what)
{
    double counted = what == NO_TARGET ? 0.0 : (double)COUNTED;
    ls_slot_record record = {.loss_sum = what == OVERFLOW_IN_LOSS ? (double)NAN : 3.0, .counted = counted, .runs = 1.0};

    memcpy(s->values + RECORD, &record, sizeof record);
    s->values[SUM] = what == OVERFLOW_IN_SUM ? (double)INFINITY : what == OVERFLOW_IN_ELEMENT ? lsi_bad_sum(77) : 2.0;
    CHECK_OK(lsi_op_commit.cpu(run, &s->a));
}

/* ---- the model ------------------------------------------------------------------------------------------------- */

/* What happened so far; hysteresis is counted over it, not kept. */
typedef struct model {
    options o;
    float scale;
    int64_t tracker;
    int n;                                  /* steps with targets */
    struct {
        bool overflow, growth, lowest;
    } history[LONG_STEPS];
} model;

/* An overflow is tolerated while fewer than `hysteresis`, it included, came after the last growth. */
static bool tolerated(const model *m)
{
    int64_t overflows = 1;

    for (int i = m->n - 1; i >= 0 && !m->history[i].growth && overflows < m->o.hysteresis; i--) {
        overflows += m->history[i].overflow;
    }
    return overflows < m->o.hysteresis;
}

/* GradScaler.update() with found_inf = `overflow`; PyTorch has min = 0, max = infinity, hysteresis = 1. */
static void model_update(model *m, bool overflow)
{
    bool growth = false, keep = overflow && tolerated(m);

    float lower = fmaxf((float)((double)m->scale * m->o.backoff), (float)m->o.min);

    m->history[m->n].lowest = lower == m->scale;
    if (overflow) {
        m->scale = keep ? m->scale : lower;
        m->tracker = 0;
    } else if (m->tracker + 1 == m->o.interval) {
        float grown = (float)fmin((double)m->scale * m->o.growth, m->o.max);

        if (isfinite(grown)) {
            m->scale = grown;
        }
        m->tracker = 0;
        growth = true;
    } else {
        m->tracker += 1;
    }
    m->history[m->n].overflow = overflow;
    m->history[m->n].growth = growth;
    m->n++;
}

static int64_t model_skipped(const model *m)
{
    int64_t n = 0;

    for (int i = 0; i < m->n; i++) {
        n += m->history[i].overflow;
    }
    return n;
}

/* The longest end of the history that is all overflows at a scale that cannot fall. */
static int64_t model_in_a_row(const model *m)
{
    int i = m->n;

    while (i > 0 && m->history[i - 1].overflow && m->history[i - 1].lowest) {
        i--;
    }
    return m->n - i;
}

/* ---- patterns -------------------------------------------------------------------------------------------------- */

/* Overflows come with one chance out of 2 to 64, a chance of the pattern; one step in 16 has no target. */
static outcome draw(uint64_t key, int step)
{
    lsi_random4 rare = lsi_random_philox(key, 0, 0, 0, 1), r = lsi_random_philox(key, (uint32_t)step, 0, 0, 0);

    if (r.v[0] % 16 == 0) {
        return NO_TARGET;
    }
    return r.v[1] % (2u << rare.v[0] % 6) == 0 ? OVERFLOW_IN_SUM + (outcome)(r.v[2] % 3) : GOOD;
}

static void check_step(const scaler *s, const model *m, float used, outcome what)
{
    assert_true(s->state.loss_scale == m->scale);
    assert_int_equal(s->state.growth_tracker, m->tracker);
    assert_int_equal(s->state.skip, what != GOOD);
    assert_true(s->result.scale_used == used);
    assert_true(what == NO_TARGET || s->state.unscale == 64.0 / ((double)used * COUNTED));
    assert_int_equal(s->result.bad_element, what == OVERFLOW_IN_ELEMENT ? 77 : -1);
    assert_int_equal(s->state.in_a_row, model_in_a_row(m));
}

static void check_pattern(const options *o, const ls_cpu_run *run, uint64_t key, int n_steps)
{
    scaler *s = scaler_make(o, 1);
    model *m = malloc(sizeof *m);

    assert_non_null(m);
    m->o = *o;
    m->scale = (float)o->initial;
    m->tracker = 0;
    m->n = 0;
    for (int step = 0; step < n_steps; step++) {
        outcome what = draw(key, step);
        float used = m->scale;

        if (what != NO_TARGET) {
            model_update(m, what != GOOD);
        }
        scaler_step(s, run, what);
        check_step(s, m, used, what);
    }
    assert_int_equal(s->state.skipped, model_skipped(m));
    assert_int_equal(s->state.applied, m->n - model_skipped(m));
    assert_int_equal(s->state.attempted, n_steps);
    free(m);
    free(s);
}

/* The decision runs on one thread and has one level. */
static const ls_cpu_run plain_run = {0};

/* PyTorch's own, then each option alone, then several. Initial scales so near the bounds that patterns reach them. */
static const options all_options[] = {
    {0x1p16, 2, 0.5, 0, INFINITY, 2, 1},        {0x1p16, 2, 0.5, 0, INFINITY, 1, 1},
    {0x1p16, 2, 0.5, 0, INFINITY, 7, 1},        {0x1p120, 0x1p4, 0.5, 0, INFINITY, 2, 1},
    {0x1p-130, 2, 0x1p-4, 0, INFINITY, 5, 1},   {0x1p16, 0x1p8, 0x1p-3, 0, INFINITY, 4, 1},
    {0x1p16, 1, 0.5, 0, INFINITY, 3, 1},        {0x1p16, 2, 1, 0, INFINITY, 3, 1},
    {0x1p16, 2, 0.5, 0, INFINITY, 3, 2},        {0x1p16, 2, 0.5, 0, INFINITY, 5, 4},
    {0x1p2, 2, 0.5, 1, INFINITY, 6, 1},         {0x1p22, 2, 0.5, 0, 0x1p24, 2, 1},
    {0x1p22, 0x1p5, 0.5, 0, 0x1p24, 3, 1},      {0x1p3, 4, 0.25, 1, 0x1p5, 3, 3},
    {0x1p125, 0x1p8, 0.5, 0x1p123, 0x1p126, 2, 2},
};

static void test_sequences_are_those_of_grad_scaler(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_options / sizeof all_options[0]; i++) {
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            check_pattern(&all_options[i], &plain_run, lsi_random_key(i, (uint64_t)pattern), STEPS);
        }
    }
}

/* The default interval over many growths, with the default bounds. */
static void test_long_sequences(void **state)
{
    const options defaults = {65536, 2, 0.5, 1, 0x1p24, 2000, 1}, tolerant = {65536, 2, 0.5, 1, 0x1p24, 100, 3};

    (void)state;
    check_pattern(&defaults, &plain_run, lsi_random_key(100, 1), LONG_STEPS);
    check_pattern(&tolerant, &plain_run, lsi_random_key(100, 2), LONG_STEPS);
}

/* Every step good: growths are exactly `interval` steps apart, until the bound. */
static void test_growth_is_on_time(void **state)
{
    const options o = {65536, 2, 0.5, 1, 0x1p18, 2000, 1};
    scaler *s = scaler_make(&o, 1);

    (void)state;
    for (int step = 1; step <= 8000; step++) {
        scaler_step(s, &plain_run, GOOD);
        assert_true(s->state.loss_scale == (step < 2000 ? 0x1p16f : step < 4000 ? 0x1p17f : 0x1p18f));
        assert_int_equal(s->state.growth_tracker, step % 2000);
    }
    free(s);
}

/* A resume with a shorter interval finds the tracker past it: the scale grows at the next good step. */
static void test_shorter_interval_after_resume(void **state)
{
    const options o = {65536, 2, 0.5, 1, 0x1p24, 10, 1};
    scaler *s = scaler_make(&o, 1);

    (void)state;
    s->state.growth_tracker = 1500;
    scaler_step(s, &plain_run, GOOD);
    assert_true(s->state.loss_scale == 0x1p17f);
    assert_int_equal(s->state.growth_tracker, 0);
    free(s);
}

static void test_static_scale_stays(void **state)
{
    const options o = {256, 2, 0.5, 1, 0x1p24, 1, 1};
    scaler *s = scaler_make(&o, 0);
    int64_t in_a_row = 0, skipped = 0;

    (void)state;
    for (int step = 0; step < 1000; step++) {
        outcome what = draw(1, step);
        bool overflow = what != GOOD && what != NO_TARGET;

        in_a_row = overflow ? in_a_row + 1 : what == GOOD ? 0 : in_a_row;
        skipped += overflow;
        scaler_step(s, &plain_run, what);
        assert_true(s->state.loss_scale == 256.0f);
        assert_true(s->result.scale_used == 256.0f);
        assert_int_equal(s->state.in_a_row, in_a_row);
        assert_int_equal(s->state.skipped, skipped);
    }
    assert_in_range(skipped, 1, 999);
    free(s);
}

/* ---- unscaling ------------------------------------------------------------------------------------------------- */

enum { N_WEIGHTS = LSI_BLOCK + 100, MOVES = 60 };

/* A model whose gradient is 1 everywhere, with its weights. */
typedef struct unit_model {
    scaler *s;
    float g[N_WEIGHTS], w[N_WEIGHTS], momentum[N_WEIGHTS];
    double sums[2];
} unit_model;

/* The backward leaves 1 times the scale it ran with; norms, decision and update are the ops of a step. */
static void unit_step(unit_model *m, const ls_cpu_run *run, bool overflow)
{
    const lsi_block_norms_args norms = {.g = ls_view_make(m->g, N_WEIGHTS, LS_F32),
                                        .sums = ls_view_make(m->sums, 2, LS_F64)};
    const lsi_sgd_args update = {.g = norms.g, .w = ls_view_make(m->w, N_WEIGHTS, LS_F32),
                                 .momentum = ls_view_make(m->momentum, N_WEIGHTS, LS_F32), .state = &m->s->state};

    for (int64_t i = 0; i < N_WEIGHTS; i++) {
        m->g[i] = m->s->state.loss_scale;
    }
    if (overflow) {
        m->g[5] = -INFINITY;
    }
    CHECK_OK(lsi_op_block_norms.cpu(run, &norms));
    m->s->values[SUM] = m->sums[0];
    CHECK_OK(lsi_op_commit.cpu(run, &m->s->a));
    CHECK_OK(lsi_op_sgd.cpu(run, &update));
}

static void check_moves(const ls_cpu_run *run, const options *o)
{
    const ls_slot_record record = {.loss_sum = 1.0, .counted = 64.0, .runs = 1.0};
    unit_model *m = calloc(1, sizeof *m);
    int n_scales = 0, moves = 0;

    assert_non_null(m);
    m->s = scaler_make(o, 1);
    memcpy(m->s->values + RECORD, &record, sizeof record);
    for (int step = 0; step < MOVES; step++) {
        bool overflow = step % 7 == 6;
        float before = m->s->state.loss_scale;

        unit_step(m, run, overflow);
        moves += !overflow;
        n_scales += m->s->state.loss_scale != before;
        assert_int_equal(m->s->result.bad_element, overflow ? 5 : -1);
        for (int64_t i = 0; i < N_WEIGHTS; i++) {
            assert_true(m->w[i] == -(float)moves);
        }
    }
    assert_true(n_scales > MOVES / 4);
    free(m->s);
    free(m);
}

/* Growth at every good step: unscaling with the scale after it would make every update a half. */
static void test_every_update_is_exactly_1(void **state)
{
    const options o = {65536, 2, 0x1p-6, 1, 0x1p126, 1, 1};
    lsi_pool *pool;

    (void)state;
    CHECK_OK(lsi_pool_create(2, &pool));
    for (int level = 0; level < op_case_levels(); level++) {
        check_moves(&(ls_cpu_run){.pool = pool, .isa = level}, &o);
    }
    lsi_pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences_are_those_of_grad_scaler),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_growth_is_on_time),
        cmocka_unit_test(test_shorter_interval_after_resume),
        cmocka_unit_test(test_static_scale_stays),
        cmocka_unit_test(test_every_update_is_exactly_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
