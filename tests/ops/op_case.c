/* RUN: timeout=60 */
/* The op harness itself: it must pass a right op and fail each kind of wrong one. */
#include "support/op_case.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/half.h"

/* y = 2 x, n elements; what is wrong with it is a choice. */
typedef enum mistake {
    NONE, WRITES_BEHIND, WRITES_BEFORE, CHANGES_INPUT, CHANGES_STATE, DEPENDS_ON_THREADS, DEPENDS_ON_ALIGNMENT,
    LEAVES_AN_ELEMENT, IS_WRONG, IS_WRONG_AT_ONE_LEVEL, FAILS, MISTAKES
} mistake;

typedef struct doubled_args {
    ls_view x, y;
    ls_step_state *state;
    mistake wrong;
} doubled_args;

static ls_status doubled(const ls_cpu_run *run, const void *arguments)
{
    const doubled_args *a = arguments;
    float *x = a->x.data, *y = a->y.data;

    for (int64_t i = 0; i < a->y.count - (a->wrong == LEAVES_AN_ELEMENT); i++) {
        y[i] = 2.0f * x[i];
    }
    switch (a->wrong) {
    case WRITES_BEHIND:
        y[a->y.count] = 1.0f;
        break;
    case WRITES_BEFORE:
        y[-1] = 1.0f;
        break;
    case CHANGES_INPUT:
        x[0] += 1.0f;
        break;
    case CHANGES_STATE:
        a->state->applied++;
        break;
    case DEPENDS_ON_THREADS:
        y[0] += (float)lsi_pool_threads(run->pool) * 1e-7f;
        break;
    case DEPENDS_ON_ALIGNMENT:
        y[0] += (uintptr_t)y % 64 == 0 ? 1e-7f : 0.0f;
        break;
    case IS_WRONG:
        y[3] += 1e-4f;
        break;
    case IS_WRONG_AT_ONE_LEVEL:
        y[3] += run->isa == 0 ? 1e-4f : 0.0f;
        break;
    case FAILS:
        return LS_FAIL(LS_ERR_DATA, "cannot double this");
    default:
        break;
    }
    return LS_OK;
}

static const ls_op op_doubled = {
    .struct_size = sizeof(ls_op),
    .name = "doubled",
    .arguments_bytes = sizeof(doubled_args),
    .n_in = 1,
    .n_out = 1,
    .state_access = LS_STATE_READ,
    .state_offset = offsetof(doubled_args, state),
    .cpu = doubled,
};

static mistake current;

static void check_doubled(void **unused)
{
    enum { N = 8 };
    doubled_args a = {.wrong = current};
    double expected[N];
    op_case c;

    (void)unused;
    op_case_open(&c, &op_doubled, &a);
    const float *x = op_case_random(&c, &a.x, N, 0.1);
    op_case_view(&c, &a.y, N, LS_F32);
    for (int i = 0; i < N; i++) {
        expected[i] = 2.0 * (double)x[i];
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, expected, 1e-6, 1e-6);
    op_case_close(&c);
}

/* `check` fails with the mistake, and passes with none. In a process of its own, because a failing check ends the test
 * it runs in. */
static void expect_failure(CMUnitTestFunction check, mistake wrong)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(check)};
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        current = wrong;
        _exit(cmocka_run_group_tests(tests, NULL, NULL));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != (wrong != NONE)) {
        fail_msg("mistake %d: %d failed tests", (int)wrong, WEXITSTATUS(status));
    }
}

static void finds_every_mistake(void **unused)
{
    (void)unused;
    for (int wrong = NONE; wrong < MISTAKES; wrong++) {
        expect_failure(check_doubled, (mistake)wrong);
    }
}

/* y = x in f16; wrong: cut off instead of rounded, which is still within one unit of the last place. */
static ls_status narrowed(const ls_cpu_run *run, const void *arguments)
{
    const doubled_args *a = arguments;

    (void)run;
    for (int64_t i = 0; i < a->y.count; i++) {
        float x = a->x.dtype == LS_F32 ? ((const float *)a->x.data)[i] :
                                         lsi_half_f16_to_f32(((const uint16_t *)a->x.data)[i]);
        uint32_t bits;

        memcpy(&bits, &x, sizeof bits);
        bits = a->wrong == IS_WRONG ? bits & 0xffffe000u : bits;
        memcpy(&x, &bits, sizeof x);
        ((uint16_t *)a->y.data)[i] = lsi_half_f16_from_f32(x);
    }
    return LS_OK;
}

static void check_narrowed(void **unused)
{
    enum { N = 64 };
    ls_op op = op_doubled;
    doubled_args a = {.wrong = current};
    op_case c;

    (void)unused;
    op.name = "narrowed";
    op.cpu = narrowed;
    op_case_open(&c, &op, &a);
    double *expected = op_case_doubles(op_case_random(&c, &a.x, N, 0.1), N);
    op_case_view(&c, &a.y, N, LS_F16);
    op_case_run(&c);
    op_case_expect(&c, &a.y, expected, 0.0, 0.0);
    free(expected);
    op_case_close(&c);
}

/* y = 2 x in f16, rounded once, or of the wrong one: x rounded to 7 bits before. */
static ls_status doubled_in_f16(const ls_cpu_run *run, const void *arguments)
{
    const doubled_args *a = arguments;

    if (a->x.dtype == LS_F32) {
        return doubled(run, arguments);
    }
    for (int64_t i = 0; i < a->y.count; i++) {
        uint16_t x = ((const uint16_t *)a->x.data)[i];
        x = a->wrong == IS_WRONG ? x & 0xfff8u : x;
        ((uint16_t *)a->y.data)[i] = lsi_half_f16_from_f32(2.0f * lsi_half_f16_to_f32(x));
    }
    return LS_OK;
}

static void check_doubled_in_f16(void **unused)
{
    enum { N = 64 };
    ls_op op = op_doubled;
    doubled_args a = {.wrong = current};
    op_case c;

    (void)unused;
    op.cpu = doubled_in_f16;
    op_case_open(&c, &op, &a);
    op_case_random_as(&c, &a.x, N, 0.1, LS_F16);
    op_case_view(&c, &a.y, N, LS_F16);
    op_case_run(&c);
    a.wrong = NONE;
    op_case_expect_as_f32(&c);
    op_case_close(&c);
}

static void finds_mistakes_in_16_bit(void **unused)
{
    (void)unused;
    for (int wrong = NONE; wrong <= IS_WRONG; wrong += IS_WRONG) {
        expect_failure(check_narrowed, (mistake)wrong);
        expect_failure(check_doubled_in_f16, (mistake)wrong);
    }
}

static double sum_of_squares(void *argument)
{
    const double *x = argument;
    return x[0] * x[0] + x[1] * x[1];
}

/* f = x0^2 + x1^2, whose gradient is what `doubled` makes of x. */
static void differences_give_the_gradient(void **unused)
{
    doubled_args a = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &op_doubled, &a);
    double *x = op_case_doubles(op_case_random(&c, &a.x, 2, 1.0), 2);
    op_case_view(&c, &a.y, 2, LS_F32);
    op_case_run(&c);
    op_case_expect_gradient(&c, &a.y, x, 2, sum_of_squares, x, 1e-6);
    free(x);
    op_case_close(&c);
}

static void failures_come_with_their_message(void **unused)
{
    doubled_args a = {.wrong = FAILS};
    op_case c;

    (void)unused;
    op_case_open(&c, &op_doubled, &a);
    CHECK_FAILS(op_case_try(&c), LS_ERR_DATA, "cannot double this");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_every_mistake),
        cmocka_unit_test(finds_mistakes_in_16_bit),
        cmocka_unit_test(differences_give_the_gradient),
        cmocka_unit_test(failures_come_with_their_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
