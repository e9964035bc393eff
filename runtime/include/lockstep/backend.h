/* The execution contract, for authors of backends and of ops.
 *
 * A backend is a table of functions that opens a device and orders work on it. Work queued on a stream returns at once;
 * when it fails, the failure surfaces at the next stream_sync or event_sync with the name of the op. Unless a comment
 * says otherwise, one host thread queues work and none of these calls is collective. Nothing here knows ranks. */
#ifndef LS_BACKEND_H
#define LS_BACKEND_H

#include <lockstep/status.h>
#include <lockstep/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_backend ls_backend;       /* the table below: what executes */
typedef struct ls_device ls_device;         /* one opened device, or the host */
typedef struct ls_stream ls_stream;         /* an ordered queue of work */
typedef struct ls_event ls_event;           /* a point in a stream */
typedef struct ls_recording ls_recording;   /* a captured sequence of work over several streams */

/* Where memory lives. SHARED is device memory that other processes of the node can map. */
typedef enum ls_memory { LS_MEM_DEVICE, LS_MEM_PINNED, LS_MEM_SHARED, LS_MEM_COUNT } ls_memory;

/* A word in pinned memory that orders host threads and streams. Plain storage: read and written only through the
 * calls below. One producer and one consumer. The values are constants (1 full, 0 free), never a sequence number,
 * because a captured step must set and await the same values at every replay. */
typedef struct ls_flag {
    uint32_t word;
} ls_flag;

/* One stream-ordered time stamp. A stamp is valid when its sequence is the one looked for: the ring wraps. */
typedef struct ls_stamp {
    uint64_t sequence;      /* counted where the stamp executes, from 1 */
    uint64_t nanoseconds;   /* monotonic clock of the device */
    uint32_t id;            /* what the queueing code called this point */
    uint32_t reserved;
} ls_stamp;

enum { LS_STAMP_RING = 4096 };   /* stamps kept per device, a power of two */

/* What open() needs to know. */
typedef struct ls_device_options {
    size_t struct_size;
    int ordinal;            /* which of the backend's devices */
    const char *pci_address; /* that device must be at this address, "0000:07:00.0"; NULL: not checked */
    int n_threads;          /* compute threads, for backends that run on the host; at least 1 */
    const char *isa;        /* kernel variant that all ranks agreed on; NULL: the best this host runs */
    bool sync_each_op;      /* wait after every op, so that a failure always names the exact one */
    bool tf32;              /* f32 products may round their factors to TF32; refused by backends without it */
} ls_device_options;

/* ---- ops ------------------------------------------------------------------------------------------------- */

/* What an op running on the host gets besides its arguments. */
typedef struct ls_cpu_run ls_cpu_run;
typedef void (*ls_block_fn)(void *argument, int64_t block);

/* Runs fn(argument, 0 .. n_blocks-1) on the compute threads and returns when all are done. Which thread runs a block
 * is free; what a block computes must not depend on it, nor on the number of threads. A block takes about 100 us, never
 * waits, and a nested call runs serially. */
void ls_parallel_for(const ls_cpu_run *run, int64_t n_blocks, ls_block_fn fn, void *argument);

/* Elements [first, first + count) of a view of f32, f16 or bf16 as f32, and back, rounded to nearest even. Kernels
 * compute in f32 whatever the plan stores: load a tile, compute, store it. Count 0 does
 * nothing, also to a view that is not given. */
void ls_view_load(const ls_view *view, int64_t first, int64_t count, float *out);
void ls_view_store(const ls_view *view, int64_t first, int64_t count, const float *values);

typedef ls_status (*ls_cpu_fn)(const ls_cpu_run *run, const void *arguments);
typedef ls_status (*ls_cuda_fn)(ls_stream *stream, const void *arguments);

typedef enum ls_state_access { LS_STATE_NONE, LS_STATE_READ, LS_STATE_WRITE } ls_state_access;

/* One op. Its argument struct begins with the views, inputs first, then outputs, then accumulated ones; then, when
 * state_access is not NONE, a pointer to ls_step_state at state_offset; then attributes: constants of the graph. */
typedef struct ls_op {
    size_t struct_size;
    const char *name;
    size_t arguments_bytes;         /* at most LS_OP_MAX_ARGUMENTS */
    int n_in, n_out, n_acc;         /* views read; overwritten; read and written */
    ls_state_access state_access;
    size_t state_offset;
    ls_cpu_fn cpu;                  /* NULL: not on this backend */
    ls_cuda_fn cuda;
    double (*flops)(const void *arguments);     /* optional: for MFU and benchmarks */
} ls_op;

enum { LS_OP_MAX_ARGUMENTS = 448 };

/* Checks the description of an op that was declared outside the library (struct size, name, argument size, a function
 * for the device's backend), so that the first launch cannot surprise. `op` is borrowed for the device's life. */
LS_MUST_USE ls_status ls_op_register(ls_device *device, const ls_op *op);
/* In builds with CUDA: the CUDA stream (cudaStream_t) behind a stream of the cuda backend, for launchers of kernels. */
struct CUstream_st;
struct CUstream_st *ls_cuda_stream(ls_stream *stream);
/* Queues the op; the arguments are copied. Views of count 0 are "not given". */
LS_MUST_USE ls_status ls_op_launch(ls_stream *stream, const ls_op *op, const void *arguments);

/* What stands against recording work and replaying it: nothing; something that only those accept who ask for it; or it
 * cannot be done. */
typedef enum ls_recordable { LS_RECORD_GLADLY, LS_RECORD_IF_ASKED, LS_RECORD_NEVER } ls_recordable;

/* ---- the table --------------------------------------------------------------------------------------------- */

/* Every entry is mandatory; a table with a hole or a wrong struct_size is refused. */
struct ls_backend {
    size_t struct_size;
    const char *name;               /* the word used in device.backend */
    bool host_memory;               /* device memory is the host's: all processes of a node share what is free */
    size_t stream_bytes;            /* of device memory that every stream takes, for what its ops keep for a moment */

    ls_status (*open)(const ls_device_options *options, ls_device **out);
    void (*close)(ls_device *device);                   /* NULL is accepted; everything made from it is gone by then */
    ls_status (*memory_info)(ls_device *device, size_t *free_bytes, size_t *total_bytes);
    /* One line for people and the numeric fingerprint: model, kernel variant, library versions; not what is free to
     * differ between ranks (threads). Valid while the device is open. */
    const char *(*describe)(ls_device *device);
    /* Names the device's memory: two devices of one node that answer alike share what is free. Valid as describe's. */
    const char *(*place)(ls_device *device);
    /* Kernel variant in use, as options.isa takes it; of two names of one family the lesser sorts first. */
    const char *(*variant)(ls_device *device);

    /* At least 256-byte aligned, contents undefined. release() takes what alloc() was asked for. */
    ls_status (*alloc)(ls_device *device, ls_memory kind, size_t bytes, void **out);
    void (*release)(ls_device *device, ls_memory kind, size_t bytes, void *pointer);

    /* Streams do not order each other. priority: larger runs first where the backend must choose. */
    ls_status (*stream_create)(ls_device *device, const char *name, int priority, ls_stream **out);
    void (*stream_destroy)(ls_stream *stream);          /* runs what is queued first */
    ls_status (*stream_sync)(ls_stream *stream);        /* the host waits for all that is queued */

    ls_status (*event_create)(ls_device *device, ls_event **out);
    void (*event_destroy)(ls_event *event);
    ls_status (*event_record)(ls_event *event, ls_stream *stream);
    ls_status (*event_wait)(ls_stream *stream, ls_event *event);   /* the stream waits for the last record queued */
    ls_status (*event_sync)(ls_event *event);                      /* the host waits; not inside a capture */

    ls_status (*copy)(ls_stream *stream, void *destination, const void *source, size_t bytes);
    ls_status (*fill)(ls_stream *stream, void *destination, int byte, size_t bytes);
    ls_status (*launch)(ls_stream *stream, const ls_op *op, const void *arguments);

    ls_status (*flag_set)(ls_stream *stream, ls_flag *flag, uint32_t value);
    ls_status (*flag_wait)(ls_stream *stream, ls_flag *flag, uint32_t value);     /* until equal */
    /* Any host thread may call these two. The wait ends with LS_ERR_TIMEOUT after `seconds` (<= 0: never); after an
     * abort at once with LS_ERR_INTERNAL, after a failure with that one, the flag being right or not: flags are set
     * although the work before them was skipped. */
    void (*host_flag_set)(ls_device *device, ls_flag *flag, uint32_t value);
    ls_status (*host_flag_wait)(ls_device *device, ls_flag *flag, uint32_t value, double seconds);
    /* Likewise until the word differs from `value`; *out is what it is then. For transports: a word of requests. */
    ls_status (*host_flag_wait_change)(ls_device *device, ls_flag *flag, uint32_t value, double seconds, uint32_t *out);

    /* Writes (sequence, id, clock) to the device's ring when the stream gets there; captured or not. */
    ls_status (*stamp)(ls_stream *stream, uint32_t id);
    const ls_stamp *(*stamps)(ls_device *device);       /* LS_STAMP_RING of them, live: slot = sequence % ring */
    uint64_t (*stamp_count)(ls_device *device);         /* sequence of the newest stamp */
    /* Any thread: a number that changes as streams get on, at the least with every stamp. For a watchdog. */
    uint64_t (*work_count)(ls_device *device);

    /* Between begin and end work is recorded, not run. Other streams join by waiting for an event recorded inside the
     * capture, and must end with a record that a captured stream waits for. A recording waits only for events it
     * recorded itself. Replays of it run one after the other; order after a replay through the origin stream only. */
    ls_recordable (*recordable)(ls_device *device, const char **out_why);     /* why: for messages; NULL when gladly */
    ls_status (*capture_begin)(ls_stream *origin);
    ls_status (*capture_end)(ls_stream *origin, ls_recording **out);
    ls_status (*replay)(ls_recording *recording);
    void (*recording_destroy)(ls_recording *recording); /* no replay may be running */

    /* Any thread: queued waits return, queued work is skipped, records and flag sets still run, host waits fail. The
     * same after work that failed. */
    void (*abort)(ls_device *device);
    /* Any thread: makes the next sync fail with this status and message, as failed work would. For helper threads. */
    void (*fail)(ls_device *device, ls_status status, const char *message);
};

/* Common heads: a backend embeds them first in its own structs. */
struct ls_device {
    const ls_backend *backend;
};
struct ls_stream {
    ls_device *device;
};
struct ls_event {
    ls_device *device;
};
struct ls_recording {
    ls_device *device;
};

#ifdef __cplusplus
}
#endif
#endif
