#include "job/whereabouts.h"

#include <stdio.h>

void lsi_whereabouts_open(lsi_whereabouts *here, const char *phase)
{
    *here = (lsi_whereabouts){.before = 0};
    pthread_mutex_init(&here->mutex, NULL);
    snprintf(here->phase, sizeof here->phase, "%s", phase);
}

void lsi_whereabouts_close(lsi_whereabouts *here)
{
    pthread_mutex_destroy(&here->mutex);
}

void lsi_whereabouts_enter(lsi_whereabouts *here, const char *text)
{
    pthread_mutex_lock(&here->mutex);
    snprintf(here->phase, sizeof here->phase, "%s", text);
    pthread_mutex_unlock(&here->mutex);
    lsi_whereabouts_tick(here);
}

void lsi_whereabouts_tick(lsi_whereabouts *here)
{
    atomic_fetch_add_explicit(&here->ticks, 1, memory_order_relaxed);
}

/* What an observer has counted stays counted when it goes. */
static void replace(lsi_whereabouts *here, uint64_t (*progress)(void *argument),
                    bool (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]), void *argument)
{
    if (here->progress != NULL) {
        here->before += here->progress(here->argument);
    }
    here->progress = progress;
    here->where = where;
    here->argument = argument;
}

void lsi_whereabouts_observe(lsi_whereabouts *here, uint64_t (*progress)(void *argument),
                             bool (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]), void *argument)
{
    pthread_mutex_lock(&here->mutex);
    replace(here, progress, where, argument);
    pthread_mutex_unlock(&here->mutex);
}

void lsi_whereabouts_forget(lsi_whereabouts *here, void *argument)
{
    pthread_mutex_lock(&here->mutex);
    if (here->progress != NULL && here->argument == argument) {
        replace(here, NULL, NULL, NULL);
    }
    pthread_mutex_unlock(&here->mutex);
}

void lsi_whereabouts_wait(lsi_whereabouts *here, bool begins)
{
    atomic_fetch_add_explicit(&here->n_waits, begins ? 1 : -1, memory_order_relaxed);
}

uint64_t lsi_whereabouts_look(lsi_whereabouts *here, char where[LSI_WATCHDOG_WHERE], bool *waits)
{
    char observed[LSI_WATCHDOG_WHERE] = "";
    bool host_waits = atomic_load_explicit(&here->n_waits, memory_order_relaxed) > 0;
    const int room = LSI_WATCHDOG_WHERE - LSI_WHEREABOUTS_PHASE - 32;

    *waits = host_waits;
    pthread_mutex_lock(&here->mutex);
    uint64_t progress = atomic_load_explicit(&here->ticks, memory_order_relaxed) + here->before;
    if (here->progress != NULL) {
        progress += here->progress(here->argument);
        *waits = here->where(here->argument, observed) || host_waits;
    }
    snprintf(where, LSI_WATCHDOG_WHERE, "%s%s%.*s%s", here->phase, observed[0] != '\0' ? ", " : "", room, observed,
             host_waits ? ", waiting for other ranks" : "");
    pthread_mutex_unlock(&here->mutex);
    return progress;
}
