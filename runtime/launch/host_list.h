/* The hosts of --host or --hostfile, as they are written. */
#ifndef LSI_LAUNCH_HOST_LIST_H
#define LSI_LAUNCH_HOST_LIST_H

#include <lockstep/status.h>
#include <stdbool.h>

enum { LSI_HOSTS_MAX = 1024, LSI_HOST_NAME = 96, LSI_HOSTS_TEXT = LSI_HOSTS_MAX * (LSI_HOST_NAME + 8) };

typedef struct lsi_host {
    char name[LSI_HOST_NAME];
    int slots;    /* as written, of all places where it stands */
    int n_unsaid; /* places where it stands without a number */
    int gpus;     /* that a job could have (hosts.h); 0 on the cpu backend */
    int n;        /* ranks that it can take (hosts.h) */
    bool answers;
} lsi_host;

typedef struct lsi_hosts {
    int n;
    lsi_host host[LSI_HOSTS_MAX];
} lsi_hosts;

/* One of the two is given: "a:4,b", or the path of a file with a line `name slots=N` for each host. ERR_USAGE: the file
 * cannot be read, there is no host, or there are more than LSI_HOSTS_MAX. */
LS_MUST_USE ls_status lsi_host_list_read(const char *host, const char *hostfile, lsi_hosts *out);
/* All slots: without a number a host has one on the command line (`unsaid` = 1), as many as mpirun finds in a file
 * (`unsaid` = 0; the sum is 0 then). */
int lsi_host_list_slots(const lsi_hosts *hosts, int unsaid);
/* "a:2,b:4" of those that take ranks, as --host wants it; returns how many ranks. */
int lsi_host_list_text(const lsi_hosts *hosts, char out[LSI_HOSTS_TEXT]);

#endif
