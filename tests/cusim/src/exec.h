/* The executor's own state, shared by exec*.c. One launch runs at a time, under the runtime's lock. */
#ifndef CUSIM_EXEC_PRIVATE_H
#define CUSIM_EXEC_PRIVATE_H

#include "cusim_exec.h"
#include "exec_context.h"
#include <stdbool.h>

enum { CUSIM_MAX_THREADS = 1024, CUSIM_WARP = 32, CUSIM_MAX_COPIES = 64 };

typedef struct cusim_fiber {
    cusim_context context;
    char *stack;
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
    struct cusim_fiber *next_idle, *next;
} cusim_fiber;

typedef enum thread_state {
    THREAD_NEW,
    THREAD_RUNNING,
    THREAD_READY,
    THREAD_AT_BARRIER,
    THREAD_IN_WARP,
    THREAD_DONE
} thread_state;

typedef struct pending_copy {
    void *target;
    const void *source;
    unsigned bytes;
    unsigned group;
} pending_copy;

typedef struct cusim_thread_record {
    cusim_thread_view view; /* first: what the kernel sees */
    thread_state state;
    const char *file; /* where it waits */
    int line;
    cusim_fiber *fiber; /* while it waits */
    void *tsan;         /* its ThreadSanitizer fiber */
    /* its part of the warp operation it is in */
    int argument, width;
    uint64_t in[2], result[2];
    void *out;
    const void *gather_in;
    /* cp.async */
    pending_copy *copies;
    unsigned n_copies, group;
} cusim_thread_record;

/* Lanes of a warp that wait for each other. */
typedef struct warp_meeting {
    unsigned mask, arrived;
    cusim_warp_kind kind;
    const char *file;
    int line;
} warp_meeting;
typedef struct cusim_warp_record {
    unsigned live;
    int n_meetings;
    warp_meeting meetings[CUSIM_WARP];
} cusim_warp_record;

typedef struct cusim_exec_state {
    const cusim_launch *launch;
    int n_threads, n_alive, next_new;
    cusim_thread_record threads[CUSIM_MAX_THREADS];
    cusim_warp_record warps[CUSIM_MAX_THREADS / CUSIM_WARP];
    int order[CUSIM_MAX_THREADS];
    int ready[CUSIM_MAX_THREADS + 1], ready_first, n_ready;
    int n_at_barrier, barrier_kind, barrier_value, barrier_result;
    const char *barrier_file;
    int barrier_line;
    bool faulted;
    uint64_t slept_nanoseconds;
} cusim_exec_state;
extern cusim_exec_state cusim_exec;

static inline cusim_thread_record *cusim_exec_self(void)
{
    return (cusim_thread_record *)(void *)cusim_thread;
}

/* exec_fiber.c */
void cusim_fiber_enter_block(void);                 /* the host starts a block's threads; returns when all have ended */
void cusim_fiber_reset(void);                       /* after a fault: threads were left where they stood */
void cusim_exec_pause(cusim_thread_record *thread); /* the calling thread waits: go on with another */
void cusim_exec_make_ready(cusim_thread_record *thread);
_Noreturn void cusim_exec_leave(void); /* straight back to the host, for faults */

/* exec_barrier.c, exec_warp.c: what an ending thread means to those who wait */
void cusim_barrier_thread_ended(cusim_thread_record *thread);
void cusim_warp_thread_ended(cusim_thread_record *thread);

/* exec.c */
_Noreturn __attribute__((format(printf, 3, 4))) void cusim_exec_fail(const char *file, int line, const char *format,
                                                                     ...);
_Noreturn void cusim_exec_stuck(void);
void cusim_exec_run_thread(cusim_thread_record *thread);
uint64_t cusim_exec_random(void);

/* Whether a device fault ends the kernel and is reported as CUDA does, instead of ending the program. */
extern bool cusim_exec_sticky_faults;

#endif
