/* The hosts of --host or --hostfile, and how many ranks each of them can take now. */
#ifndef LSI_LAUNCH_HOSTS_H
#define LSI_LAUNCH_HOSTS_H

#include "config/config.h"
#include "launch/options.h"
#include "launch/signals.h"

enum { LSI_HOSTS_MAX = 256, LSI_HOST_NAME = 96, LSI_HOSTS_TEXT = LSI_HOSTS_MAX * (LSI_HOST_NAME + 8) };

typedef struct lsi_host {
    char name[LSI_HOST_NAME];
    int slots; /* as written, of all places where it stands; 0: not said */
    int gpus;  /* that a job could have; 0 on the cpu backend */
    int n;     /* ranks that it can take */
    bool answers;
} lsi_host;

typedef struct lsi_hosts {
    int n;
    lsi_host host[LSI_HOSTS_MAX];
} lsi_hosts;

/* ERR_USAGE: the file cannot be read, or there is no host, or more than LSI_HOSTS_MAX. */
LS_MUST_USE ls_status lsi_hosts_read(const lsi_launch_options *options, lsi_hosts *out);
/* Asks each one, one after the other, through mpirun as ranks are started: so it is the same agent, and a host where
 * none can be started does not answer. Says in the log which hosts take none, and why. A request to stop ends it. */
LS_MUST_USE ls_status lsi_hosts_ask(const lsi_launch_options *options, const ls_config *config, lsi_signals *signals,
                                    lsi_hosts *hosts);
/* "a:2,b:4" of those that take ranks, as --host wants it; returns how many ranks. */
int lsi_hosts_text(const lsi_hosts *hosts, char out[LSI_HOSTS_TEXT]);

/* The first argument that makes launch count for another launch; the program and its arguments stand behind it. Prints
 * one line: GPUs, cores, and why there is no GPU. */
#define LSI_COUNT_OPTION "--as-count"
LS_MUST_USE ls_status lsi_hosts_count_here(char *const *command, int n);

#endif
