/* A thread per process that ends the job when it stands still.
 *
 * Every rank tells others, a few times per comm.timeout, how long ago it got on and where it stands. Two things end the
 * job, with code 7: a rank that has not been heard of for comm.timeout (stopped, or out of reach), whatever the others
 * do meanwhile; and that no rank has got on for comm.timeout. The lowest rank that is alive prints one line that names
 * who is behind and where; should it not, the others do a little later. If MPI itself hangs, the process leaves by
 * _exit a few seconds later. Time in which this process did not run itself counts for nothing.
 *
 * Worlds up to 64 tell everybody; larger ones 2 ceil(log2 world) neighbours each (job/liveness.h). */
#ifndef LSI_JOB_WATCHDOG_H
#define LSI_JOB_WATCHDOG_H

#include "job/job.h"

typedef struct lsi_watchdog lsi_watchdog;

enum { LSI_WATCHDOG_WHERE = 160 };

/* Not collective, although every rank of the job is to call it: whoever does is watched by it from now on, and named if
 * it never starts its own. A rank that fails to has no way to tell but to abort the job. */
LS_MUST_USE ls_status lsi_watchdog_start(lsi_job *job, double timeout_seconds, lsi_watchdog **out);
/* Collective: all ranks stop theirs at the same point, and each is watched until the last has got here, so that none
 * takes another's leaving for a failure. Accepts NULL. */
void lsi_watchdog_stop(lsi_watchdog **watchdog);

/* The main thread enters a phase ("opening the data", "evaluating", "saving step 100"): counts as getting on. `text` is
 * copied. watchdog NULL: does nothing, as in all calls below. */
void lsi_watchdog_enter(lsi_watchdog *watchdog, const char *text);
/* Any thread: one unit of work of the phase is done. */
void lsi_watchdog_tick(lsi_watchdog *watchdog);
/* Work that queues on a device and is not seen by enter and tick: `progress` changes with it, `where` says what it is
 * at ("": the phase says enough) and whether it is other ranks that it waits for. Both are called on the watchdog's
 * thread, and not any more when lsi_watchdog_forget has returned. There is one observer, the last. */
void lsi_watchdog_observe(lsi_watchdog *watchdog, uint64_t (*progress)(void *argument),
                          bool (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]), void *argument);
/* The main thread begins, or ends, to wait for other ranks: whoever does is not the one to blame. May be nested. */
void lsi_watchdog_wait(lsi_watchdog *watchdog, bool begins);
/* Nothing when another observer has taken the place of the one with this argument. */
void lsi_watchdog_forget(lsi_watchdog *watchdog, void *argument);

/* Any thread: the watchdog is at work, and as far as it knows some rank has got on within the last `seconds`. Whoever
 * waits for a peer with a deadline of its own may wait on. false for NULL. */
bool lsi_watchdog_vouches(const lsi_watchdog *watchdog, double seconds);

/* Any thread: this process has just been away (stopped, or not run) for longer than the others wait, who may have given
 * it up and be gone. */
bool lsi_watchdog_was_away(const lsi_watchdog *watchdog);

#endif
