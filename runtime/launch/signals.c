#include "launch/signals.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

ls_status lsi_signals_open(lsi_signals *out)
{
    static const int requests[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP};
    lsi_signals signals = {.fd = -1};
    sigset_t ours;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct sigaction now;

        if (sigaction(requests[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            sigaddset(&ours, requests[i]);
        }
    }
    sigprocmask(SIG_BLOCK, &ours, &signals.before);
    signals.fd = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
    LS_REQUIRE(signals.fd >= 0, LS_ERR_INTERNAL, "cannot watch for signals: %s", strerror(errno));
    *out = signals;
    return LS_OK;
}

void lsi_signals_take(lsi_signals *signals)
{
    struct signalfd_siginfo info;

    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            signals->n_requests++;
            signals->last = (int)info.ssi_signo;
        }
    }
}

void lsi_signals_wait(lsi_signals *signals, double seconds)
{
    double end = lsi_clock_seconds() + seconds, left = seconds;

    lsi_signals_take(signals);
    while (signals->n_requests == 0 && left > 0) {
        struct pollfd fd = {signals->fd, POLLIN, 0};

        poll(&fd, 1, (int)(left * 1000) + 1);
        lsi_signals_take(signals);
        left = end - lsi_clock_seconds();
    }
}

void lsi_signals_close(lsi_signals *signals)
{
    if (signals->fd >= 0) {
        close(signals->fd);
        signals->fd = -1;
    }
}
