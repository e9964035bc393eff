#include "support/op_run.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/isa.h"
#include "base/failure.h"
#include "base/thread.h"
#include "support/test.h"

_Static_assert(LSI_ISA_COUNT <= (int)OP_RUN_LEVELS_MAX, "a level for each");

enum { MAX_THREADS = 3 };

/* One execution of the op, on a thread that is set up as a stream's thread is. */
typedef struct execution {
    const ls_op *op;
    const void *arguments;
    ls_cpu_run run;
    ls_status status;
    lsi_failure failure;
} execution;

static ls_cpu_run current;

static int levels(void)
{
    return (int)lsi_isa_best() + 1;
}

static const char *level_name(int level)
{
    return lsi_isa_name((lsi_isa)level);
}

static int max_threads(void)
{
    return MAX_THREADS;
}

static void begin(int level, int n_threads)
{
    CHECK_OK(lsi_pool_create(n_threads, &current.pool));
    current.isa = level;
}

static void end(void)
{
    lsi_pool_destroy(&current.pool);
}

static void *execute(void *argument)
{
    execution *e = argument;

    e->status = e->op->cpu(&e->run, e->arguments);
    if (e->status != LS_OK) {
        lsi_failure_take(&e->failure);
    }
    return NULL;
}

static ls_status run(const ls_op *op, const void *arguments, const op_run_memory *memories, int n_memories)
{
    execution e = {.op = op, .arguments = arguments, .run = current};
    pthread_t thread;

    (void)memories, (void)n_memories;
    CHECK_OK(lsi_thread_start(&thread, "op", execute, &e));
    pthread_join(thread, NULL);
    return e.status == LS_OK ? LS_OK : lsi_failure_adopt(&e.failure);
}

const op_runner op_runner_cpu = {
    .levels = levels,
    .level_name = level_name,
    .max_threads = max_threads,
    .any_nan = false,
    .begin = begin,
    .end = end,
    .run = run,
};
