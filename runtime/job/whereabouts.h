/* Where a process stands, as its threads say it, and a number that changes while it gets on. */
#ifndef LSI_JOB_WHEREABOUTS_H
#define LSI_JOB_WHEREABOUTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "job/watchdog.h"

enum { LSI_WHEREABOUTS_PHASE = 64 };

typedef struct lsi_whereabouts {
    pthread_mutex_t mutex; /* of all but the ticks */
    char phase[LSI_WHEREABOUTS_PHASE];
    uint64_t before; /* progress of observers that are gone */
    uint64_t (*progress)(void *argument);
    bool (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]);
    void *argument;
    atomic_uint_fast64_t ticks;
    atomic_int n_waits; /* collectives that the main thread is in */
} lsi_whereabouts;

void lsi_whereabouts_open(lsi_whereabouts *here, const char *phase);
void lsi_whereabouts_close(lsi_whereabouts *here);
/* As the calls of job/watchdog.h. */
void lsi_whereabouts_enter(lsi_whereabouts *here, const char *text);
void lsi_whereabouts_tick(lsi_whereabouts *here);
void lsi_whereabouts_observe(lsi_whereabouts *here, uint64_t (*progress)(void *argument),
                             bool (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]), void *argument);
void lsi_whereabouts_wait(lsi_whereabouts *here, bool begins);
void lsi_whereabouts_forget(lsi_whereabouts *here, void *argument);
/* Any thread: the number; the phase and what the observer says; whether it is others that this process waits for. */
uint64_t lsi_whereabouts_look(lsi_whereabouts *here, char where[LSI_WATCHDOG_WHERE], bool *waits);

#endif
