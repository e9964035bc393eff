/* How many ranks each of the hosts of --host or --hostfile can take now. */
#ifndef LSI_LAUNCH_HOSTS_H
#define LSI_LAUNCH_HOSTS_H

#include "config/config.h"
#include "launch/host_list.h"
#include "launch/options.h"
#include "launch/signals.h"

/* Asks each one, one after the other, through mpirun as ranks are started: so it is the same agent, and a host where
 * none can be started does not answer. Says in the log which hosts take none, and why. A request to stop ends it. */
LS_MUST_USE ls_status lsi_hosts_ask(const lsi_launch_options *options, const ls_config *config, lsi_signals *signals,
                                    lsi_hosts *hosts);
/* The first argument that makes launch count for another launch; the program and its arguments stand behind it. Prints
 * one line: GPUs, cores, and why there is no GPU. */
#define LSI_COUNT_OPTION "--as-count"
LS_MUST_USE ls_status lsi_hosts_count_here(char *const *command, int n);

#endif
