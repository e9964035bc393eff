/* Fibers. One starts CUDA threads one after another on its stack until a thread has to wait; only then another fiber is
 * taken. So a kernel without barriers never switches. */
#include "exec.h"
#include "tsan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 128 << 10, GUARD_BYTES = 4096 };

static cusim_fiber host, *current, *idle, *all;
#ifdef CUSIM_TSAN
static void *host_tsan;
#endif

static void switch_to(cusim_fiber *to)
{
    cusim_fiber *from = current;
    current = to;
#ifdef __SANITIZE_ADDRESS__
    /* Never NULL as the first argument: that would free the fake stack of a fiber that is used again. */
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
    cusim_context_switch(&from->context, &to->context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* The next thread that can go on, made the running one; its fiber. NULL: none waits to go on. */
static cusim_fiber *take_ready(void)
{
    cusim_exec_state *e = &cusim_exec;
    if (e->n_ready == 0)
        return NULL;
    cusim_thread_record *next = &e->threads[e->ready[e->ready_first]];
    e->ready_first = (e->ready_first + 1) % (CUSIM_MAX_THREADS + 1);
    e->n_ready--;
    next->state = THREAD_RUNNING;
    cusim_thread = &next->view;
    CUSIM_TS(__tsan_switch_to_fiber(next->tsan, 1);)
    return next->fiber;
}

static void fiber_main(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    cusim_exec_state *e = &cusim_exec;
    for (;;) {
        while (e->next_new < e->n_threads && e->n_ready == 0)
            cusim_exec_run_thread(&e->threads[e->order[e->next_new++]]);
        /* No thread of its own now. */
        cusim_fiber *me = current;
        cusim_fiber *to = take_ready();
        if (to == NULL) {
            if (e->n_alive > 0)
                cusim_exec_stuck();
            to = &host;
            CUSIM_TS(__tsan_switch_to_fiber(host_tsan, 1);)
        }
        me->next_idle = idle;
        idle = me;
        switch_to(to);
    }
}

static cusim_fiber *get_fiber(void)
{
    cusim_fiber *fiber = idle;
    if (fiber != NULL) {
        idle = fiber->next_idle;
        return fiber;
    }
    fiber = calloc(1, sizeof *fiber);
    char *map = mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber == NULL || map == MAP_FAILED || mprotect(map, GUARD_BYTES, PROT_NONE) != 0) {
        perror("cusim: stack of a fiber");
        abort();
    }
    fiber->stack = map + GUARD_BYTES;
    fiber->stack_bytes = STACK_BYTES;
    fiber->next = all;
    all = fiber;
    cusim_context_make(&fiber->context, fiber->stack, fiber->stack_bytes, fiber_main);
    return fiber;
}

void cusim_exec_make_ready(cusim_thread_record *thread)
{
    cusim_exec_state *e = &cusim_exec;
    thread->state = THREAD_READY;
    e->ready[(e->ready_first + e->n_ready++) % (CUSIM_MAX_THREADS + 1)] = (int)(thread - e->threads);
}

void cusim_exec_pause(cusim_thread_record *thread)
{
    thread->fiber = current;
    cusim_fiber *to = take_ready();
    if (to == NULL) {
        if (cusim_exec.next_new >= cusim_exec.n_threads)
            cusim_exec_stuck();
        to = get_fiber();
    }
    if (to != current)
        switch_to(to);
}

void cusim_fiber_enter_block(void)
{
#ifdef __SANITIZE_ADDRESS__
    /* It wants to know the stack of whichever host thread runs this. */
    pthread_attr_t attributes;
    void *stack;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &stack, &host.stack_bytes);
        host.stack = stack;
        pthread_attr_destroy(&attributes);
    }
#endif
    CUSIM_TS(host_tsan = __tsan_get_current_fiber();)
    current = &host;
    switch_to(get_fiber());
}

void cusim_exec_leave(void)
{
    CUSIM_TS(__tsan_switch_to_fiber(host_tsan, 1);)
    switch_to(&host);
    abort();
}

void cusim_fiber_reset(void)
{
    idle = NULL;
    for (cusim_fiber *fiber = all; fiber != NULL; fiber = fiber->next) {
        cusim_context_make(&fiber->context, fiber->stack, fiber->stack_bytes, fiber_main);
        fiber->fake_stack = NULL;
        fiber->next_idle = idle;
        idle = fiber;
    }
}
