/* How many ranks a job gets, and on what. */
#ifndef LSI_LAUNCH_PICK_H
#define LSI_LAUNCH_PICK_H

#include "config/config.h"
#include "launch/options.h"
#include "launch/signals.h"

typedef enum lsi_pick_where {
    LSI_PICK_HERE,      /* this host alone */
    LSI_PICK_HOSTS,     /* those of --host or --hostfile */
    LSI_PICK_ALLOCATION /* those that a batch system has given, which mpirun finds out itself */
} lsi_pick_where;

typedef struct lsi_pick {
    lsi_pick_where where;
    int n;         /* 0: mpirun decides, from the hosts' slots */
    bool crowded;  /* more ranks than mpirun takes this host to have slots for */
    char *hosts;   /* "a:2,b:4": what the hosts were found to have; NULL: as the options say. Freed by lsi_pick_free */
    char why[192]; /* for people: "one for each of 4 cores" */
} lsi_pick;

/* `before`: the ranks of a start that failed, 0 at the first: a start again takes the GPUs that are still good, -n of
 * them at the most, and the hosts that still answer. ERR_COMM: a host does not answer at the first start, or none does;
 * ERR_CONFIG: -n is more than train.lanes; ERR_USAGE: a hostfile that cannot be read; ERR_DEVICE: no
 * GPU can be had. */
LS_MUST_USE ls_status lsi_pick_ranks(const lsi_launch_options *options, const lsi_config *config, int before,
                                     lsi_signals *signals, lsi_pick *out);
void lsi_pick_free(lsi_pick *pick);

#endif
