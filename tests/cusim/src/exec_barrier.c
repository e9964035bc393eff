/* __syncthreads and its reductions. A barrier remembers the line it was first reached at: threads of one block that
 * wait at two different ones are an error, as is one that some thread of the block can no longer reach. */
#include "exec.h"
#include "exec_tsan.h"

#include <string.h>

static void release_if_complete(void)
{
    cusim_exec_state *e = &cusim_exec;
    if (e->n_at_barrier == 0 || e->n_at_barrier != e->n_alive)
        return;
    e->n_at_barrier = 0;
    e->barrier_result = e->barrier_value;
    CUSIM_TS(cusim_sync.phase ^= 1;)
    for (int i = 0; i < e->n_threads; i++) {
        cusim_thread_record *thread = &e->threads[e->order[i]];
        if (thread->state == THREAD_AT_BARRIER)
            cusim_exec_make_ready(thread);
    }
}

int cusim_barrier(int reduce, int predicate, const char *file, int line)
{
    cusim_exec_state *e = &cusim_exec;
    cusim_thread_record *self = cusim_exec_self();
    if (e->n_alive != e->n_threads)
        cusim_exec_fail(file, line, "__syncthreads after some threads of the block have ended");
    if (e->n_at_barrier == 0) {
        e->barrier_file = file;
        e->barrier_line = line;
        e->barrier_kind = reduce;
        e->barrier_value = reduce == CUSIM_AND;
    } else if (e->barrier_line != line || e->barrier_kind != reduce || strcmp(e->barrier_file, file) != 0) {
        cusim_exec_fail(file, line, "divergent barrier: others of the block wait at line %d, this one",
                        e->barrier_line);
    }
    if (reduce == CUSIM_COUNT)
        e->barrier_value += predicate != 0;
    else if (reduce == CUSIM_OR)
        e->barrier_value |= predicate != 0;
    else if (reduce == CUSIM_AND)
        e->barrier_value &= predicate != 0;
    self->state = THREAD_AT_BARRIER;
    self->file = file;
    self->line = line;
    e->n_at_barrier++;
    CUSIM_TS(char *sync = cusim_sync.barrier[cusim_sync.phase]; __tsan_release(sync);)
    release_if_complete();
    cusim_exec_pause(self);
    CUSIM_TS(__tsan_acquire(sync);)
    return e->barrier_result;
}

void cusim_barrier_thread_ended(cusim_thread_record *thread)
{
    (void)thread;
    if (cusim_exec.n_at_barrier > 0)
        cusim_exec_fail(cusim_exec.barrier_file, cusim_exec.barrier_line,
                        "the thread ends while others of its block wait at __syncthreads");
}
