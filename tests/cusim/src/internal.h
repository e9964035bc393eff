/* The simulator's core, as its libraries (matrix products, collectives) see it. The implementation is in runtime*.c.
 *
 * One lock guards everything. Operations on streams run inside API calls, on whichever host thread called, with that
 * lock held; a progress thread runs them while no host thread calls in. The simulator is never instrumented for
 * ThreadSanitizer: its own lock is invisible, and order exists only where CUDA promises it (queue -> run, record ->
 * wait, run -> sync). */
#ifndef CUSIM_INTERNAL_H
#define CUSIM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- functions simulated: api.def ----------------------------------------------------------- */

enum { CUSIM_WAITS = 1, CUSIM_ALLOCATES = 2, CUSIM_QUEUES = 4, CUSIM_UNSAFE = 8 };

typedef enum cusim_function {
#define CUSIM_API(library, name, flags) CUSIM_FN_##name,
#include "api.def"
#undef CUSIM_API
    CUSIM_FN_COUNT
} cusim_function;

/* For calls that belong to no stream. */
#define CUSIM_NO_STREAM ((cudaStream_t)(uintptr_t)0xffff)

/* The first line of every function of a library (not of the CUDA runtime itself: runtime.h has CUSIM_ENTER). Counts the
 * call, writes it with `details` ("count=12 type=7"; NULL: none) to the record, lets streams go on as the policy likes,
 * and returns the code this call must fail with: of an injected failure, or 0. Called without the lock. */
int cusim_call(cusim_function function, cudaStream_t stream, const char *details, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a library that is told about its failures elsewhere: only asks for an injected failure of `name`, which
 * need not be in api.def (a kernel's, as "kernel:NAME", or a point inside an operation). */
int cusim_inject(const char *name);

/* ---- lock, waiting -------------------------------------------------------------------------- */

void cusim_lock(void); /* may be taken again by the thread that holds it */
void cusim_unlock(void);
/* With the lock held once: runs streams until ready(argument), letting others in meanwhile. */
void cusim_wait_until(bool (*ready)(void *argument), void *argument);
/* From now on streams go on although no host thread calls in (it may be waiting in MPI, or polling memory). */
void cusim_need_progress(void);

/* ---- devices -------------------------------------------------------------------------------- */

struct cusim_gpu;
int cusim_current_device(void);
/* The described GPU behind a CUDA device index, NULL if there is none. */
const struct cusim_gpu *cusim_device_gpu(int device);
/* The error that sticks to a device since one of its operations failed, or cudaSuccess. */
cudaError_t cusim_device_error(int device);

/* ---- memory --------------------------------------------------------------------------------- */

typedef struct cusim_memory {
    char *base; /* of the allocation */
    size_t bytes;
    int device;               /* -1: host */
    enum cudaMemoryType kind; /* cudaMemoryTypeHost (pinned or registered) or cudaMemoryTypeDevice */
    bool freed;               /* given to cudaFreeAsync */
} cusim_memory;

/* The allocation that holds all of [pointer, pointer + bytes); bytes = 0: that holds the pointer. */
bool cusim_memory_find(const void *pointer, size_t bytes, cusim_memory *out);
/* Live device memory, all of it; on that device unless device < 0. */
bool cusim_is_device_range(const void *pointer, size_t bytes, int device);

/* ---- operations on streams ------------------------------------------------------------------ */

/* What a piece of work answers: finished; not yet, ask again (other streams go on meanwhile); or minus a cudaError_t,
 * which ends it and sticks to the device. */
enum { CUSIM_AGAIN = 0, CUSIM_DONE = 1 };

typedef struct cusim_work {
    const char *name; /* for messages and the record; copied */
    /* Runs with the lock held, when everything before it in its stream is finished. `argument` is this execution's own
     * copy: what it writes there stays for the next time it is asked, but not for the next launch of a graph. `first`
     * is true the first time of each execution. It must not call the CUDA API. */
    int (*poll)(void *argument, bool first);
    const void *argument;
    size_t argument_bytes;
    double seconds;  /* what it costs in the virtual clock */
    bool never_idle; /* true: "ask again" means work got done, do not sleep over it */
} cusim_work;

/* Queues work, or appends it to the graph that the stream is capturing. The argument is copied. Without the lock or
 * with it. */
cudaError_t cusim_enqueue(cudaStream_t stream, const cusim_work *work);
int cusim_stream_device(cudaStream_t stream);
int cusim_stream_id(cudaStream_t stream); /* as in messages and the record: 0 is the default stream */
bool cusim_stream_capturing(cudaStream_t stream);
/* Seconds of the virtual clock at which the host stands. */
double cusim_virtual_seconds(void);

/* ---- what is random, what is said ----------------------------------------------------------- */

uint64_t cusim_random(void); /* with the lock held; seeded by CUSIM_SEED */
uint64_t cusim_seed(void);   /* 0: no freedom is used, everything runs when it is queued */
/* One line on stderr, "cusim: ..."; not under CUSIM_QUIET=1. */
void cusim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same always, then abort(): the program under test is wrong in a way that real hardware punishes silently. */
void cusim_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A line of the record (CUSIM_RECORD=file) that is not a call. */
void cusim_record(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- what the race detector must see although the simulator is not instrumented ------------- */

#ifdef CUSIM_TSAN
void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes);
#define CUSIM_READS(address, bytes) __tsan_read_range((void *)(uintptr_t)(address), (bytes))
#define CUSIM_WRITES(address, bytes) __tsan_write_range((void *)(uintptr_t)(address), (bytes))
#else
#define CUSIM_READS(address, bytes) ((void)(address), (void)(bytes))
#define CUSIM_WRITES(address, bytes) ((void)(address), (void)(bytes))
#endif

#endif
