/* Requests to stop: a signal, or the program itself. One flag per process; that all ranks stop at the same step is the
 * training loop's work. */
#ifndef LSI_JOB_STOP_H
#define LSI_JOB_STOP_H

/* Why a run ends early. Larger ones win where several come together; a signal is LSI_STOP_SIGNAL + its number. */
enum { LSI_STOP_NONE = 0, LSI_STOP_PROGRAM = 1, LSI_STOP_TIME = 2, LSI_STOP_SIGNAL = 100 };

/* Catches SIGUSR1, SIGUSR2 and SIGTERM, where nobody else has (a handler of the program's, or ignored). The first one
 * of them is a request; the second ends the process at once with 128 + its number. Idempotent; main thread. */
void lsi_stop_watch(void);
/* Signals act as they would without us; one that has come already acts now. For commands that are over in a moment.
 * Main thread. */
void lsi_stop_unwatch(void);

/* Async-signal-safe, any thread. */
void lsi_stop_request(int reason);
/* The strongest request so far, LSI_STOP_NONE without one. */
int lsi_stop_requested(void);
/* "SIGUSR1", "train.max_time", "the program". */
const char *lsi_stop_text(int reason);

#endif
