#include "job/liveness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A short comm.timeout must not make a late thread a failure; a rank that should speak and does not is not waited for
 * long. Both together, and the abort, are to take less than five seconds. In seconds. */
static const double grace = 1, patience = 2;
/* Ranks that stopped getting on within this of each other did so together. */
static const double together = 1;

enum { MAX_NAMED = 4 };

/* ---- who tells whom ---------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int lsi_liveness_peers(int rank, int world, int out[LSI_LIVENESS_MAX_PEERS])
{
    int n = 0, kept = 0;

    if (world <= LSI_LIVENESS_ALL) {
        for (int r = 0; r < world; r++) {
            if (r != rank) {
                out[n++] = r;
            }
        }
        return n;
    }
    for (int64_t distance = 1; distance < world; distance *= 2) {
        out[n++] = (int)((rank + distance) % world);
        out[n++] = (int)((rank - distance + world) % world);
    }
    qsort(out, (size_t)n, sizeof *out, ascending);
    for (int i = 0; i < n; i++) {
        if (i == 0 || out[i] != out[i - 1]) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

static void place(lsi_liveness_peer *peer, int rank, char (*hosts)[LSI_JOB_HOST], double now)
{
    *peer = (lsi_liveness_peer){.rank = rank, .heard = now, .got_on = now, .where = "its start"};
    snprintf(peer->host, sizeof peer->host, "%s", hosts[rank]);
}

void lsi_liveness_open(int rank, int world, double timeout, char (*hosts)[LSI_JOB_HOST], double now, lsi_liveness *out)
{
    int peers[LSI_LIVENESS_MAX_PEERS];

    *out =
        (lsi_liveness){.rank = rank, .world = world, .timeout = timeout, .limit = timeout + grace, .job_got_on = now};
    out->n_peers = lsi_liveness_peers(rank, world, peers);
    place(&out->self, rank, hosts, now);
    for (int p = 0; p < out->n_peers; p++) {
        place(&out->peer[p], peers[p], hosts, now);
    }
}

/* ---- what is known ----------------------------------------------------------------------------------------------- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

void lsi_liveness_note(lsi_liveness *liveness, double now, uint64_t progress, const char *where, bool waits)
{
    lsi_liveness_peer *self = &liveness->self;

    self->heard = now;
    if (progress != self->progress) {
        self->progress = progress;
        self->got_on = liveness->job_got_on = now;
    }
    self->waits = waits;
    snprintf(self->where, sizeof self->where, "%s", where);
}

void lsi_liveness_hear(lsi_liveness *liveness, double now, int p, const lsi_beat *beat)
{
    lsi_liveness_peer *peer = &liveness->peer[p];

    peer->heard = now;
    peer->got_on = now - beat->idle;
    peer->progress = beat->progress;
    peer->left = beat->leaves != 0;
    peer->waits = beat->waits != 0;
    snprintf(peer->where, sizeof peer->where, "%.*s", (int)sizeof beat->where - 1, beat->where);
    liveness->job_got_on = later(liveness->job_got_on, now - beat->job_idle);
}

void lsi_liveness_beat(const lsi_liveness *liveness, double now, lsi_beat *out)
{
    const lsi_liveness_peer *self = &liveness->self;

    *out = (lsi_beat){.idle = now - self->got_on,
                      .job_idle = now - liveness->job_got_on,
                      .progress = self->progress,
                      .leaves = self->left,
                      .waits = self->waits};
    memcpy(out->where, self->where, sizeof out->where);
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

static bool is_silent(const lsi_liveness *liveness, const lsi_liveness_peer *peer, double now)
{
    return !peer->left && now - peer->heard > liveness->limit;
}

static bool is_known_silent(const lsi_liveness *liveness, int rank, double now)
{
    for (int p = 0; p < liveness->n_peers; p++) {
        if (liveness->peer[p].rank == rank) {
            return is_silent(liveness, &liveness->peer[p], now);
        }
    }
    return false;
}

/* Whether this rank is the lowest of them that is alive, as far as it knows. */
static bool is_speaker(const lsi_liveness *liveness, const int *ranks, int n, double now)
{
    for (int i = 0; i < n && ranks[i] < liveness->rank; i++) {
        if (!is_known_silent(liveness, ranks[i], now)) {
            return false;
        }
    }
    return true;
}

bool lsi_liveness_failed(const lsi_liveness *liveness, double now)
{
    int ranks[LSI_LIVENESS_MAX_PEERS];

    for (int p = 0; p < liveness->n_peers; p++) {
        const lsi_liveness_peer *peer = &liveness->peer[p];

        if (is_silent(liveness, peer, now)) {
            int n = lsi_liveness_peers(peer->rank, liveness->world, ranks); /* who would have heard of it */
            double wait = is_speaker(liveness, ranks, n, now) ? 0 : patience;

            if (now - peer->heard > liveness->limit + wait) {
                return true;
            }
        }
    }
    int n = lsi_liveness_peers(liveness->rank, liveness->world, ranks);
    double wait = is_speaker(liveness, ranks, n, now) ? 0 : patience;
    return now - liveness->job_got_on > liveness->limit + wait;
}

/* Whether a is further behind than b. Whoever waits for others, or at its end, is not. */
static bool is_behind(const lsi_liveness_peer *a, const lsi_liveness_peer *b)
{
    if (a->left != b->left) {
        return b->left;
    }
    if (a->waits != b->waits) {
        return b->waits;
    }
    if (a->got_on < b->got_on - together || b->got_on < a->got_on - together) {
        return a->got_on < b->got_on;
    }
    return a->progress != b->progress ? a->progress < b->progress : a->rank < b->rank;
}

static int count_unheard(const lsi_liveness *liveness, double now, double seconds)
{
    int n = 0;

    for (int p = 0; p < liveness->n_peers; p++) {
        n += !liveness->peer[p].left && now - liveness->peer[p].heard > seconds;
    }
    return n;
}

static void describe_unheard(const lsi_liveness *liveness, double now, double seconds, lsi_text *out)
{
    int named = 0, n = count_unheard(liveness, now, seconds);

    for (int p = 0; p < liveness->n_peers && named < MAX_NAMED; p++) {
        const lsi_liveness_peer *peer = &liveness->peer[p];

        if (!peer->left && now - peer->heard > seconds) {
            lsi_text_append(out, "%srank %d on %s has not been heard of for %.1f s%s; it was at %s",
                            named > 0 ? "; " : "", peer->rank, peer->host, now - peer->heard,
                            named == 0 ? ": it is stopped or out of reach" : "", peer->where);
            named++;
        }
    }
    if (n > named) {
        lsi_text_append(out, "; neither have %d others", n - named);
    }
}

static void describe_standing(const lsi_liveness *liveness, double now, lsi_text *out)
{
    const lsi_liveness_peer *last = &liveness->self, *self = &liveness->self;

    for (int p = 0; p < liveness->n_peers; p++) {
        if (is_behind(&liveness->peer[p], last)) {
            last = &liveness->peer[p];
        }
    }
    if (liveness->world == 1) {
        lsi_text_append(out, "nothing has got on for %.1f s, at %s", now - self->got_on, self->where);
        return;
    }
    lsi_text_append(out, "no rank has got on for %.1f s; rank %d on %s is furthest behind, for %.1f s at %s",
                    now - liveness->job_got_on, last->rank, last->host, now - last->got_on, last->where);
    if (last != self) {
        lsi_text_append(out, "; this rank is at %s", self->where);
    }
}

void lsi_liveness_describe(const lsi_liveness *liveness, double now, lsi_text *out)
{
    /* Of ranks stopped together one was heard of last; and where all wait for them, that they stand still may be
     * noticed a moment before the silence is. */
    double seconds = liveness->limit / 2;

    if (count_unheard(liveness, now, seconds) > 0) {
        describe_unheard(liveness, now, seconds, out);
    } else {
        describe_standing(liveness, now, out);
    }
    lsi_text_append(out, " (comm.timeout is %.3g s)", liveness->timeout);
}
