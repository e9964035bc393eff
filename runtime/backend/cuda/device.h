/* The opened GPU, shared by the files that fill the cuda backend's table. One host thread queues work; the calls for
 * which the contract says so come from any thread. Every entry first makes the GPU the calling thread's current one. */
#ifndef LSI_BACKEND_CUDA_DEVICE_H
#define LSI_BACKEND_CUDA_DEVICE_H

#include <pthread.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/extension.h"
#include "base/failure.h"

struct lsi_cuda_recording;
struct lsi_cuda_release;
struct lsi_cuda_queue;

/* Bits of lsi_cuda_device.stopped. */
enum { LSI_CUDA_FAILED = 1, LSI_CUDA_ABORTED = 2 };

typedef struct lsi_cuda_device {
    ls_device head;
    int ordinal;
    int capability; /* of the kernels to choose: 10 x major + minor, at most the GPU's */
    bool sync_each_op, tf32;
    char description[512], variant[8];
    char place[33]; /* the GPU's UUID, or that of the part of it that this is, in hex digits */
    char model[320];     /* name, SMs, variant */
    char library[64];    /* name and version of what makes products */
    lsi_cuda_driver driver;

    uint32_t stopped;
    pthread_mutex_t mutex; /* failure, streams, capture, release */
    lsi_failure failure;   /* the first one; status LS_OK: none */
    struct lsi_cuda_queue *streams;
    struct lsi_cuda_release *release; /* flags that streams wait for (release.h) */
    lsi_cuda_fault *fault;            /* pinned: what a kernel found wrong with its data */

    ls_stamp *stamps;        /* pinned */
    uint64_t *stamp_counter; /* in device memory */
    uint64_t stamps_seen;    /* newest sequence found in the ring so far */

    struct lsi_cuda_recording *capture; /* the open one */
    uint32_t n_captures;
    lsi_cuda_extension *extensions;
    int n_streams, n_events, n_recordings, n_blocks; /* alive */
    size_t n_bytes;
} lsi_cuda_device;

ls_status lsi_cuda_device_open(const ls_device_options *options, ls_device **out);
void lsi_cuda_device_close(ls_device *device);
const char *lsi_cuda_device_describe(ls_device *device);
const char *lsi_cuda_device_place(ls_device *device);
const char *lsi_cuda_device_variant(ls_device *device);

/* Makes the GPU current in the calling thread. What follows a failure would be done on another GPU: only what frees
 * memory or asks streams how they are may go on. */
cudaError_t lsi_cuda_device_enter(const lsi_cuda_device *device);
/* The same for calls that give a status; `what` they are after. */
LS_MUST_USE ls_status lsi_cuda_device_enter_for(lsi_cuda_device *device, const char *what);

/* failure.c; any thread. */
bool lsi_cuda_device_stopped(const lsi_cuda_device *device);
void lsi_cuda_device_abort(ls_device *device);
void lsi_cuda_device_fail(ls_device *device, ls_status status, const char *message);
/* An error that `call` of CUDA gave while the host waited: the message names the ops that may have caused it. */
void lsi_cuda_device_fail_wait(lsi_cuda_device *device, cudaError_t error, const char *call);
/* What a call that queues work ended with, being this thread's failure record. */
void lsi_cuda_device_fail_queue(lsi_cuda_device *device, ls_status status);
/* The failure that stopped the device, on the calling thread's record; LS_OK while it runs. */
LS_MUST_USE ls_status lsi_cuda_device_check(lsi_cuda_device *device);

/* memory.c */
ls_status lsi_cuda_memory_info(ls_device *device, size_t *free_bytes, size_t *total_bytes);
ls_status lsi_cuda_memory_alloc(ls_device *device, ls_memory kind, size_t bytes, void **out);
void lsi_cuda_memory_release(ls_device *device, ls_memory kind, size_t bytes, void *pointer);

/* flag.c */
ls_status lsi_cuda_flag_set(ls_stream *stream, ls_flag *flag, uint32_t value);
ls_status lsi_cuda_flag_wait(ls_stream *stream, ls_flag *flag, uint32_t value);
void lsi_cuda_host_flag_set(ls_device *device, ls_flag *flag, uint32_t value);
ls_status lsi_cuda_host_flag_wait(ls_device *device, ls_flag *flag, uint32_t value, double seconds);
ls_status lsi_cuda_host_flag_wait_change(ls_device *device, ls_flag *flag, uint32_t value, double seconds,
                                         uint32_t *out);

/* stamp.c */
LS_MUST_USE ls_status lsi_cuda_stamp_open(lsi_cuda_device *device);
void lsi_cuda_stamp_close(lsi_cuda_device *device);
ls_status lsi_cuda_stamp(ls_stream *stream, uint32_t id);
const ls_stamp *lsi_cuda_stamps(ls_device *device);
uint64_t lsi_cuda_stamp_count(ls_device *device);

#endif
