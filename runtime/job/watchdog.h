/* A thread per process that ends the job when it stands still.
 *
 * Every rank tells all others, a few times per comm.timeout, a number that grows while it gets on and a line that says
 * where it stands. When no rank has got on for `timeout_seconds`, each rank that sees it prints who is behind (first
 * whoever has not been heard of, then whoever got least far) and where it stood, and ends the job with code 7. One rank
 * prints: the lowest that is alive. If MPI itself hangs, the process leaves by _exit a few seconds later. */
#ifndef LSI_JOB_WATCHDOG_H
#define LSI_JOB_WATCHDOG_H

#include "job/job.h"

typedef struct lsi_watchdog lsi_watchdog;

enum { LSI_WATCHDOG_WHERE = 160 };

/* Collective. Starts the thread, on a communicator of its own. */
LS_MUST_USE ls_status lsi_watchdog_start(lsi_job *job, double timeout_seconds, lsi_watchdog **out);
/* Collective: all ranks stop theirs at the same point, none takes another's leaving for a failure. Accepts NULL. */
void lsi_watchdog_stop(lsi_watchdog **watchdog);

/* The main thread enters a phase ("opening the data", "evaluating", "saving step 100"): counts as getting on. `text` is
 * copied. watchdog NULL: does nothing, as in all calls below. */
void lsi_watchdog_enter(lsi_watchdog *watchdog, const char *text);
/* Any thread: one unit of work of the phase is done. */
void lsi_watchdog_tick(lsi_watchdog *watchdog);
/* Work that queues on a device and is not seen by enter and tick: `progress` grows with it, `where` says what it is at
 * ("" : the phase says enough). Both are called on the watchdog's thread until this is called with NULLs. */
void lsi_watchdog_observe(lsi_watchdog *watchdog, uint64_t (*progress)(void *argument),
                          void (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]), void *argument);

#endif
