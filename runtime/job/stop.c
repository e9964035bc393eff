#include "job/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} caught[] = {{SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGTERM, "SIGTERM"}};
enum { N_CAUGHT = sizeof caught / sizeof caught[0] };

/* What a handler may touch is lock-free and static: there is one flag in a process. */
static atomic_int strongest = LSI_STOP_NONE;
static atomic_int first_signal; /* the one that is a request; 0: none has come */
static bool watched[N_CAUGHT];  /* main thread */

void lsi_stop_request(int reason)
{
    int known = atomic_load(&strongest);

    while (known < reason && !atomic_compare_exchange_weak(&strongest, &known, reason)) {
    }
}

static void handle(int number)
{
    int error = errno, none = 0;

    if (!atomic_compare_exchange_strong(&first_signal, &none, number)) {
        _exit(128 + number);
    }
    lsi_stop_request(LSI_STOP_SIGNAL + number);
    errno = error;
}

void lsi_stop_watch(void)
{
    struct sigaction ours = {.sa_handler = handle, .sa_flags = SA_RESTART};

    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < N_CAUGHT; i++) {
        sigaddset(&ours.sa_mask, caught[i].number); /* the first is through before the second begins */
    }
    for (int i = 0; i < N_CAUGHT; i++) {
        struct sigaction before;

        if (!watched[i] && sigaction(caught[i].number, NULL, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
            before.sa_handler == SIG_DFL) {
            watched[i] = sigaction(caught[i].number, &ours, NULL) == 0;
        }
    }
}

void lsi_stop_unwatch(void)
{
    struct sigaction fresh = {.sa_handler = SIG_DFL};

    sigemptyset(&fresh.sa_mask);
    for (int i = 0; i < N_CAUGHT; i++) {
        if (watched[i]) {
            watched[i] = false;
            sigaction(caught[i].number, &fresh, NULL);
        }
    }
    int number = atomic_load(&first_signal);
    if (number != 0) {
        raise(number);
    }
}

int lsi_stop_requested(void)
{
    return atomic_load(&strongest);
}

const char *lsi_stop_text(int reason)
{
    for (int i = 0; i < N_CAUGHT; i++) {
        if (reason == LSI_STOP_SIGNAL + caught[i].number) {
            return caught[i].name;
        }
    }
    return reason == LSI_STOP_TIME ? "train.max_time" : reason == LSI_STOP_PROGRAM ? "the program" : "nothing";
}
