/* One pool of compute threads per process, shared by all streams of the cpu backend.
 *
 * A job is a number of fixed blocks. Which thread runs a block is free; what it computes must not depend on it. Several
 * threads may be in lsi_pool_run at once: a free worker takes one block at a time, from the job with the highest
 * priority, the oldest among equals; the caller runs blocks of its own job only. Own code: oneDNN's and libgomp's
 * threading give ThreadSanitizer false reports and cannot serve several streams at once. */
#ifndef LSI_BASE_POOL_H
#define LSI_BASE_POOL_H

#include <lockstep/status.h>
#include <stdint.h>

typedef struct lsi_pool lsi_pool;
typedef void (*lsi_pool_block)(void *argument, int64_t block);

/* n_threads counts the caller of lsi_pool_run: n_threads - 1 workers are started. */
LS_MUST_USE ls_status lsi_pool_create(int n_threads, lsi_pool **out);
void lsi_pool_destroy(lsi_pool **pool);     /* no job may be running */
int lsi_pool_threads(const lsi_pool *pool);
/* Runs block(argument, 0 .. n_blocks-1); returns when all are done. From inside a block it runs serially. */
void lsi_pool_run(lsi_pool *pool, int priority, int64_t n_blocks, lsi_pool_block block, void *argument);

#endif
