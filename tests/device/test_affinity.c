/* RUN: np=1,2,4 */
#include "support/test.h"

#include <sched.h>
#include <string.h>

#include "base/memory.h"
#include "device/affinity.h"

static lsi_job *job;

static void check_law(const lsi_affinity *a)
{
    cpu_set_t mask;

    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    assert_int_equal(a->cores_allowed, CPU_COUNT(&mask));
    assert_true(a->cores_online >= 1);
    assert_int_equal(a->local_ranks, job->n_local);
    assert_int_equal(a->threads, a->cores_allowed / a->sharing > 0 ? a->cores_allowed / a->sharing : 1);
}

static void ranks_that_share_cores_share_threads(void **state)
{
    (void)state;
    cpu_set_t before, one;
    lsi_affinity a;
    int first = 0;

    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CHECK_OK(lsi_affinity_decide(job, 0, &a));
    check_law(&a);
    assert_int_equal(a.sharing, job->n_local);      /* the tests are not bound */

    /* One rank apart on a single core. */
    while (!CPU_ISSET(first, &before)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (job->rank == 0) {
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    }
    CHECK_OK(lsi_affinity_decide(job, 0, &a));
    check_law(&a);
    if (CPU_COUNT(&before) > 1) {
        assert_int_equal(a.sharing, job->rank == 0 ? 1 : job->n_local - 1);
    }
    CHECK_OK(lsi_affinity_decide(job, 5, &a));
    assert_int_equal(a.threads, 5);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    CHECK_OK(lsi_job_barrier(job));
}

static void cores_left_idle_by_binding_are_named(void **state)
{
    (void)state;
    static const struct {
        lsi_affinity affinity;
        const char *remedy;
    } cases[] = {
        {{.cores_allowed = 1, .cores_online = 8, .local_ranks = 2}, "slot:PE=4"},
        {{.cores_allowed = 1, .cores_online = 2, .local_ranks = 1}, "--bind-to none"},
        {{.cores_allowed = 1, .cores_online = 2, .local_ranks = 2}, NULL},     /* a core each: as it should be */
        {{.cores_allowed = 1, .cores_online = 1, .local_ranks = 1}, NULL},
        {{.cores_allowed = 4, .cores_online = 8, .local_ranks = 1}, NULL},     /* somebody's choice */
        {{.cores_allowed = 2, .cores_online = 2, .local_ranks = 8}, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lsi_text text = {0};
        lsi_affinity_warning(&cases[i].affinity, &text);
        if (cases[i].remedy == NULL) {
            assert_int_equal(text.length, 0);
        } else {
            assert_non_null(strstr(text.data, cases[i].remedy));
        }
        lsi_text_free(&text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_share_cores_share_threads),
        cmocka_unit_test(cores_left_idle_by_binding_are_named),
    };

    if (lsi_job_open("test_affinity", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    lsi_job_close(&job);
    return failures != 0 || lsi_memory_live_blocks() != 0;
}
