#include "base/pipe_signal.h"

#include <errno.h>
#include <time.h>

static void only_pipe(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGPIPE);
}

void lsi_pipe_signal_hold(lsi_pipe_signal *signals)
{
    sigset_t pipe_signal, pending;
    int error = errno;

    only_pipe(&pipe_signal);
    sigpending(&pending);
    signals->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &signals->before);
    errno = error;
}

void lsi_pipe_signal_release(const lsi_pipe_signal *signals, bool broken)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe_signal;
    int error = errno;

    only_pipe(&pipe_signal);
    if (broken && !signals->was_pending) {
        while (sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
    errno = error;
}
