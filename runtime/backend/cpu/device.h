/* The opened cpu device, shared by the files that fill its table. One host thread calls in, unless stated otherwise. */
#ifndef LSI_BACKEND_CPU_DEVICE_H
#define LSI_BACKEND_CPU_DEVICE_H

#include <pthread.h>

#include "backend/cpu/cpu.h"
#include "base/failure.h"
#include <lockstep/backend.h>

struct lsi_cpu_event;
struct lsi_cpu_recording;

/* Bits of lsi_cpu_device.stopped. */
enum { LSI_CPU_FAILED = 1, LSI_CPU_ABORTED = 2 };

typedef struct lsi_cpu_device {
    ls_device head;
    struct ls_cpu_run run;          /* what ops get, but for the stream's priority */
    char description[256];

    /* Read and written without promising any order: a stop must not hide a missing wait from ThreadSanitizer. */
    uint32_t stopped;
    pthread_mutex_t failure_mutex;
    lsi_failure failure;            /* the first one; status LS_OK: none */

    ls_stamp *stamps;
    uint64_t n_stamps;
    uint64_t n_done;                    /* commands that streams have done */

    struct lsi_cpu_recording *capture;      /* the open one */
    uint32_t n_captures;
    struct lsi_cpu_event *free_events;
    int n_streams, n_events, n_recordings, n_blocks;    /* alive */
    size_t n_bytes;
} lsi_cpu_device;

ls_status lsi_cpu_device_open(const ls_device_options *options, ls_device **out);
void lsi_cpu_device_close(ls_device *device);
const char *lsi_cpu_device_place(ls_device *device);
const char *lsi_cpu_device_describe(ls_device *device);
const char *lsi_cpu_device_variant(ls_device *device);

/* Any thread. */
bool lsi_cpu_device_stopped(const lsi_cpu_device *device);
void lsi_cpu_device_abort(ls_device *device);
void lsi_cpu_device_fail(ls_device *device, ls_status status, const char *message);
/* The failure that stopped the device, on the calling thread's record; LS_OK while it runs. */
LS_MUST_USE ls_status lsi_cpu_device_check(lsi_cpu_device *device);

/* Any thread. */
void lsi_cpu_device_stamp(lsi_cpu_device *device, uint32_t id);
const ls_stamp *lsi_cpu_device_stamps(ls_device *device);
uint64_t lsi_cpu_device_stamp_count(ls_device *device);
uint64_t lsi_cpu_device_work_count(ls_device *device);

/* memory.c */
ls_status lsi_cpu_memory_info(ls_device *device, size_t *free_bytes, size_t *total_bytes);
ls_status lsi_cpu_memory_alloc(ls_device *device, ls_memory kind, size_t bytes, void **out);
void lsi_cpu_memory_release(ls_device *device, ls_memory kind, size_t bytes, void *pointer);

#endif
