/* RUN: np=1,3 timeout=60 */
/* Memory that the ranks of a node share: pieces that do not overlap, and that all ranks find where one has written; the
 * meeting, in which ranks that launch different collectives are told so. */
#include "comm_case.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/arena.h"
#include "comm/meeting.h"

enum { N_PIECES = 40, HEAD = 100 };

static lsi_arena *open_arena(size_t head_bytes)
{
    lsi_arena *arena = NULL;

    CHECK_OK(lsi_arena_open(job, device, head_bytes, 20, &arena));
    assert_int_equal(arena->n, job->world);
    assert_int_equal(arena->rank[arena->self], job->rank);
    return arena;
}

static void test_pieces(void **state)
{
    lsi_arena *arena = open_arena(HEAD);
    unsigned char *piece[N_PIECES] = {NULL};
    size_t bytes[N_PIECES];
    uint32_t seed = 5;

    (void)state;
    for (int round = 0; round < 600; round++) {
        seed = seed * 1664525u + 1013904223u;
        int i = (int)(seed >> 16) % N_PIECES;

        if (piece[i] != NULL) {
            for (size_t k = 0; k < bytes[i]; k += 997) {        /* nobody else has written here */
                assert_int_equal(piece[i][k], i + 1);
            }
            lsi_arena_release(arena, piece[i]);
            piece[i] = NULL;
            continue;
        }
        size_t at;
        bytes[i] = (seed >> 8) % 7 == 0 ? (size_t)5 << 20 : (seed >> 4) % 20000;
        CHECK_OK(lsi_arena_alloc(arena, bytes[i], (void **)&piece[i]));
        assert_true(lsi_arena_holds(arena, piece[i], bytes[i], &at));
        assert_true(at >= HEAD && at % (size_t)sysconf(_SC_PAGESIZE) == 0);
        memset(piece[i], i + 1, bytes[i]);
    }
    lsi_arena_close(&arena);
    assert_null(arena);
}

static void test_bounds(void **state)
{
    lsi_arena *arena = open_arena(HEAD);
    char *base = arena->base[arena->self];
    size_t all = arena->bytes[arena->self], at;
    void *piece;
    int here;

    (void)state;
    assert_true(lsi_arena_holds(arena, base + HEAD, all - HEAD, &at) && at == HEAD);
    assert_false(lsi_arena_holds(arena, base + HEAD, all - HEAD + 1, &at));
    assert_false(lsi_arena_holds(arena, base + HEAD - 1, 1, &at));
    assert_false(lsi_arena_holds(arena, base - 1, 2, &at));
    assert_false(lsi_arena_holds(arena, base + all + 1, 0, &at));
    assert_false(lsi_arena_holds(arena, base + HEAD, SIZE_MAX, &at));
    assert_false(lsi_arena_holds(arena, &here, sizeof here, &at));
    CHECK_FAILS(lsi_arena_alloc(arena, (size_t)1 << 50, &piece), LS_ERR_MEMORY, "cannot allocate 1125899906842624 bytes");
    lsi_arena_release(arena, NULL);
    lsi_arena_close(&arena);
}

static void test_others_find_it(void **state)
{
    lsi_arena *arena = open_arena(0);
    size_t at[MAX_WORLD], mine;
    int *piece;

    (void)state;
    for (int i = 0; i <= job->rank; i++) {      /* at another offset on every rank */
        CHECK_OK(lsi_arena_alloc(arena, 10000, (void **)&piece));
    }
    *piece = 1000 + job->rank;
    assert_true(lsi_arena_holds(arena, piece, sizeof *piece, &mine));
    CHECK_OK(lsi_job_all_gather(job, &mine, sizeof mine, at));
    for (int r = 0; r < job->world; r++) {
        int *theirs = (int *)(void *)(arena->base[lsi_arena_index(arena, r)] + at[r]);

        assert_int_equal(*theirs, 1000 + r);
    }
    CHECK_OK(lsi_job_barrier(job));
    lsi_arena_close(&arena);
}

/* As a fresh one does, and leaves nothing. */
static void test_no_memory(void **state)
{
    size_t before = lsi_memory_live_blocks();
    lsi_arena *arena = NULL;
    long failures = 0;

    (void)state;
    for (bool opened = false; !opened; failures++) {
        lsi_memory_fail_at(failures + 1);
        opened = lsi_arena_open(job, device, HEAD, 20, &arena) == LS_OK;
        lsi_memory_fail_at(0);
        if (!opened) {
            assert_int_equal(lsi_memory_live_blocks(), before);
        }
    }
    assert_true(failures > 4);
    lsi_arena_close(&arena);
}

/* One rank fails: all are told, with its reason. */
static void test_one_fails(void **state)
{
    lsi_arena *arena = NULL;
    char reason[64];
    int victim = job->world - 1;

    (void)state;
    snprintf(reason, sizeof reason, "cannot share memory: rank %d: out of memory", victim);
    if (job->rank == victim) {
        lsi_memory_fail_at(2);
    }
    CHECK_FAILS(lsi_arena_open(job, device, HEAD, 20, &arena), LS_ERR_MEMORY, reason);
    lsi_memory_fail_at(0);
}

static void test_meetings(void **state)
{
    lsi_arena *arena = open_arena(lsi_meeting_head_bytes());
    atomic_bool aborted = false;
    lsi_meeting meeting;
    int *count;

    (void)state;
    lsi_meeting_open(arena, 20, NULL, &aborted, &meeting);
    CHECK_OK(lsi_arena_alloc(arena, sizeof *count, (void **)&count));
    lsi_meeting_task task = lsi_meeting_task_make("count", 4);
    CHECK_OK(lsi_meeting_task_set_target(arena, count, sizeof *count, &task));
    for (int i = 0; i < 2000; i++) {
        *count = i;
        CHECK_OK(lsi_meeting_begin(&meeting, &task));
        for (int r = 0; r < job->world; r++) {      /* what all were ready with, until all are done */
            assert_int_equal(*(int *)lsi_meeting_target(&meeting, r), i);
        }
        CHECK_OK(lsi_meeting_end(&meeting));
    }
    task.id = (uint32_t)job->rank;
    if (job->world > 1) {
        CHECK_FAILS(lsi_meeting_begin(&meeting, &task), LS_ERR_INTERNAL, "has launched collective");
    }
    CHECK_FAILS(lsi_meeting_task_add_source(arena, &meeting, 1, &task), LS_ERR_INTERNAL,
                "count: other ranks cannot reach 1 bytes of memory that this transport's alloc has not handed out");
    CHECK_OK(lsi_job_barrier(job));
    lsi_arena_close(&arena);
}

static void test_abort_ends_a_wait(void **state)
{
    lsi_arena *arena = open_arena(lsi_meeting_head_bytes());
    atomic_bool aborted = true;
    lsi_meeting meeting;
    lsi_meeting_task task = lsi_meeting_task_make("nothing", 0);

    (void)state;
    lsi_meeting_open(arena, 20, NULL, &aborted, &meeting);
    if (job->rank == 0 && job->world > 1) {     /* the others do not come */
        CHECK_FAILS(lsi_meeting_begin(&meeting, &task), LS_ERR_COMM, "communication was aborted");
    }
    CHECK_OK(lsi_job_barrier(job));
    lsi_arena_close(&arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),           cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_others_find_it),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_one_fails),        cmocka_unit_test(test_meetings),
        cmocka_unit_test(test_abort_ends_a_wait),
    };

    return start_tests("test_arena", argc, argv) ? end_tests(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
