/* RUN: cuda timeout=60 label=contract */
/* poke: one element in one step, nothing in any other. */
#include "support/op_case.h"

#include <math.h>

static void check(ls_dtype dtype, int64_t step, float value)
{
    enum { N = 5, ELEMENT = 3, STEP = 7 };
    lsi_poke_args a = {.attempted = STEP, .element = ELEMENT, .value = value};
    double expected[N] = {0};
    op_case c;

    op_case_open(&c, &lsi_op_poke, &a);
    c.state.attempted = step;
    op_case_view(&c, &a.y, N, dtype);
    if (step == STEP) {
        expected[ELEMENT] = (double)value;
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, expected, 0.0, 0.0);
    op_case_close(&c);
}

static void pokes_in_its_step(void **unused)
{
    (void)unused;
    for (int64_t step = 6; step <= 8; step++) {
        check(LS_F32, step, INFINITY);
        check(LS_F32, step, NAN);
        check(LS_F64, step, -INFINITY);
        check(LS_F64, step, NAN);
        check(LS_F64, step, 1.5f);
    }
}

static void refuse_what_is_not_there(void **unused)
{
    static const int64_t elements[] = {-1, 4};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        lsi_poke_args a = {.element = elements[i]};
        op_case c;
        op_case_open(&c, &lsi_op_poke, &a);
        op_case_view(&c, &a.y, 4, LS_F32);
        CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, i == 0 ? "poke: element -1 of 4" : "poke: element 4 of 4");
        op_case_close(&c);
    }
    lsi_poke_args a = {.element = 0};
    op_case c;
    op_case_open(&c, &lsi_op_poke, &a);
    op_case_view(&c, &a.y, 4, LS_F16);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "poke: a view of f16; choices: f32, f64");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pokes_in_its_step),
        cmocka_unit_test(refuse_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
