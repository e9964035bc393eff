/* Writing to a pipe that nobody reads any more raises SIGPIPE, which ends the process without a word. Held back around
 * a write, the write fails with EPIPE instead, which can be reported or borne. The process's own handling stays. */
#ifndef LSI_BASE_PIPE_SIGNAL_H
#define LSI_BASE_PIPE_SIGNAL_H

#include <signal.h>
#include <stdbool.h>

typedef struct lsi_pipe_signal {
    sigset_t before;
    bool was_pending;       /* somebody else's: left alone */
} lsi_pipe_signal;

/* Both keep errno; the same thread calls both. `broken`: a write in between failed; its signal is dropped. */
void lsi_pipe_signal_hold(lsi_pipe_signal *signals);
void lsi_pipe_signal_release(const lsi_pipe_signal *signals, bool broken);

#endif
