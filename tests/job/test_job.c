/* RUN: np=1,2,4 */
/* What rank 0 alone, or any other, knows and does must reach all: run with several world sizes. */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "job/job.h"

static lsi_job *job;

static void every_rank_has_its_place(void **state)
{
    (void)state;
    int place[3] = {job->rank, job->world, job->local_rank}, *all = malloc(sizeof place * (size_t)job->world);

    assert_in_range(job->rank, 0, job->world - 1);
    assert_in_range(job->n_local, 1, job->world);
    assert_in_range(job->n_nodes, 1, job->world);
    assert_true(strlen(job->host) > 0);
    CHECK_OK(lsi_job_all_gather(job, place, sizeof place, all));
    int known = 0, local = 0;
    for (int r = 0; r < job->world; r++) {
        assert_int_equal(all[3 * r], r);
        assert_int_equal(all[3 * r + 1], job->world);
        assert_true(job->node[r] <= known);         /* numbered by first appearance */
        known += job->node[r] == known;
        if (job->node[r] == job->node[job->rank]) {
            assert_int_equal(all[3 * r + 2], local++);
        }
    }
    assert_int_equal(known, job->n_nodes);
    assert_int_equal(local, job->n_local);
    free(all);
}

/* Standard error of this rank goes to a pipe between these two. */
static int saved_error, reader;

static void capture_error(void)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    saved_error = dup(2);
    dup2(ends[1], 2);
    close(ends[1]);
    reader = ends[0];
}

static void release_error(char *out, size_t room)
{
    fcntl(reader, F_SETFL, O_NONBLOCK);
    ssize_t n = read(reader, out, room - 1);
    out[n > 0 ? n : 0] = '\0';
    dup2(saved_error, 2);
    close(saved_error);
    close(reader);
}

/* For every set of failing ranks: all return the status of the lowest, which alone prints, one line. */
static void all_agree_whoever_fails(void **state)
{
    (void)state;
    static const ls_status kinds[] = {LS_ERR_DATA, LS_ERR_MEMORY, LS_ERR_OUTPUT, LS_ERR_NUMERIC};

    for (int failing = 0; failing < 1 << job->world; failing++) {
        int lowest = failing != 0 ? __builtin_ctz((unsigned)failing) : -1;
        ls_status mine = LS_OK;
        char printed[4096], expected[256] = "";

        if (failing >> job->rank & 1) {
            mine = LS_FAIL(kinds[job->rank % 4], "case %d of rank %d", failing, job->rank);
        }
        capture_error();
        ls_status agreed = lsi_job_agree(job, mine);
        release_error(printed, sizeof printed);

        assert_int_equal(agreed, lowest < 0 ? LS_OK : kinds[lowest % 4]);
        if (lowest == job->rank && job->world > 1) {
            snprintf(expected, sizeof expected, "test_job: error [rank %d/%d %s]: case %d of rank %d\n", lowest,
                     job->world, job->host, failing, lowest);
        } else if (lowest == job->rank) {
            snprintf(expected, sizeof expected, "test_job: error: case %d of rank %d\n", failing, lowest);
        }
        assert_string_equal(printed, expected);
        if (lowest >= 0 && lowest != job->rank) {
            snprintf(expected, sizeof expected, "rank %d failed", lowest);
            assert_non_null(strstr(ls_failure_message(), expected));
        }
    }
}

static unsigned char pattern(size_t i, int root)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)root);
}

/* Sizes around the pieces a broadcast is cut into. */
static void bytes_reach_every_rank(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, (4 << 20) - 1, 4 << 20, (9 << 20) + 5};
    unsigned char *data = malloc((9 << 20) + 6);

    for (int root = 0; root < job->world; root++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t i = 0; i < sizes[s]; i++) {
                data[i] = job->rank == root ? pattern(i, root) : 0;
            }
            data[sizes[s]] = 0xee;
            CHECK_OK(lsi_job_broadcast(job, data, sizes[s], root));
            for (size_t i = 0; i < sizes[s]; i++) {
                if (data[i] != pattern(i, root)) {
                    fail_msg("byte %zu of %zu from rank %d differs", i, sizes[s], root);
                }
            }
            assert_int_equal(data[sizes[s]], 0xee);
        }
    }
    free(data);
}

static void texts_reach_every_rank(void **state)
{
    (void)state;
    size_t before = lsi_memory_live_blocks();

    for (int root = 0; root < job->world; root++) {
        for (size_t length = 0; length < 6000000; length = length * 10 + 1) {
            char *text = NULL, *long_text = malloc(length + 1);
            memset(long_text, 'a' + root, length);
            long_text[length] = '\0';
            /* On other ranks there may be a text that is replaced, or none. */
            if (job->rank == root || length % 3 == 0) {
                CHECK_OK(lsi_memory_strdup(job->rank == root ? long_text : "old", &text));
            }
            CHECK_OK(lsi_job_broadcast_text(job, &text, root));
            assert_string_equal(text, long_text);
            free(long_text);
            lsi_memory_free(text);
        }
        char *none = NULL;
        if (job->rank != root) {
            CHECK_OK(lsi_memory_strdup("old", &none));
        }
        CHECK_OK(lsi_job_broadcast_text(job, &none, root));
        assert_null(none);
    }
    assert_int_equal(lsi_memory_live_blocks(), before);
}

static void a_text_without_room_fails_everywhere(void **state)
{
    (void)state;
    char *text = NULL, printed[4096];

    if (job->world == 1) {
        skip();
    }
    if (job->rank == 0) {
        CHECK_OK(lsi_memory_strdup("news", &text));
    }
    if (job->rank == job->world - 1) {
        lsi_memory_fail_at(1);
    }
    capture_error();
    ls_status status = lsi_job_broadcast_text(job, &text, 0);
    release_error(printed, sizeof printed);
    assert_int_equal(status, LS_ERR_MEMORY);
    assert_true((printed[0] != '\0') == (job->rank == job->world - 1));
    assert_true((text != NULL) == (job->rank == 0));
    lsi_memory_free(text);
}

static void gathers_and_maxima_see_all_ranks(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 1024, 300001};

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        unsigned char *mine = malloc(sizes[s]), *all = malloc(sizes[s] * (size_t)job->world);
        for (size_t i = 0; i < sizes[s]; i++) {
            mine[i] = pattern(i, job->rank);
        }
        CHECK_OK(lsi_job_all_gather(job, mine, sizes[s], all));
        for (size_t i = 0; i < sizes[s] * (size_t)job->world; i++) {
            if (all[i] != pattern(i % sizes[s], (int)(i / sizes[s]))) {
                fail_msg("byte %zu of %zu a rank differs", i, sizes[s]);
            }
        }
        free(mine);
        free(all);
    }
    double values[3] = {job->rank, -job->rank, 0.1};
    CHECK_OK(lsi_job_max(job, values, 3));
    assert_true(values[0] == job->world - 1 && values[1] == 0 && values[2] == 0.1);
    CHECK_OK(lsi_job_barrier(job));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_has_its_place),
        cmocka_unit_test(all_agree_whoever_fails),
        cmocka_unit_test(bytes_reach_every_rank),
        cmocka_unit_test(texts_reach_every_rank),
        cmocka_unit_test(a_text_without_room_fails_everywhere),
        cmocka_unit_test(gathers_and_maxima_see_all_ranks),
    };

    if (lsi_job_open("test_job", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    lsi_job_close(&job);
    return failures != 0 || job != NULL || lsi_memory_live_blocks() != 0;
}
