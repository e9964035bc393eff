/* One start of the job, from mpirun's begin to its end. */
#ifndef LSI_LAUNCH_ATTEMPT_H
#define LSI_LAUNCH_ATTEMPT_H

#include "launch/logs.h"
#include "launch/signals.h"

enum { LSI_ATTEMPT_HOST = 128 };

typedef struct lsi_attempt_result {
    int code;     /* the cause's, or mpirun's where no rank tells one; 128 + n when launch ended it itself */
    int n_ranks;  /* that have started */
    int cause;    /* the rank that failed first; -1: none has told of a failure */
    int n_failed; /* ranks that failed, the cause included */
    long pid;     /* of the cause */
    char host[LSI_ATTEMPT_HOST];
} lsi_attempt_result;

/* Runs argv; `n_ranks`: how many it starts, 0 when unknown; `logs` has begun. The first request to stop becomes SIGUSR1
 * to the ranks, as soon as all of them have started; the next one ends them. Fails when the job cannot be started or
 * watched; nothing of it is left running then. */
LS_MUST_USE ls_status lsi_attempt_run(char *const *argv, int n_ranks, lsi_signals *signals, lsi_logs *logs,
                                      lsi_attempt_result *out);

#endif
