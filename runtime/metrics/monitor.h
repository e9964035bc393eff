/* Watches the GPUs of a job while it trains, and shows how it goes: on each host one thread samples the GPUs that the
 * job's processes there were given, serves GET /metrics on monitor.port and replaces monitor.textfile. Rank 0 gets the
 * samples of all hosts, for metrics.jsonl. An error that the driver tells of a GPU (Xid) is in its host's log at once.
 * Nothing here waits for training, and training waits for nothing here. */
#ifndef LSI_METRICS_MONITOR_H
#define LSI_METRICS_MONITOR_H

#include "job/job.h"
#include "metrics/gauges.h"

typedef struct lsi_monitor lsi_monitor;

typedef struct lsi_monitor_options {
    lsi_job *job;
    const lsi_gpu *gpu;         /* this process's; NULL: none. Borrowed for the call */
    double interval;            /* seconds between samples; 0: no monitor */
    int port;                   /* 0: no endpoint */
    const char *leases;         /* device.leases, where a GPU that fails is noted; "": nowhere */
    const char *textfile;       /* "": none; another process on the same host has the same one */
} lsi_monitor_options;

/* Collective, agreed. *out is NULL on a process that watches nothing. What cannot be had (NVML, the port, the file) is
 * one warning. */
LS_MUST_USE ls_status lsi_monitor_open(const lsi_monitor_options *options, lsi_monitor **out);
/* Collective. Accepts NULL. */
void lsi_monitor_close(lsi_monitor **monitor);

/* The main thread, when there is something new about training. monitor may be NULL. */
void lsi_monitor_tell(lsi_monitor *monitor, const lsi_trainer_numbers *numbers);

/* Rank 0: the newest samples of all GPUs of the job, in the order of ranks. */
typedef struct lsi_monitor_samples {
    int n;
    const lsi_gpu_label *labels;        /* live as long as the monitor */
    const lsi_gpu_numbers *numbers;     /* until the next call */
    double seconds;                     /* since the samples that were taken before, or since the start */
    double joules;                      /* of all GPUs in that time; NaN: one does not tell */
} lsi_monitor_samples;
/* False: nothing new since the last call, or monitor is NULL. */
bool lsi_monitor_take(lsi_monitor *monitor, lsi_monitor_samples *out);

#endif
