/* RUN: np=1,2,4 label=tsan */
/* What others report reaches rank 0, in order, whole, and nobody waits for it; closing takes what is still under way. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "job/reports.h"

static lsi_job *job;

enum { WORDS = 5000, REPORTS = 20 }; /* 40 kB: more than MPI sends ahead */

static int *everyone(void)
{
    int *ranks = calloc((size_t)job->world, sizeof *ranks);

    for (int r = 1; r < job->world; r++) {
        ranks[r - 1] = r;
    }
    return ranks;
}

static void fill(int64_t *words, int64_t rank, int64_t number)
{
    for (int i = 0; i < WORDS; i++) {
        words[i] = rank * 1000003 + number * 10007 + i;
    }
}

static void send_all(lsi_reports *reports)
{
    int64_t *words = malloc(WORDS * sizeof *words);

    for (int number = 1; number <= REPORTS; number++) {
        fill(words, job->rank, number);
        while (!lsi_reports_send(reports, words)) { /* dropped: here nothing may be */
            usleep(1000);
        }
        memset(words, 0xff, WORDS * sizeof *words); /* it is the caller's again */
    }
    free(words);
}

static void receive_all(lsi_reports *reports)
{
    int64_t *words = malloc(WORDS * sizeof *words), *expected = malloc(WORDS * sizeof *words);
    int *seen = calloc((size_t)job->world, sizeof *seen), total = 0, sender;
    double end = lsi_clock_seconds() + 60;

    while (total < REPORTS * (job->world - 1) && lsi_clock_seconds() < end) {
        if (!lsi_reports_receive(reports, &sender, words)) {
            usleep(500);
            continue;
        }
        assert_in_range(sender, 0, job->world - 2);
        fill(expected, sender + 1, ++seen[sender]);
        assert_memory_equal(words, expected, WORDS * sizeof *words);
        total++;
    }
    assert_int_equal(total, REPORTS * (job->world - 1));
    assert_false(lsi_reports_receive(reports, &sender, words));
    free(words);
    free(expected);
    free(seen);
}

static void reports_arrive(void **state)
{
    int *ranks = everyone();
    lsi_reports *reports = NULL;

    (void)state;
    CHECK_OK(lsi_reports_open(job, ranks, job->world - 1, WORDS * sizeof(int64_t), &reports));
    if (job->rank == 0 && reports != NULL) {
        receive_all(reports);
    } else if (reports != NULL) {
        send_all(reports);
    }
    lsi_reports_close(&reports);
    assert_null(reports);
    free(ranks);
}

/* Rank 0 takes nothing: senders drop what they cannot send and are not held up; closing ends all the same. */
static void nobody_waits_for_rank_0(void **state)
{
    int *ranks = everyone();
    int64_t *words = calloc(WORDS, sizeof *words);
    lsi_reports *reports = NULL;
    int dropped = 0;

    (void)state;
    CHECK_OK(lsi_reports_open(job, ranks, job->world - 1, WORDS * sizeof(int64_t), &reports));
    if (job->rank != 0 && reports != NULL) {
        for (int i = 0; i < 1000; i++) {
            dropped += !lsi_reports_send(reports, words);
        }
        assert_true(dropped > 0);
    }
    lsi_reports_close(&reports);
    free(words);
    free(ranks);
}

static void those_who_do_not_report_have_none(void **state)
{
    int last = job->world - 1;
    lsi_reports *reports = NULL;

    (void)state;
    CHECK_OK(lsi_reports_open(job, &last, last > 0, 8, &reports));
    if (job->rank != 0 && job->rank != last) {
        assert_null(reports);
    }
    lsi_reports_close(&reports);
}

int main(int argc, char **argv)
{
    if (lsi_job_open("test", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_arrive),
        cmocka_unit_test(nobody_waits_for_rank_0),
        cmocka_unit_test(those_who_do_not_report_have_none),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lsi_job_close(&job);
    return failed;
}
