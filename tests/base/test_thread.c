/* RUN: */
#include "support/test.h"

#include <float.h>
#include <signal.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/version.h"

typedef struct seen {
    char name[16];
    sigset_t blocked;
    float half_of_smallest;
} seen;

static float halve_the_smallest(void)
{
    volatile float smallest = FLT_MIN;

    return smallest / 2;
}

static void *look(void *argument)
{
    seen *s = argument;

    pthread_getname_np(pthread_self(), s->name, sizeof s->name);
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
    s->half_of_smallest = halve_the_smallest();
    return argument;
}

static void a_thread_starts_in_a_known_state(void **state)
{
    (void)state;
    pthread_t thread;
    sigset_t mask;
    seen s = {.name = ""};
    void *returned;

#ifdef __SSE__
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);    /* flush to zero, which a new thread would inherit */
    assert_true(halve_the_smallest() == 0);
#endif
    CHECK_OK(lsi_thread_start(&thread, "a name that is too long", look, &s));
    assert_int_equal(pthread_join(thread, &returned), 0);
#ifdef __SSE__
    lsi_thread_set_float_mode();
    assert_true(halve_the_smallest() == FLT_MIN / 2);
    _mm_setcsr(before);
#endif
    assert_ptr_equal(returned, &s);
    assert_string_equal(s.name, "a name that is ");
    assert_true(s.half_of_smallest == FLT_MIN / 2);
    assert_true(sigismember(&s.blocked, SIGTERM) && sigismember(&s.blocked, SIGUSR1));
    assert_false(sigismember(&s.blocked, SIGSEGV) || sigismember(&s.blocked, SIGFPE));
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    test_check_no_memory_live();
}

static void no_memory_no_thread(void **state)
{
    (void)state;
    pthread_t thread;

    lsi_memory_fail_at(1);
    CHECK_FAILS(lsi_thread_start(&thread, "none", look, NULL), LS_ERR_MEMORY, "thread");
    test_check_no_memory_live();
}

static void the_clock_goes_forward(void **state)
{
    (void)state;
    uint64_t last = lsi_clock_nanoseconds();
    double seconds = lsi_clock_seconds();

    for (int i = 0; i < 100000; i++) {
        uint64_t now = lsi_clock_nanoseconds();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > 0 && (double)last * 1e-9 - seconds >= 0 && (double)last * 1e-9 - seconds < 60);
}

static void the_build_has_a_name(void **state)
{
    (void)state;
    assert_int_equal(strspn(lsi_version(), "0123456789."), strlen(lsi_version()));
    assert_true(strlen(lsi_version()) > 0 && strlen(lsi_version_git()) > 0 && strlen(lsi_version_compiler()) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_starts_in_a_known_state),
        cmocka_unit_test(no_memory_no_thread),
        cmocka_unit_test(the_clock_goes_forward),
        cmocka_unit_test(the_build_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
