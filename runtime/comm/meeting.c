#include "comm/meeting.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/patience.h"

/* Written by its rank alone, but for the sleepers. What is written often has cache lines of its own. */
typedef struct lsi_desk {
    _Alignas(128) _Atomic uint32_t phase;    /* 2 i - 1: ready for the i-th meeting; 2 i: done with it */
    _Alignas(128) _Atomic uint32_t n_sleepers;
    _Alignas(128) lsi_meeting_task task;
} lsi_desk;

/* Measured with two ranks on two cores: who comes second is seldom later than this. */
enum { SPINS = 400, YIELDS = 200, SLEEP_NANOSECONDS = 20 * 1000 * 1000 };

size_t lsi_meeting_head_bytes(void)
{
    return sizeof(lsi_desk);
}

static lsi_desk *desk_of(const lsi_meeting *meeting, int i)
{
    return (lsi_desk *)(void *)meeting->arena->base[i];
}

void lsi_meeting_open(const lsi_arena *arena, double timeout_seconds, const lsi_watchdog *watchdog,
                      const atomic_bool *aborted, lsi_meeting *out)
{
    *out = (lsi_meeting){
        .arena = arena,
        .timeout_seconds = timeout_seconds,
        .watchdog = watchdog,
        .aborted = aborted,
        .n_spins = arena->n <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS : 0,
    };
}

/* ---- tasks --------------------------------------------------------------------------------------------------- */

lsi_meeting_task lsi_meeting_task_make(const char *name, size_t bytes)
{
    lsi_meeting_task task = {.bytes = bytes};

    snprintf(task.name, sizeof task.name, "%s", name);
    return task;
}

static ls_status place(const lsi_arena *arena, const void *data, size_t bytes, const lsi_meeting_task *task, size_t *at)
{
    *at = 0;
    LS_REQUIRE(bytes == 0 || lsi_arena_holds(arena, data, bytes, at), LS_ERR_INTERNAL,
               "%s: other ranks cannot reach %zu bytes of memory that this transport's alloc has not handed out",
               task->name, bytes);
    return LS_OK;
}

ls_status lsi_meeting_task_add_source(const lsi_arena *arena, const void *data, size_t bytes, lsi_meeting_task *task)
{
    LS_TRY(place(arena, data, bytes, task, &task->source[task->n_sources]));
    task->n_sources++;
    return LS_OK;
}

ls_status lsi_meeting_task_set_target(const lsi_arena *arena, const void *data, size_t bytes, lsi_meeting_task *task)
{
    return place(arena, data, bytes, task, &task->target);
}

/* ---- waiting ------------------------------------------------------------------------------------------------- */

/* Sequentially consistent here and in `doze`: a sleeper that this does not see has not looked at the phase yet. */
static void announce(const lsi_meeting *meeting, uint32_t phase)
{
    lsi_desk *mine = desk_of(meeting, meeting->arena->self);

    atomic_store(&mine->phase, phase);
    if (atomic_load(&mine->n_sleepers) > 0) {
        syscall(SYS_futex, &mine->phase, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

static bool has_reached(lsi_desk *desk, uint32_t phase)
{
    return (int32_t)(atomic_load_explicit(&desk->phase, memory_order_acquire) - phase) >= 0;
}

static void doze(lsi_desk *desk, uint32_t phase)
{
    struct timespec most = {.tv_nsec = SLEEP_NANOSECONDS};

    atomic_fetch_add(&desk->n_sleepers, 1);
    uint32_t now = atomic_load(&desk->phase);
    if ((int32_t)(now - phase) < 0) {
        syscall(SYS_futex, &desk->phase, FUTEX_WAIT, now, &most, NULL, 0);
    }
    atomic_fetch_sub(&desk->n_sleepers, 1);
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static ls_status fail_late(const lsi_meeting *meeting, int missing, const char *doing)
{
    const lsi_meeting_task *mine = &desk_of(meeting, meeting->arena->self)->task;
    const int *rank = meeting->arena->rank;

    return LS_FAIL(
        LS_ERR_TIMEOUT,
        "rank %d has waited %.3g s for rank %d while %s (%s of %llu bytes): rank %d is gone, stopped, held up "
        "by another rank, or slower than comm.timeout allows",
        rank[meeting->arena->self], meeting->timeout_seconds, rank[missing], doing, mine->name,
        (unsigned long long)mine->bytes, rank[missing]);
}

static ls_status await(const lsi_meeting *meeting, int i, uint32_t phase, const char *doing)
{
    lsi_desk *desk = desk_of(meeting, i);

    for (int tries = 0; tries < meeting->n_spins; tries++) {
        if (has_reached(desk, phase)) {
            return LS_OK;
        }
        pause_briefly();
    }
    for (int tries = 0; tries < YIELDS; tries++) {
        if (has_reached(desk, phase)) {
            return LS_OK;
        }
        sched_yield();
    }
    lsi_patience patience = lsi_patience_begin(meeting->timeout_seconds, meeting->watchdog);
    while (!has_reached(desk, phase)) {
        LS_REQUIRE(!atomic_load_explicit(meeting->aborted, memory_order_relaxed), LS_ERR_COMM,
                   "communication was aborted while %s", doing);
        if (lsi_patience_is_over(&patience) && !has_reached(desk, phase)) {     /* this process may have been stopped */
            return fail_late(meeting, i, doing);
        }
        doze(desk, phase);
    }
    return LS_OK;
}

static ls_status await_all(const lsi_meeting *meeting, uint32_t phase, const char *doing)
{
    for (int i = 0; i < meeting->arena->n; i++) {
        if (i != meeting->arena->self) {
            LS_TRY(await(meeting, i, phase, doing));
        }
    }
    return LS_OK;
}

/* ---- meeting ------------------------------------------------------------------------------------------------- */

/* Ranks that launch different collectives would read each other's memory wrongly, and in silence. */
static ls_status check_same(const lsi_meeting *meeting)
{
    const int self = meeting->arena->self, *rank = meeting->arena->rank;
    const lsi_meeting_task *mine = &desk_of(meeting, self)->task;

    for (int i = 0; i < meeting->arena->n; i++) {
        const lsi_meeting_task *theirs = &desk_of(meeting, i)->task;

        LS_REQUIRE(
            theirs->id == mine->id && theirs->bytes == mine->bytes && strcmp(theirs->name, mine->name) == 0,
            LS_ERR_INTERNAL,
            "rank %d has launched collective %u, a %s of %llu bytes, where rank %d has launched collective %u, a "
            "%s of %llu bytes",
            rank[self], mine->id, mine->name, (unsigned long long)mine->bytes, rank[i], theirs->id, theirs->name,
            (unsigned long long)theirs->bytes);
    }
    return LS_OK;
}

ls_status lsi_meeting_begin(lsi_meeting *meeting, const lsi_meeting_task *task)
{
    uint32_t ready = 2 * ++meeting->n_begun - 1;

    desk_of(meeting, meeting->arena->self)->task = *task;
    announce(meeting, ready);
    LS_TRY(await_all(meeting, ready, "meeting the others"));
    return check_same(meeting);
}

ls_status lsi_meeting_end(lsi_meeting *meeting)
{
    uint32_t done = 2 * meeting->n_begun;

    announce(meeting, done);
    return await_all(meeting, done, "waiting for the others to finish");
}

void *lsi_meeting_source(const lsi_meeting *meeting, int i, int k)
{
    return meeting->arena->base[i] + desk_of(meeting, i)->task.source[k];
}

void *lsi_meeting_target(const lsi_meeting *meeting, int i)
{
    return meeting->arena->base[i] + desk_of(meeting, i)->task.target;
}
