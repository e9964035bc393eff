#include "backend/cpu/word.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* A stop is rare and set without knowing who sleeps on which word, so sleepers look for it now and then. */
static const uint64_t recheck_nanoseconds = 50 * 1000 * 1000;

void lsi_word_set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool holds(lsi_word_test test, uint32_t now, uint32_t value)
{
    switch (test) {
    case LSI_WORD_EQUAL:
        return now == value;
    case LSI_WORD_DIFFERENT:
        return now != value;
    case LSI_WORD_REACHED:
        return (int32_t)(now - value) >= 0;
    }
    return true;
}

static bool stopped(const lsi_word_limit *limit)
{
    return limit->stop != NULL && (__atomic_load_n(limit->stop, __ATOMIC_RELAXED) & limit->stop_bits) != 0;
}

lsi_word_result lsi_word_wait(uint32_t *word, lsi_word_test test, uint32_t value, lsi_word_limit limit, uint32_t *seen)
{
    uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    uint64_t deadline = UINT64_MAX;
    lsi_word_result result = LSI_WORD_MET;

    if (!holds(test, now, value) && limit.seconds > 0 && limit.seconds < 1e9) {
        deadline = lsi_clock_nanoseconds() + (uint64_t)(limit.seconds * 1e9);
    }
    while (!holds(test, now, value)) {
        uint64_t sleep = recheck_nanoseconds;

        if (stopped(&limit)) {
            result = LSI_WORD_STOPPED;
            break;
        }
        if (deadline != UINT64_MAX) {
            uint64_t time = lsi_clock_nanoseconds();

            if (time >= deadline) {
                result = LSI_WORD_TIMED_OUT;
                break;
            }
            sleep = deadline - time < sleep ? deadline - time : sleep;
        }
        struct timespec timeout = {.tv_nsec = (long)sleep};
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, now, &timeout, NULL, 0);
        now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
    if (seen != NULL) {
        *seen = now;
    }
    return result;
}

#ifdef LSI_TSAN
static void *edge_of(lsi_counter *counter, uint32_t value)
{
    return &counter->edge[value % 8];
}
#else
static void *edge_of(lsi_counter *counter, uint32_t value)
{
    (void)value;
    return counter;
}
#endif

void lsi_counter_set(lsi_counter *counter, uint32_t value)
{
    lsi_tsan_release(edge_of(counter, value));
    lsi_tsan_hide();
    lsi_word_set(&counter->reached, value);
    lsi_tsan_show();
}

void lsi_counter_wait(lsi_counter *counter, uint32_t value)
{
    lsi_tsan_hide();
    lsi_word_wait(&counter->reached, LSI_WORD_REACHED, value, (lsi_word_limit){0}, NULL);
    lsi_tsan_show();
    lsi_tsan_acquire(edge_of(counter, value));
}
