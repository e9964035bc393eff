/* How long a wait for another rank may last.
 *
 * A wait without a watchdog ends at its deadline. A watchdog knows more (a peer computes long, or is stopped) and
 * speaks first; the deadline is for the case that it does neither, and moves while it vouches. A process that was
 * stopped itself finds its watchdog asleep as well: hence a second look. */
#ifndef LSI_COMM_PATIENCE_H
#define LSI_COMM_PATIENCE_H

#include "job/watchdog.h"

typedef struct lsi_patience {
    double timeout_seconds, deadline;
    const lsi_watchdog *watchdog;
    bool looked_before;
} lsi_patience;

/* A wait begins. watchdog NULL: there is none. */
lsi_patience lsi_patience_begin(double timeout_seconds, const lsi_watchdog *watchdog);
/* Whether it has lasted too long; to be asked again and again. */
bool lsi_patience_is_over(lsi_patience *patience);

#endif
