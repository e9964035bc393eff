#include "base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/tsan.h"

/* Lives on the stack of the thread that is in lsi_pool_run. All but the constants is under the pool's mutex. */
typedef struct job {
    lsi_pool_block block;
    void *argument;
    int64_t n_blocks, next, done;
    int priority;
    struct job *link;           /* the job queued after this one */
    pthread_cond_t finished;
} job;

struct lsi_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    job *jobs;                  /* those with blocks that nobody has claimed, oldest first */
    int idle;                   /* workers asleep on `work` */
    bool stop;
    int n_workers;
    pthread_t worker[];
};

/* Tells a nested call from an outer one; there is no other way to know. */
static _Thread_local bool inside_block;

/* Claims one block of `own`, or of the best job where own is NULL. NULL when there is none. With the mutex held. */
static job *claim(lsi_pool *pool, const job *own, int64_t *block)
{
    job **best = NULL;

    for (job **j = &pool->jobs; *j != NULL; j = &(*j)->link) {
        if (own != NULL ? *j == own : best == NULL || (*j)->priority > (*best)->priority) {
            best = j;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    job *claimed = *best;
    *block = claimed->next++;
    if (claimed->next == claimed->n_blocks) {
        *best = claimed->link;
    }
    return claimed;
}

/* Runs a claimed block without the mutex. After the last `done` the job's owner may return and its stack is gone, so
 * nothing of the job is touched once the mutex has been released again. */
static void run_block(lsi_pool *pool, job *j, int64_t block)
{
    pthread_mutex_unlock(&pool->mutex);
    inside_block = true;
    j->block(j->argument, block);
    inside_block = false;
    pthread_mutex_lock(&pool->mutex);
    j->done++;
    if (j->done == j->n_blocks) {
        pthread_cond_signal(&j->finished);
    }
}

static void *worker_main(void *argument)
{
    lsi_pool *pool = argument;
    int64_t block;

    lsi_tsan_hide();
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stop) {
        job *j = claim(pool, NULL, &block);

        if (j != NULL) {
            run_block(pool, j, block);
        } else {
            pool->idle++;
            pthread_cond_wait(&pool->work, &pool->mutex);
            pool->idle--;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    lsi_tsan_show();
    return NULL;
}

ls_status lsi_pool_create(int n_threads, lsi_pool **out)
{
    void *memory = NULL;

    LS_REQUIRE(n_threads >= 1, LS_ERR_INTERNAL, "a pool of %d threads; at least 1 is needed", n_threads);
    size_t workers_bytes = (size_t)(n_threads - 1) * sizeof(pthread_t);
    LS_TRY(lsi_memory_alloc(sizeof(lsi_pool) + workers_bytes, "compute threads", &memory));
    lsi_pool *pool = memory;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    while (pool->n_workers < n_threads - 1) {
        ls_status status = lsi_thread_start(&pool->worker[pool->n_workers], "compute", worker_main, pool);

        if (status != LS_OK) {
            lsi_pool_destroy(&pool);
            return status;
        }
        pool->n_workers++;
    }
    *out = pool;
    return LS_OK;
}

void lsi_pool_destroy(lsi_pool **pool_pointer)
{
    lsi_pool *pool = *pool_pointer;

    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->n_workers; i++) {
        pthread_join(pool->worker[i], NULL);
    }
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    lsi_memory_free(pool);
    *pool_pointer = NULL;
}

int lsi_pool_threads(const lsi_pool *pool)
{
    return pool->n_workers + 1;
}

void lsi_pool_run(lsi_pool *pool, int priority, int64_t n_blocks, lsi_pool_block block, void *argument)
{
    if (n_blocks <= 1 || inside_block || pool->n_workers == 0) {
        for (int64_t b = 0; b < n_blocks; b++) {
            block(argument, b);
        }
        return;
    }
    job j = {.block = block, .argument = argument, .n_blocks = n_blocks, .priority = priority};
    int64_t claimed;

    lsi_tsan_hide();
    pthread_cond_init(&j.finished, NULL);
    pthread_mutex_lock(&pool->mutex);
    job **last = &pool->jobs;
    while (*last != NULL) {
        last = &(*last)->link;
    }
    *last = &j;
    for (int64_t wake = pool->idle < n_blocks - 1 ? pool->idle : n_blocks - 1; wake > 0; wake--) {
        pthread_cond_signal(&pool->work);
    }
    while (claim(pool, &j, &claimed) != NULL) {
        run_block(pool, &j, claimed);
    }
    while (j.done < n_blocks) {
        pthread_cond_wait(&j.finished, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    pthread_cond_destroy(&j.finished);
    lsi_tsan_show();
}
