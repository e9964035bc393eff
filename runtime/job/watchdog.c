#include "job/watchdog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/tsan.h"
#include "job/heartbeat.h"
#include "job/whereabouts.h"

_Static_assert((int)LSI_WATCHDOG_WHERE == (int)LSI_LIVENESS_WHERE, "a place is told as it was said");

struct lsi_watchdog {
    lsi_job *job;
    double interval; /* between two beats, seconds */
    pthread_t thread;
    lsi_heartbeat *heartbeat;

    pthread_mutex_t mutex; /* of these */
    pthread_cond_t changed;
    bool stops;
    bool has_news; /* a phase was entered: told at once */

    lsi_whereabouts whereabouts;
    _Atomic double looked, quiet; /* when the thread last looked around (lsi_clock_seconds); how long all stood then */

    _Atomic double back; /* when this process was back after a time away that others do not wait for; else long ago */

    double now; /* of the thread's own clock, as the next */
    double woke;
    lsi_liveness liveness;
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* The thread's clock stands still while the process does (stopped, suspended, starved): silence that this rank slept
 * through is no news of others. */
static void advance(lsi_watchdog *w)
{
    const double most = 1;
    double now = lsi_clock_seconds(), passed = now - w->woke;

    w->woke = now;
    w->now += passed < most ? passed : most;
    if (passed > w->liveness.timeout) {
        atomic_store(&w->back, now);
    }
}

static void look(lsi_watchdog *w)
{
    char where[LSI_WATCHDOG_WHERE];
    bool waits;
    uint64_t progress = lsi_whereabouts_look(&w->whereabouts, where, &waits);

    lsi_liveness_note(&w->liveness, w->now, progress, where, waits);
}

static void hear(lsi_watchdog *w)
{
    lsi_beat beat;
    int peer;

    while (lsi_heartbeat_receive(w->heartbeat, &peer, &beat)) {
        lsi_liveness_hear(&w->liveness, w->now, peer, &beat);
    }
}

static void judge(lsi_watchdog *w)
{
    lsi_text text = {0};

    atomic_store(&w->quiet, w->now - w->liveness.job_got_on);
    atomic_store(&w->looked, lsi_clock_seconds());
    if (lsi_liveness_failed(&w->liveness, w->now)) {
        lsi_liveness_describe(&w->liveness, w->now, &text);
        lsi_job_abort(w->job, LS_FAIL(LS_ERR_TIMEOUT, "%s", text.data));
    }
}

/* Sleeps until it is told to stop or there is news, this long at most; false when it is to stop. */
static bool sleep_for(lsi_watchdog *w, double seconds, bool *has_news)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&w->mutex);
    if (!w->stops && !w->has_news) {
        pthread_cond_timedwait(&w->changed, &w->mutex, &until);
    }
    bool goes_on = !w->stops;
    *has_news = w->has_news;
    w->has_news = false;
    pthread_mutex_unlock(&w->mutex);
    return goes_on;
}

static bool all_have_left(const lsi_watchdog *w)
{
    for (int p = 0; p < w->liveness.n_peers; p++) {
        if (!w->liveness.peer[p].left) {
            return false;
        }
    }
    return true;
}

/* All ranks stop at the same point, but not at the same time: each is watched until it says that it has got there. */
static void leave(lsi_watchdog *w)
{
    bool told = false;
    lsi_beat beat;

    w->liveness.self.left = true;
    while (!told || !all_have_left(w)) {
        struct timespec nap = {.tv_nsec = 2000000};

        advance(w);
        hear(w);
        lsi_liveness_beat(&w->liveness, w->now, &beat);
        told = lsi_heartbeat_send(w->heartbeat, &beat) || told;
        judge(w);
        nanosleep(&nap, NULL);
    }
}

static void watch(lsi_watchdog *w)
{
    const double nap = w->interval / 2 < 0.5 ? w->interval / 2 : 0.5;
    double told = 0;
    bool has_news = true;
    lsi_beat beat;

    do {
        advance(w);
        look(w);
        hear(w);
        if (has_news || w->now - told >= w->interval) {
            lsi_liveness_beat(&w->liveness, w->now, &beat);
            lsi_heartbeat_send(w->heartbeat, &beat);
            told = w->now;
        }
        judge(w);
    } while (sleep_for(w, nap, &has_news));
}

static void *watchdog_main(void *argument)
{
    lsi_watchdog *w = argument;

    lsi_tsan_hide(); /* what orders us and the main thread orders nothing else */
    lsi_heartbeat_begin(w->heartbeat);
    watch(w);
    leave(w);
    lsi_tsan_show();
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void destroy(lsi_watchdog *w)
{
    lsi_heartbeat_close(&w->heartbeat);
    lsi_whereabouts_close(&w->whereabouts);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    lsi_memory_free(w);
}

static void set_up(lsi_watchdog *w, lsi_job *job, double timeout)
{
    const double shortest = 0.2, longest = 5;
    pthread_condattr_t attributes;

    w->job = job;
    w->interval = timeout / 5 < shortest ? shortest : timeout / 5 > longest ? longest : timeout / 5;
    w->woke = lsi_clock_seconds();
    atomic_store(&w->looked, w->woke);
    atomic_store(&w->back, -1e9);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    lsi_whereabouts_open(&w->whereabouts, "its start");
    lsi_liveness_open(job->rank, job->world, timeout, job->hosts, w->now, &w->liveness);
}

ls_status lsi_watchdog_start(lsi_job *job, double timeout_seconds, lsi_watchdog **out)
{
    int peers[LSI_LIVENESS_MAX_PEERS];
    int n_peers = lsi_liveness_peers(job->rank, job->world, peers);
    lsi_watchdog *w;

    LS_TRY(lsi_memory_alloc(sizeof *w, "the watchdog", (void **)&w));
    set_up(w, job, timeout_seconds);
    ls_status status = lsi_heartbeat_open(job, peers, n_peers, &w->heartbeat);
    if (status == LS_OK) {
        status = lsi_thread_start(&w->thread, "ls-watchdog", watchdog_main, w);
    }
    if (status != LS_OK) {
        destroy(w);
        return status;
    }
    job->watchdog = w;
    *out = w;
    return LS_OK;
}

void lsi_watchdog_stop(lsi_watchdog **watchdog)
{
    lsi_watchdog *w = *watchdog;

    if (w == NULL) {
        return;
    }
    lsi_watchdog_enter(w, "its end");
    w->job->watchdog = NULL;
    pthread_mutex_lock(&w->mutex);
    w->stops = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    destroy(w);
    *watchdog = NULL;
}

/* ---- what it is told --------------------------------------------------------------------------------------------- */

void lsi_watchdog_enter(lsi_watchdog *watchdog, const char *text)
{
    if (watchdog != NULL) {
        lsi_whereabouts_enter(&watchdog->whereabouts, text);
        pthread_mutex_lock(&watchdog->mutex);
        watchdog->has_news = true;
        pthread_cond_signal(&watchdog->changed);
        pthread_mutex_unlock(&watchdog->mutex);
    }
}

void lsi_watchdog_tick(lsi_watchdog *watchdog)
{
    if (watchdog != NULL) {
        lsi_whereabouts_tick(&watchdog->whereabouts);
    }
}

void lsi_watchdog_observe(lsi_watchdog *watchdog, uint64_t (*progress)(void *argument),
                          bool (*where)(void *argument, char out[LSI_WATCHDOG_WHERE]), void *argument)
{
    if (watchdog != NULL) {
        lsi_whereabouts_observe(&watchdog->whereabouts, progress, where, argument);
    }
}

void lsi_watchdog_wait(lsi_watchdog *watchdog, bool begins)
{
    if (watchdog != NULL) {
        lsi_whereabouts_wait(&watchdog->whereabouts, begins);
    }
}

void lsi_watchdog_forget(lsi_watchdog *watchdog, void *argument)
{
    if (watchdog != NULL) {
        lsi_whereabouts_forget(&watchdog->whereabouts, argument);
    }
}

bool lsi_watchdog_vouches(const lsi_watchdog *watchdog, double seconds)
{
    return watchdog != NULL &&
           atomic_load(&watchdog->quiet) + (lsi_clock_seconds() - atomic_load(&watchdog->looked)) < seconds;
}

bool lsi_watchdog_was_away(const lsi_watchdog *watchdog)
{
    const double recently = 3;
    double now = lsi_clock_seconds();

    /* The other threads may be awake before this one's. */
    return watchdog != NULL && (now - atomic_load(&watchdog->looked) > watchdog->liveness.timeout ||
                                now - atomic_load(&watchdog->back) < recently);
}
