/* The one lock, made of a futex: a pthread mutex would tell ThreadSanitizer of an order between host threads, and so
 * hide missing synchronisation that only ever worked because both threads called CUDA. */
#include "runtime.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t lock_word; /* 0 free, 1 held, 2 held and waited for */
static int owner;          /* thread number; only its holder's own value is ever compared as equal */
static int depth;

int cusim_thread_number(void)
{
    static int n_threads;
    static _Thread_local int mine;
    if (mine == 0)
        mine = __atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED);
    return mine;
}

void cusim_lock(void)
{
    int self = cusim_thread_number();
    if (__atomic_load_n(&owner, __ATOMIC_RELAXED) == self) {
        depth++;
        return;
    }
    uint32_t seen = 0;
    if (!__atomic_compare_exchange_n(&lock_word, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        while (__atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE) != 0)
            syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
    __atomic_store_n(&owner, self, __ATOMIC_RELAXED);
    depth = 1;
}

void cusim_unlock(void)
{
    if (--depth > 0)
        return;
    __atomic_store_n(&owner, 0, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2)
        syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool cusim_lock_is_nested(void)
{
    return depth > 1;
}
