/* Runs one kernel launch: blocks one after another, in an order that the seed decides, and each block's threads on
 * fibers. Every block gets its shared memory poisoned. */
#include "exec.h"
#include "exec_tsan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cusim_thread_view *cusim_thread;
cusim_block_view cusim_block;
cusim_exec_state cusim_exec;
bool cusim_exec_sticky_faults;

static int order_kind;
static uint64_t random_state = 88172645463325252ull;

/* The section that __shared__ arrays are put into; absent in programs without one. */
extern char __start_cusim_shared[] __attribute__((weak));
extern char __stop_cusim_shared[] __attribute__((weak));

uint64_t cusim_exec_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

void cusim_set_order(int order, uint64_t seed)
{
    order_kind = order;
    random_state = (seed + 1) * 0x9E3779B97F4A7C15ull;
    cusim_exec_random();
}

/* ---- faults --------------------------------------------------------------------------------- */

void cusim_exec_fail(const char *file, int line, const char *format, ...)
{
    char why[256];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    const cusim_dim3 b = cusim_block.index, t = cusim_thread->index;
    fprintf(stderr, "cusim: %s block (%u,%u,%u) thread (%u,%u,%u): %s at %s:%d\n", cusim_exec.launch->name, b.x, b.y,
            b.z, t.x, t.y, t.z, why, file, line);
    if (!cusim_exec_sticky_faults)
        abort();
    cusim_exec.faulted = true; /* every fiber stays where it is, and is made anew before the next launch */
    cusim_exec_leave();
}

void cusim_trap(const char *why, const char *file, int line)
{
    cusim_exec_fail(file, line, "%s", why);
}

void cusim_exec_stuck(void)
{
    const cusim_exec_state *e = &cusim_exec;
    const cusim_dim3 b = cusim_block.index;
    fprintf(stderr, "cusim: %s: block (%u,%u,%u) cannot go on: %d threads alive, %d at __syncthreads\n",
            e->launch->name, b.x, b.y, b.z, e->n_alive, e->n_at_barrier);
    const cusim_thread_record *last = NULL;
    for (int i = 0, shown = 0; i < e->n_threads && shown < 12; i++) {
        const cusim_thread_record *t = &e->threads[i];
        bool same = last != NULL && t->state == last->state && t->line == last->line && t->file == last->file;
        if (t->state == THREAD_DONE || same)
            continue;
        fprintf(stderr, "cusim:   thread %d from here waits in %s at %s:%d\n", i,
                t->state == THREAD_AT_BARRIER ? "__syncthreads" : "a warp operation", t->file, t->line);
        last = t;
        shown++;
    }
    cusim_exec_fail(cusim_exec_self()->file, cusim_exec_self()->line, "deadlock in the block");
}

/* ---- threads -------------------------------------------------------------------------------- */

void cusim_fence(void)
{
    CUSIM_TS(__tsan_acquire(cusim_sync.fence); __tsan_release(cusim_sync.fence);)
}

void cusim_exec_run_thread(cusim_thread_record *thread)
{
    thread->state = THREAD_RUNNING;
    cusim_thread = &thread->view;
    CUSIM_TS(__tsan_switch_to_fiber(thread->tsan, 1); __tsan_acquire(cusim_sync.launch);
             /* what the thread before had in its frames here */
             cusim_tsan_forget((char *)__builtin_frame_address(0) - 4096, 4000);)
    cusim_exec.launch->invoke(cusim_exec.launch->closure);
    thread = cusim_exec_self(); /* the fiber may have started others meanwhile */
    CUSIM_TS(__tsan_release(cusim_sync.done);)
    thread->state = THREAD_DONE;
    cusim_exec.n_alive--;
    cusim_warp_thread_ended(thread);
    cusim_barrier_thread_ended(thread);
}

static void shuffle(int *order, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(cusim_exec_random() % (unsigned)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Not memset: AddressSanitizer would see it cross the red zones between shared arrays. */
__attribute__((no_sanitize_address)) static void poison(char *begin, char *end)
{
#ifdef __x86_64__
    size_t bytes = (size_t)(end - begin);
    __asm__ volatile("rep stosb" : "+D"(begin), "+c"(bytes) : "a"(0xff) : "memory");
#else
    for (volatile char *p = begin; p < end; p++)
        *p = (char)0xff;
#endif
}

#ifdef CUSIM_TSAN
cusim_exec_sync cusim_sync;
/* ThreadSanitizer's threads, used in rotation. Launches without order between them, and neighbouring blocks, must not
 * share one, since it orders everything that one thread does. */
enum { TSAN_POOL = 3072 };
static void *tsan_pool[TSAN_POOL];
static int tsan_next, tsan_size;

static void **tsan_threads(int n)
{
    if (tsan_size == 0) { /* each costs half a MB: small tests may want fewer */
        const char *setting = getenv("CUSIM_TSAN_POOL");
        tsan_size = setting != NULL ? atoi(setting) : TSAN_POOL;
    }
    if (tsan_size > TSAN_POOL || tsan_size < n)
        tsan_size = TSAN_POOL;
    if (tsan_next + n > tsan_size)
        tsan_next = 0;
    void **set = tsan_pool + tsan_next;
    tsan_next += n;
    for (int i = 0; i < n; i++)
        if (set[i] == NULL)
            set[i] = __tsan_create_fiber(0);
    return set;
}
#endif

static void prepare_block(size_t block_number, void *const *tsan_set)
{
    cusim_exec_state *e = &cusim_exec;
    const cusim_launch *l = e->launch;
    if (__start_cusim_shared != NULL)
        poison(__start_cusim_shared, __stop_cusim_shared);
    if (l->shared_bytes > 0)
        poison(cusim_block.dynamic_shared, (char *)cusim_block.dynamic_shared + l->shared_bytes);
    CUSIM_TS(if (__start_cusim_shared != NULL)
                 cusim_tsan_forget(__start_cusim_shared, (size_t)(__stop_cusim_shared - __start_cusim_shared));
             cusim_tsan_forget(cusim_block.dynamic_shared, l->shared_bytes);
             cusim_tsan_forget_order(cusim_sync.barrier, sizeof cusim_sync.barrier);
             cusim_tsan_forget_order(cusim_sync.warp, sizeof cusim_sync.warp); cusim_sync.phase = 0;)
    if (order_kind == CUSIM_SHUFFLED)
        shuffle(e->order, e->n_threads);
    for (int i = 0; i < e->n_threads; i++) {
        e->threads[i].state = THREAD_NEW;
        e->threads[i].n_copies = e->threads[i].group = 0;
        CUSIM_TS(e->threads[i].tsan = tsan_set[i + (int)(block_number & 1) * e->n_threads];)
    }
    (void)block_number;
    (void)tsan_set;
    for (int w = 0; w * CUSIM_WARP < e->n_threads; w++) {
        int lanes = e->n_threads - w * CUSIM_WARP;
        e->warps[w].live = lanes >= CUSIM_WARP ? ~0u : (1u << lanes) - 1;
        e->warps[w].n_meetings = 0;
    }
    e->next_new = e->ready_first = e->n_ready = e->n_at_barrier = 0;
    e->n_alive = e->n_threads;
}

static size_t greatest_common_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Blocks are visited as (k * step + first) mod n: every one once. */
static void block_order(size_t n, size_t *step, size_t *first)
{
    *step = order_kind == CUSIM_REVERSE ? n - 1 : 1;
    *first = order_kind == CUSIM_REVERSE ? n - 1 : 0;
    if (order_kind != CUSIM_SHUFFLED || n < 2)
        return;
    *first = cusim_exec_random() % n;
    do
        *step = 1 + cusim_exec_random() % n;
    while (greatest_common_divisor(*step, n) != 1);
}

static void number_threads(const cusim_launch *l)
{
    for (int i = 0; i < cusim_exec.n_threads; i++) {
        unsigned k = (unsigned)i;
        cusim_exec.threads[i].view =
            (cusim_thread_view){.index = {k % l->block.x, k / l->block.x % l->block.y, k / (l->block.x * l->block.y)},
                                .linear = k,
                                .lane = k % CUSIM_WARP,
                                .warp = k / CUSIM_WARP};
        cusim_exec.order[i] = order_kind == CUSIM_REVERSE ? cusim_exec.n_threads - 1 - i : i;
    }
}

int cusim_execute(const cusim_launch *l)
{
    cusim_exec_state *e = &cusim_exec;
    if (e->faulted)
        cusim_fiber_reset();
    e->faulted = false;
    e->launch = l;
    e->n_threads = (int)(l->block.x * l->block.y * l->block.z);
    e->slept_nanoseconds = 0;
    size_t n_blocks = (size_t)l->grid.x * l->grid.y * l->grid.z;
    cusim_block = (cusim_block_view){.block = l->block, .grid = l->grid};
    if (l->shared_bytes > 0 && posix_memalign(&cusim_block.dynamic_shared, 128, l->shared_bytes) != 0)
        abort();
    number_threads(l);
    void **tsan_set = NULL;
    CUSIM_TS(tsan_set = tsan_threads((n_blocks > 1 ? 2 : 1) * e->n_threads);
             cusim_tsan_forget_order(cusim_sync.launch, 16); __tsan_release(cusim_sync.launch);)
    size_t step, first;
    block_order(n_blocks, &step, &first);
    for (size_t k = 0; k < n_blocks && !e->faulted; k++) {
        size_t id = (k * step + first) % n_blocks;
        cusim_block.index = (cusim_dim3){(unsigned)(id % l->grid.x), (unsigned)(id / l->grid.x % l->grid.y),
                                         (unsigned)(id / ((size_t)l->grid.x * l->grid.y))};
        prepare_block(k, tsan_set);
        cusim_fiber_enter_block();
    }
    cusim_thread = NULL;
    CUSIM_TS(__tsan_acquire(cusim_sync.done); cusim_tsan_forget(cusim_block.dynamic_shared, l->shared_bytes);)
    free(cusim_block.dynamic_shared);
    return e->faulted;
}
