/* What one rank knows of the others, and what follows from it: the watchdog without its thread, clock and messages.
 *
 * Each rank has peers, to whom it tells and of whom it hears: all ranks in a world of up to 64; in a larger one those
 * at distance 1, 2, 4, ... both ways, so that news of getting on reaches everybody over ceil(log2 world) beats. */
#ifndef LSI_JOB_LIVENESS_H
#define LSI_JOB_LIVENESS_H

#include "base/text.h"
#include "job/job.h"
#include <stdbool.h>
#include <stdint.h>

enum { LSI_LIVENESS_WHERE = 160, LSI_LIVENESS_ALL = 64, LSI_LIVENESS_MAX_PEERS = 64 };

/* What a rank tells its peers. */
typedef struct lsi_beat {
    double idle;                    /* seconds since this rank has got on */
    double job_idle;                /* since any rank has, as far as this one knows */
    uint64_t progress;              /* grows as the rank gets on */
    uint32_t leaves;                /* its last beat: it stops at the same point as all others */
    uint32_t waits;                 /* for other ranks */
    char where[LSI_LIVENESS_WHERE];
} lsi_beat;

typedef struct lsi_liveness_peer {
    int rank;
    double heard, got_on;           /* when */
    uint64_t progress;
    bool left, waits;
    char host[LSI_JOB_HOST], where[LSI_LIVENESS_WHERE];
} lsi_liveness_peer;

/* Times are seconds of a clock that the caller keeps. */
typedef struct lsi_liveness {
    int rank, world, n_peers;
    double timeout, limit;          /* comm.timeout; and how long silence or standing still may last */
    double job_got_on;
    lsi_liveness_peer self, peer[LSI_LIVENESS_MAX_PEERS];
} lsi_liveness;

/* The peers of a rank, ascending; returns how many. */
int lsi_liveness_peers(int rank, int world, int out[LSI_LIVENESS_MAX_PEERS]);
/* hosts: of each rank. All ranks count as heard of and getting on now. */
void lsi_liveness_open(int rank, int world, double timeout, char (*hosts)[LSI_JOB_HOST], double now, lsi_liveness *out);

/* This rank's progress is this, and it stands there, waiting for other ranks or not. */
void lsi_liveness_note(lsi_liveness *liveness, double now, uint64_t progress, const char *where, bool waits);
/* A beat of peer p has come. */
void lsi_liveness_hear(lsi_liveness *liveness, double now, int p, const lsi_beat *beat);
/* What to tell: the last time when self.left has been set. */
void lsi_liveness_beat(const lsi_liveness *liveness, double now, lsi_beat *out);

/* Whether it is for this rank to end the job now: for the lowest that lives at once, for others a little later. */
bool lsi_liveness_failed(const lsi_liveness *liveness, double now);
/* Appends who is behind, on which host, for how long, and where. */
void lsi_liveness_describe(const lsi_liveness *liveness, double now, lsi_text *out);

#endif
