/* How many ranks a job gets, and on what. */
#ifndef LSI_LAUNCH_PICK_H
#define LSI_LAUNCH_PICK_H

#include "config/config.h"
#include "launch/options.h"

typedef enum lsi_pick_where {
    LSI_PICK_HERE,      /* this host alone */
    LSI_PICK_HOSTS,     /* those of --host or --hostfile */
    LSI_PICK_ALLOCATION /* those that a batch system has given, which mpirun finds out itself */
} lsi_pick_where;

typedef struct lsi_pick {
    lsi_pick_where where;
    int n;         /* 0: mpirun decides, from the hosts' slots */
    bool crowded;  /* more ranks than mpirun takes this host to have slots for */
    char why[192]; /* for people: "one for each of 4 cores" */
} lsi_pick;

/* `again`: a start after a failure, when -n is the most. ERR_CONFIG: -n is more than train.lanes; ERR_USAGE: a hostfile
 * that cannot be read. */
LS_MUST_USE ls_status lsi_pick_ranks(const lsi_launch_options *options, const lsi_config *config, bool again,
                                     lsi_pick *out);

#endif
