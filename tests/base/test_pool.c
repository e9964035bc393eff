/* RUN: label=tsan timeout=60 */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/thread.h"

enum { MOST = 1000 };

/* ---- every block runs exactly once, whatever the number of threads and blocks -------------------------------- */

static void count_block(void *argument, int64_t block)
{
    atomic_int *runs = argument;

    runs[block]++;
}

static void each_block_runs_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, MOST};

    for (int threads = 1; threads <= 4; threads++) {
        lsi_pool *pool = NULL;

        CHECK_OK(lsi_pool_create(threads, &pool));
        assert_int_equal(lsi_pool_threads(pool), threads);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            static atomic_int runs[MOST];

            memset(runs, 0, sizeof runs);
            lsi_pool_run(pool, 0, sizes[i], count_block, runs);
            for (int64_t b = 0; b < MOST; b++) {
                assert_int_equal(runs[b], b < sizes[i] ? 1 : 0);
            }
        }
        lsi_pool_destroy(&pool);
        assert_null(pool);
    }
    lsi_pool_destroy(&(lsi_pool *){NULL});
    test_check_no_memory_live();
}

static void needs_a_thread(void **state)
{
    lsi_pool *pool = NULL;

    (void)state;
    CHECK_FAILS(lsi_pool_create(0, &pool), LS_ERR_INTERNAL, "pool of 0 threads");
    assert_null(pool);
}

/* ---- several callers at once, each with its own sums --------------------------------------------------------- */

typedef struct sums {
    lsi_pool *pool;
    int priority;
    double block[64], total;
} sums;

static void sum_block(void *argument, int64_t block)
{
    sums *s = argument;

    s->block[block] = 0;
    for (int i = 1; i <= 200; i++) {
        s->block[block] += 1.0 / (double)(block * 200 + i + s->priority);
    }
}

static void *sum_repeatedly(void *argument)
{
    sums *s = argument;

    for (int round = 0; round < 100; round++) {
        lsi_pool_run(s->pool, s->priority, 64, sum_block, s);
        s->total = 0;
        for (int b = 0; b < 64; b++) {
            s->total += s->block[b];
        }
    }
    return NULL;
}

static void same_bits_for_any_threads_and_callers(void **state)
{
    double expected[3] = {0};

    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        lsi_pool *pool = NULL;
        pthread_t caller[3];
        static sums s[3];

        CHECK_OK(lsi_pool_create(threads, &pool));
        for (int i = 0; i < 3; i++) {
            s[i] = (sums){.pool = pool, .priority = i};
            CHECK_OK(lsi_thread_start(&caller[i], "caller", sum_repeatedly, &s[i]));
        }
        for (int i = 0; i < 3; i++) {
            pthread_join(caller[i], NULL);
            if (threads == 1) {
                expected[i] = s[i].total;
            }
            assert_memory_equal(&s[i].total, &expected[i], sizeof(double));
        }
        lsi_pool_destroy(&pool);
    }
}

/* ---- nesting ------------------------------------------------------------------------------------------------- */

typedef struct nest {
    lsi_pool *pool;
    atomic_int inner, elsewhere;
    pthread_t thread[8];        /* that runs the outer block */
    int64_t last[8];            /* inner block that ran last */
} nest;

typedef struct nest_inner {
    nest *n;
    int64_t outer;
} nest_inner;

static void inner_block(void *argument, int64_t block)
{
    nest_inner *i = argument;

    i->n->inner++;
    if (!pthread_equal(pthread_self(), i->n->thread[i->outer]) || i->n->last[i->outer] != block - 1) {
        i->n->elsewhere++;
    }
    i->n->last[i->outer] = block;
}

static void outer_block(void *argument, int64_t block)
{
    nest *n = argument;

    n->thread[block] = pthread_self();
    n->last[block] = -1;
    lsi_pool_run(n->pool, 0, 5, inner_block, &(nest_inner){n, block});
}

static void nested_runs_are_serial(void **state)
{
    static nest n;

    (void)state;
    CHECK_OK(lsi_pool_create(3, &n.pool));
    lsi_pool_run(n.pool, 0, 8, outer_block, &n);
    assert_int_equal(n.inner, 40);
    assert_int_equal(n.elsewhere, 0);
    lsi_pool_destroy(&n.pool);
}

/* ---- priority: the only worker is held at a gate until all jobs wait for it ---------------------------------- */

static struct {
    lsi_pool *pool;
    atomic_int held, open;
    atomic_int n_worker_blocks;
} gate;

static void gate_block(void *argument, int64_t block)
{
    (void)argument, (void)block;
    gate.held++;
    while (!gate.open) {
        usleep(100);
    }
}

static void *hold_gate(void *argument)
{
    (void)argument;
    lsi_pool_run(gate.pool, 0, 2, gate_block, NULL);    /* its caller and the only worker stop here */
    return NULL;
}

/* A job whose caller is stuck in its first block, so that the worker runs all the others. */
typedef struct stuck {
    int priority;
    pthread_t caller;
    atomic_int started, n_done;
    int order[8];
} stuck;

static void stuck_block(void *argument, int64_t block)
{
    stuck *s = argument;

    if (pthread_equal(pthread_self(), s->caller)) {
        s->started = 1;
        while (s->n_done < 7) {
            usleep(100);
        }
    } else {
        s->order[block] = ++gate.n_worker_blocks;
        s->n_done++;
    }
}

static void *run_stuck(void *argument)
{
    stuck *s = argument;

    s->caller = pthread_self();
    lsi_pool_run(gate.pool, s->priority, 8, stuck_block, s);
    return NULL;
}

static void urgent_blocks_go_first_and_older_among_equals(void **state)
{
    static stuck job[3] = {{.priority = 0}, {.priority = 0}, {.priority = 1}};
    pthread_t holder, caller[3];
    int lowest[3], highest[3];

    (void)state;
    CHECK_OK(lsi_pool_create(2, &gate.pool));
    CHECK_OK(lsi_thread_start(&holder, "holder", hold_gate, NULL));
    while (gate.held < 2) {
        usleep(100);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_OK(lsi_thread_start(&caller[i], "caller", run_stuck, &job[i]));
        while (!job[i].started) {
            usleep(100);
        }
    }
    gate.open = 1;
    pthread_join(holder, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_join(caller[i], NULL);
        lowest[i] = 100;
        highest[i] = 0;
        for (int b = 1; b < 8; b++) {       /* the caller has block 0 */
            lowest[i] = job[i].order[b] < lowest[i] ? job[i].order[b] : lowest[i];
            highest[i] = job[i].order[b] > highest[i] ? job[i].order[b] : highest[i];
        }
    }
    assert_true(highest[2] < lowest[0]);
    assert_true(highest[0] < lowest[1]);
    lsi_pool_destroy(&gate.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_runs_once),
        cmocka_unit_test(needs_a_thread),
        cmocka_unit_test(same_bits_for_any_threads_and_callers),
        cmocka_unit_test(nested_runs_are_serial),
        cmocka_unit_test(urgent_blocks_go_first_and_older_among_equals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
