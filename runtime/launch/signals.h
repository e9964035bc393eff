/* Requests to stop that come as signals to launch. */
#ifndef LSI_LAUNCH_SIGNALS_H
#define LSI_LAUNCH_SIGNALS_H

#include <lockstep/status.h>
#include <signal.h>

typedef struct lsi_signals {
    int fd;          /* to poll: something has come. Closed by lsi_signals_close */
    sigset_t before; /* blocked before: what programs that we start get */
    int n_requests;  /* to stop, so far */
    int last;        /* the signal of the last request; 0: none */
} lsi_signals;

/* Once, from the main thread, before there are others. SIGHUP stays ignored where it was (nohup). SIGPIPE is ignored
 * from now on. */
LS_MUST_USE ls_status lsi_signals_open(lsi_signals *out);
/* Takes what has come, without waiting; SIGCHLD counts for nothing but wakes up. */
void lsi_signals_take(lsi_signals *signals);
/* Waits, at most so long, for a request. */
void lsi_signals_wait(lsi_signals *signals, double seconds);
void lsi_signals_close(lsi_signals *signals);

#endif
