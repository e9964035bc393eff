/* RUN: */
/* What ranks conclude from each other's beats, in worlds of any size and in a time that the test makes. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/liveness.h"

enum { MAX_WORLD = 200, NOBODY = -1 };
static const double timeout = 10, interval = 2, tick = 0.25;

/* ---- a job ------------------------------------------------------------------------------------------------------- */

typedef struct sim {
    int world;
    double now;
    lsi_liveness rank[MAX_WORLD];
    uint64_t progress[MAX_WORLD];
    double stopped_at[MAX_WORLD]; /* from then on it neither tells nor concludes */
    double stands_at[MAX_WORLD];  /* from then on it does not get on */
    double waits_at[MAX_WORLD];   /* from then on it says that it waits for others */
    double leaves_at[MAX_WORLD];
    int n_failed, first_failed;
    double failed_at;
    char text[1024]; /* what the first one says */
} sim;

static sim *make(int world)
{
    sim *s = calloc(1, sizeof *s);
    char(*hosts)[LSI_JOB_HOST] = calloc((size_t)world, sizeof *hosts);

    assert_true(s != NULL && hosts != NULL);
    s->world = world;
    s->first_failed = NOBODY;
    for (int r = 0; r < world; r++) {
        snprintf(hosts[r], sizeof hosts[r], "host%d", r);
        s->stopped_at[r] = s->stands_at[r] = s->waits_at[r] = s->leaves_at[r] = 1e9;
    }
    for (int r = 0; r < world; r++) {
        lsi_liveness_open(r, world, timeout, hosts, 0, &s->rank[r]);
    }
    free(hosts);
    return s;
}

static int index_of(const lsi_liveness *l, int rank)
{
    for (int p = 0; p < l->n_peers; p++) {
        if (l->peer[p].rank == rank) {
            return p;
        }
    }
    fail_msg("rank %d tells rank %d, which does not listen", rank, l->rank);
    return -1;
}

static void tell(sim *s, int r)
{
    lsi_beat beat;

    s->rank[r].self.left = s->now >= s->leaves_at[r];
    lsi_liveness_beat(&s->rank[r], s->now, &beat);
    for (int p = 0; p < s->rank[r].n_peers; p++) {
        lsi_liveness *other = &s->rank[s->rank[r].peer[p].rank];
        int from = index_of(other, r);

        if (!other->peer[from].left) {
            lsi_liveness_hear(other, s->now, from, &beat);
        }
    }
}

/* As the watchdog, which is over when all its peers have left. */
static bool is_over(const lsi_liveness *l)
{
    bool over = l->self.left;

    for (int p = 0; p < l->n_peers; p++) {
        over = over && l->peer[p].left;
    }
    return over;
}

static void conclude(sim *s, int r)
{
    lsi_text text = {0};

    if (is_over(&s->rank[r]) || !lsi_liveness_failed(&s->rank[r], s->now)) {
        return;
    }
    if (s->n_failed++ == 0) {
        s->first_failed = r;
        s->failed_at = s->now;
        lsi_liveness_describe(&s->rank[r], s->now, &text);
        CHECK_OK(lsi_text_status(&text));
        snprintf(s->text, sizeof s->text, "%s", text.data);
        lsi_text_free(&text);
    }
}

/* Until the first rank ends the job, or for this long. Ranks beat one after the other, not together. */
static void run(sim *s, double seconds)
{
    for (int64_t step = 0; s->now < seconds && s->n_failed == 0; step++) {
        s->now = (double)step * tick;
        for (int r = 0; r < s->world; r++) {
            char where[64];

            if (s->now >= s->stopped_at[r]) {
                continue;
            }
            s->progress[r] += s->now < s->stands_at[r];
            snprintf(where, sizeof where, "place %d", (int)s->progress[r]);
            lsi_liveness_note(&s->rank[r], s->now, s->progress[r], where, s->now >= s->waits_at[r]);
            if ((step + r) % (int)(interval / tick) == 0) {
                tell(s, r);
            }
        }
        for (int r = 0; r < s->world; r++) {
            if (s->now < s->stopped_at[r]) {
                conclude(s, r);
            }
        }
    }
}

/* ---- laws -------------------------------------------------------------------------------------------------------- */

static const int worlds[] = {1, 2, 3, 4, 7, 63, 64, 65, 66, 100, 128, 199};
enum { N_WORLDS = sizeof worlds / sizeof worlds[0] };

static void whoever_is_told_listens(void **state)
{
    (void)state;
    for (int world = 1; world <= MAX_WORLD; world++) {
        for (int r = 0; r < world; r++) {
            int peers[LSI_LIVENESS_MAX_PEERS], back[LSI_LIVENESS_MAX_PEERS];
            int n = lsi_liveness_peers(r, world, peers);

            assert_in_range(n, world > 1, LSI_LIVENESS_MAX_PEERS);
            assert_true(world <= 64 ? n == world - 1 : n <= 2 * 8);
            for (int p = 0; p < n; p++) {
                int n_back = lsi_liveness_peers(peers[p], world, back), found = 0;

                assert_in_range(peers[p], p > 0 ? peers[p - 1] + 1 : 0, world - 1);
                assert_int_not_equal(peers[p], r);
                for (int i = 0; i < n_back; i++) {
                    found += back[i] == r;
                }
                assert_int_equal(found, 1);
            }
        }
    }
}

static void a_job_that_gets_on_goes_on(void **state)
{
    (void)state;
    for (int i = 0; i < N_WORLDS; i++) {
        sim *s = make(worlds[i]);

        run(s, 100);
        assert_int_equal(s->n_failed, 0);
        free(s);
    }
}

/* All others wait, and hear of it over several ranks. */
static void one_rank_that_computes_is_enough(void **state)
{
    (void)state;
    for (int i = 0; i < N_WORLDS; i++) {
        for (int busy = 0; busy < worlds[i]; busy += worlds[i] / 2 + 1) {
            sim *s = make(worlds[i]);

            for (int r = 0; r < s->world; r++) {
                s->stands_at[r] = r == busy ? 1e9 : 20;
            }
            run(s, 200);
            assert_int_equal(s->n_failed, 0);
            free(s);
        }
    }
}

static void a_silent_rank_is_named_once_and_soon(void **state)
{
    (void)state;
    for (int i = 1; i < N_WORLDS; i++) {
        for (int silent = 0; silent < worlds[i]; silent += worlds[i] / 5 + 1) {
            for (int others_get_on = 0; others_get_on < 2; others_get_on++) {
                sim *s = make(worlds[i]);
                char name[64];

                s->stopped_at[silent] = 30;
                for (int r = 0; r < s->world && !others_get_on; r++) {
                    s->stands_at[r] = 30;
                }
                run(s, 100);
                snprintf(name, sizeof name, "rank %d on host%d has not been heard of for 1", silent, silent);
                if (s->n_failed != 1 || strncmp(s->text, name, strlen(name)) != 0) {
                    fail_msg("world %d, rank %d silent: %d ranks fail, first %d: %s", s->world, silent, s->n_failed,
                             s->first_failed, s->text);
                }
                assert_non_null(strstr(s->text, "it was at place 1"));
                assert_non_null(strstr(s->text, "(comm.timeout is 10 s)"));
                assert_true(s->failed_at > 30 + timeout - interval && s->failed_at < 30 + timeout + 2);
                free(s);
            }
        }
    }
}

/* That they stand still is noticed first, for they have for longer. */
static void a_silent_rank_is_to_blame_for_those_who_wait(void **state)
{
    sim *s = make(3);

    (void)state;
    s->stands_at[0] = s->stands_at[1] = s->stands_at[2] = 28;
    s->stopped_at[1] = 30;
    run(s, 100);
    assert_int_equal(s->n_failed, 1);
    assert_true(s->failed_at < 30 + timeout);
    assert_int_equal(strncmp(s->text, "rank 1 on host1 has not been heard of for ", 42), 0);
    free(s);
}

static void several_silent_ranks_are_all_named(void **state)
{
    sim *s = make(5);

    (void)state;
    s->stopped_at[0] = s->stopped_at[1] = s->stopped_at[3] = 30;
    run(s, 100);
    assert_int_equal(s->first_failed, 2);
    assert_int_equal(s->n_failed, 1);
    assert_non_null(strstr(s->text, "rank 0 on host0 has not been heard of"));
    assert_non_null(strstr(s->text, "rank 1 on host1 has not been heard of"));
    assert_non_null(strstr(s->text, "rank 3 on host3 has not been heard of"));
    assert_null(strstr(s->text, "rank 2"));
    assert_true(s->failed_at < 30 + timeout + 4);
    free(s);
}

/* One hangs, the others come to wait for it a little later. */
static void the_rank_that_hangs_first_is_named(void **state)
{
    (void)state;
    for (int i = 1; i < N_WORLDS && worlds[i] <= 64; i++) {
        for (int hung = 0; hung < worlds[i]; hung += worlds[i] / 3 + 1) {
            sim *s = make(worlds[i]);
            char name[64];

            for (int r = 0; r < s->world; r++) {
                s->stands_at[r] = r == hung ? 30 : 32 + 0.25 * (r % 3);
            }
            run(s, 100);
            snprintf(name, sizeof name, "rank %d on host%d is furthest behind, for 1", hung, hung);
            if (s->n_failed != 1 || s->first_failed != 0 || strstr(s->text, name) == NULL) {
                fail_msg("world %d, rank %d hangs: %d ranks fail, first %d: %s", s->world, hung, s->n_failed,
                         s->first_failed, s->text);
            }
            assert_int_equal(strncmp(s->text, "no rank has got on for 1", 24), 0);
            assert_true(s->failed_at > 32 + timeout && s->failed_at < 32 + timeout + 3);
            free(s);
        }
    }
}

static void of_ranks_that_stop_together_the_one_least_far_is_named(void **state)
{
    sim *s = make(3);

    (void)state;
    s->stands_at[0] = s->stands_at[2] = 30.5;
    s->stands_at[1] = 30;
    run(s, 100);
    assert_non_null(strstr(s->text, "rank 1 on host1 is furthest behind"));
    assert_non_null(strstr(s->text, "; this rank is at place "));
    free(s);
}

/* The others have waited for it all the while that it worked. */
static void whoever_waits_is_not_to_blame(void **state)
{
    sim *s = make(4);

    (void)state;
    for (int r = 0; r < 4; r++) {
        s->stands_at[r] = s->waits_at[r] = r == 2 ? 1e9 : 20;
    }
    s->stands_at[2] = 40;
    run(s, 100);
    assert_int_equal(s->n_failed, 1);
    assert_non_null(strstr(s->text, "rank 2 on host2 is furthest behind"));
    free(s);
}

static void a_rank_alone_says_where_it_stands(void **state)
{
    sim *s = make(1);

    (void)state;
    s->stands_at[0] = 30;
    run(s, 100);
    assert_int_equal(s->n_failed, 1);
    assert_int_equal(strncmp(s->text, "nothing has got on for 11", 25), 0);
    assert_non_null(strstr(s->text, "at place 120 (comm.timeout is 10 s)"));
    free(s);
}

/* Ranks leave one after the other; who has left is silent, and no failure. One that never does is. */
static void leaving_is_no_failure(void **state)
{
    (void)state;
    for (int i = 1; i < N_WORLDS; i++) {
        sim *s = make(worlds[i]);

        for (int r = 0; r < s->world; r++) {
            s->leaves_at[r] = 20 + r % 7;
            s->stands_at[r] = r == 1 ? 60 : s->leaves_at[r]; /* which it says long before */
        }
        s->leaves_at[1] = 60;
        run(s, 61);
        assert_int_equal(s->n_failed, 0);
        free(s);
    }
    sim *s = make(4);
    for (int r = 0; r < 4; r++) {
        s->leaves_at[r] = r == 2 ? 1e9 : 20;
        s->stands_at[r] = r == 2 ? 25 : 20;
    }
    run(s, 100);
    assert_int_equal(s->n_failed, 1);
    assert_non_null(strstr(s->text, "rank 2 on host2 is furthest behind"));
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_told_listens),
        cmocka_unit_test(a_job_that_gets_on_goes_on),
        cmocka_unit_test(one_rank_that_computes_is_enough),
        cmocka_unit_test(a_silent_rank_is_named_once_and_soon),
        cmocka_unit_test(a_silent_rank_is_to_blame_for_those_who_wait),
        cmocka_unit_test(several_silent_ranks_are_all_named),
        cmocka_unit_test(the_rank_that_hangs_first_is_named),
        cmocka_unit_test(of_ranks_that_stop_together_the_one_least_far_is_named),
        cmocka_unit_test(whoever_waits_is_not_to_blame),
        cmocka_unit_test(a_rank_alone_says_where_it_stands),
        cmocka_unit_test(leaving_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
