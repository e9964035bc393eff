/* Threads behind the host's back. One lets streams go on while no host thread calls in, as a device does while the host
 * waits in MPI or polls memory; it starts when there is a reason, since it makes runs a little less reproducible. The
 * other one runs host functions. */
#include "runtime.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void start(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        cusim_die("cannot start a thread");
    pthread_detach(thread);
}

/* ---- progress ------------------------------------------------------------------------------- */

static void *keep_going(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    for (;;) {
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        cusim_lock();
        if (seen == cusim.n_calls)
            cusim_pass_by_host();
        seen = cusim.n_calls;
        cusim_unlock();
    }
    return NULL;
}

void cusim_need_progress(void)
{
    static bool started;
    cusim_lock();
    bool needed = !started;
    started = true;
    cusim_unlock();
    if (needed)
        start(keep_going);
}

/* ---- host functions ------------------------------------------------------------------------- */

static struct posted {
    struct posted *next;
    op *operation;
    void *tsan_fiber;
} * first, **last = &first;
static uint32_t n_posted;

static void *run_host_functions(void *unused)
{
    (void)unused;
    CUSIM_TS(void *self = __tsan_get_current_fiber();)
    uint32_t n_seen = 0;
    for (;;) {
        uint32_t n = __atomic_load_n(&n_posted, __ATOMIC_ACQUIRE);
        if (n == n_seen)
            syscall(SYS_futex, &n_posted, FUTEX_WAIT_PRIVATE, n, NULL, NULL, 0);
        cusim_lock();
        struct posted *call = first;
        if (call != NULL) {
            first = call->next;
            if (first == NULL)
                last = &first;
        }
        cusim_unlock();
        if (call == NULL)
            continue;
        n_seen++;
        cusim_in_host_function = true;
        CUSIM_TS(__tsan_switch_to_fiber(call->tsan_fiber, 1);)
        call->operation->u.host.function(call->operation->u.host.argument);
        CUSIM_TS(__tsan_switch_to_fiber(self, 1);)
        cusim_in_host_function = false;
        cusim_lock();
        call->operation->u.host.state = HOST_DONE;
        cusim_unlock();
        free(call);
    }
    return NULL;
}

void cusim_run_host_function(op *operation, void *tsan_fiber)
{
    static bool started;
    struct posted *call = calloc(1, sizeof *call);
    if (call == NULL)
        cusim_die("out of host memory");
    call->operation = operation;
    call->tsan_fiber = tsan_fiber;
    *last = call;
    last = &call->next;
    if (!started) {
        started = true;
        start(run_host_functions);
    }
    __atomic_fetch_add(&n_posted, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &n_posted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
