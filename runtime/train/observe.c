#include "train/observe.h"

#include "metrics/where.h"

static uint64_t progress(void *argument)
{
    const ls_trainer *t = argument;

    return t->backend->work_count(t->device);
}

static bool where(void *argument, char out[LSI_WATCHDOG_WHERE])
{
    ls_trainer *t = argument;
    int64_t step = atomic_load(&t->watched_step);

    out[0] = '\0';
    return step > 0 && lsi_where_describe(t->device, step, out, LSI_WATCHDOG_WHERE);
}

void lsi_observe_begin(ls_trainer *trainer)
{
    lsi_watchdog_observe(trainer->rt->watchdog, progress, where, trainer);
}

void lsi_observe_end(ls_trainer *trainer)
{
    lsi_watchdog_forget(trainer->rt->watchdog, trainer);
}

void lsi_observe_step(ls_trainer *trainer)
{
    atomic_store(&trainer->watched_step, trainer->n_queued + 1);
    lsi_watchdog_tick(trainer->rt->watchdog);
}

void lsi_observe_settled(ls_trainer *trainer)
{
    atomic_store(&trainer->watched_step, 0);
    lsi_watchdog_tick(trainer->rt->watchdog);
}

bool lsi_observe_slot(const ls_trainer *trainer, int64_t slot)
{
    enum { PER_SLOT = 5 };
    const int64_t most = LS_STAMP_RING / 2 / PER_SLOT;
    int64_t stride = (trainer->sizes.n_local + most - 1) / most;

    return slot % stride == 0;
}
