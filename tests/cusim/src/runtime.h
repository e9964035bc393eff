/* The simulated runtime's own state, shared by runtime_*.c. Everything here is guarded by the lock of internal.h. */
#ifndef CUSIM_RUNTIME_H
#define CUSIM_RUNTIME_H

#include "cusim_exec.h"
#include "internal.h"
#include "machine.h"
#include "tsan.h"

/* ---- events, operations --------------------------------------------------------------------- */

/* One cudaEventRecord: what a wait queued after it waits for, although the event may be recorded again meanwhile. */
typedef struct event_record {
    int references;
    bool done;
    double seconds;
    struct CUstream_st *stream;
    char tsan;
} event_record;

typedef enum op_kind {
    OP_KERNEL,
    OP_COPY,
    OP_SET,
    OP_RECORD,
    OP_WAIT,
    OP_HOST,
    OP_WORK,
    OP_FREE,
    OP_GRAPH,
    OP_WRITE_VALUE,
    OP_WAIT_VALUE,
    OP_NOTHING
} op_kind;

typedef enum host_state { HOST_NEW, HOST_RUNNING, HOST_DONE } host_state;

typedef struct op {
    struct op *next;
    op_kind kind;
    char name[48];
    double seconds; /* cost in the virtual clock */
    double queued_at;
    struct CUstream_st *stream;
    uint64_t sequence; /* in its stream, from 1 */
    struct dependency {
        struct CUstream_st *stream;
        uint64_t sequence;
    } * after; /* of the legacy default stream */
    int n_after;
    bool started;
    cudaError_t fail_with; /* injected: what it does to the device when it runs */
    char tsan;             /* order: queueing thread -> this */
    union {
        cusim_launch kernel; /* with a closure of its own */
        struct {
            char *target;
            const char *source;
            char *staged; /* pageable source, read when queued */
            size_t bytes, position;
            size_t row, target_pitch, source_pitch; /* rows of `row` bytes; row = bytes: one piece */
            int value;                              /* of OP_SET */
        } copy;
        struct {
            event_record *record;
            struct CUevent_st *event; /* in graphs: which record is meant is known at the launch */
        } event;
        struct {
            cudaHostFn_t function;
            void *argument;
            host_state state;
        } host;
        struct {
            int (*poll)(void *argument, bool first);
            void *argument;
            size_t bytes;
            bool never_idle;
        } work;
        void *freed;
        struct graph_run *run;
        struct {
            uint32_t *word;
            uint32_t value;
            unsigned flags;
        } value;
    } u;
} op;

typedef struct CUevent_st {
    event_record *record; /* the last one; NULL: none */
    unsigned flags;
    int id, device;
    uint64_t capture; /* id of the capture it was last recorded in; 0: none */
    struct CUgraphNode_st **frontier;
    int n_frontier;
} cusim_event;

/* ---- graphs --------------------------------------------------------------------------------- */

typedef struct CUgraphNode_st {
    op *op;
    int index;
    struct CUgraphNode_st **after;
    int n_after;
} graph_node;

typedef struct CUgraph_st {
    graph_node **nodes;
    int n_nodes, room;
} cusim_graph;

typedef struct CUgraphExec_st {
    cusim_graph graph;
    int references;           /* the program's, and one of each launch that is not over */
    struct graph_run *active; /* launches run one after another */
    char tsan;
} cusim_graph_exec;

typedef struct capture {
    struct capture *next;
    uint64_t id;
    cusim_graph *graph;
    struct CUstream_st *origin;
    enum cudaStreamCaptureMode mode;
    int thread;
    bool invalid;
} capture;

/* One launch of a graph: its own copies of the operations. */
typedef struct graph_run {
    cusim_graph_exec *exec;
    int n_left;
    struct graph_step {
        op *op;
        enum { STEP_NEW, STEP_STARTED, STEP_DONE } state;
        double end;
        void *tsan_fiber;
        char tsan;
    } * steps;
    double start;
    char tsan;
} graph_run;

/* ---- streams -------------------------------------------------------------------------------- */

typedef struct CUstream_st {
    struct CUstream_st *next;
    int device, id, priority;
    bool legacy;
    unsigned flags;
    op *first, *last;
    uint64_t n_queued, n_done;
    double seconds; /* where it stands in the virtual clock */
    double weight;  /* how fast the policies let it be */
    bool blocked;   /* its first operation said "ask again" in this round */
    void *tsan_fiber;
    char tsan; /* order: its finished operations -> who waits for them */
    capture *capture;
    graph_node **frontier; /* what the next captured operation comes after */
    int n_frontier;
} cusim_stream;

/* ---- the whole ------------------------------------------------------------------------------ */

/* How the device uses the freedom CUDA leaves it; seeds take turns with the last five. */
typedef enum policy {
    POLICY_EAGER,  /* everything runs when it is queued */
    POLICY_LAZY,   /* nothing runs until the host waits, then only what it waits for */
    POLICY_OTHERS, /* nothing runs until the host waits, then first what it does not wait for */
    POLICY_SLOW,   /* one stream runs only when nothing else can, the others at once */
    POLICY_FAST,   /* one stream runs at once, the others only when the host waits */
    POLICY_RANDOM  /* each call may let some streams go on, of very different speeds */
} policy;

typedef struct cusim_device_state {
    cusim_gpu gpu;
    cusim_visible visible;
    cusim_stream *legacy;
    cudaError_t error; /* sticks */
    bool has_context;
    size_t used;
    char *arena; /* CUSIM_PROTECT: all its memory, closed but while its operations run */
    size_t arena_used;
    bool arena_open;
} cusim_device_state;

typedef struct cusim_core {
    cusim_machine machine;
    int n_devices;
    cudaError_t no_device; /* what calls say when there is none */
    cusim_device_state devices[CUSIM_MAX_GPUS];
    cusim_stream *streams;
    capture *captures;
    int n_stream_ids;
    uint64_t n_captures;
    int n_events, n_event_ids; /* alive; ever made */
    uint64_t seed;
    policy policy;
    bool protect, quiet, real_clock;
    bool running;     /* an operation is under way */
    uint64_t n_calls; /* of the API: the progress thread looks whether the host is there */
    double host_seconds;
    double now; /* start of the operation under way */
} cusim_core;
extern cusim_core cusim;

extern _Thread_local int cusim_device; /* current device */
extern _Thread_local bool cusim_in_host_function;
int cusim_thread_number(void);

/* ---- runtime.c: entering and leaving the API ------------------------------------------------ */

/* With the lock held when it returns cudaSuccess; else without it, and the error noted as the thread's last one. */
cudaError_t cusim_enter(cusim_function function, cudaStream_t stream, const char *details, ...)
    __attribute__((format(printf, 3, 4)));
#define CUSIM_ENTER_STREAM(name, stream, ...)                                                                          \
    do {                                                                                                               \
        cudaError_t entered = cusim_enter(CUSIM_FN_##name, (stream), __VA_ARGS__);                                     \
        if (entered != cudaSuccess)                                                                                    \
            return entered;                                                                                            \
    } while (0)
#define CUSIM_ENTER(name) CUSIM_ENTER_STREAM(name, CUSIM_NO_STREAM, NULL)
cudaError_t cusim_leave(cudaError_t error);     /* unlocks, notes the error, returns it */
cudaError_t cusim_set_error(cudaError_t error); /* notes it without the lock */
bool cusim_error_sticks(int code);
void cusim_device_fails(int device, cudaError_t error);
bool cusim_lock_is_nested(void);

/* ---- runtime_record.c ----------------------------------------------------------------------- */

int cusim_count_call(cusim_function function, int stream_id, const char *details); /* counts, records; injected code */
unsigned cusim_function_flags(cusim_function function);
const char *cusim_function_name(cusim_function function);
/* node: its number in its graph, in the order of the capture; -1: not of a graph. */
void cusim_record_queued(const op *operation, int stream_id, int node);
void cusim_record_run(const op *operation, int stream_id, int node, double start, double end);

/* ---- runtime_op.c --------------------------------------------------------------------------- */

op *cusim_op_new(op_kind kind, const char *name, double seconds);
op *cusim_op_clone(const op *original);
void cusim_op_free(op *operation);
event_record *cusim_record_new(cusim_stream *stream);
void cusim_record_drop(event_record *record);
/* Takes the operation over, also when it fails. */
cudaError_t cusim_queue(op *operation, cusim_stream *stream);

/* ---- runtime_perform.c ---------------------------------------------------------------------- */

typedef enum progress { PROGRESS_NONE, PROGRESS_SOME, PROGRESS_DONE } progress;
bool cusim_op_can_run(const op *operation);
progress cusim_perform(op *operation, cusim_stream *stream);
progress cusim_perform_graph(op *operation, cusim_stream *stream);

/* ---- runtime_schedule.c --------------------------------------------------------------------- */

void cusim_run_some(void);                    /* at each call: as the policy likes */
void cusim_poll_stream(cusim_stream *stream); /* at a query: so that polling comes to an end */
/* The host waits. Returns early when the device has failed. */
void cusim_drain_stream(cusim_stream *stream);
void cusim_drain_device(int device);
void cusim_wait_record(event_record *record, int device);

/* ---- runtime_progress.c: threads behind the host's back ------------------------------------- */

void cusim_run_host_function(op *operation, void *tsan_fiber); /* hands it to the thread for host functions */
void cusim_pass_by_host(void);                                 /* the progress thread's part: runs whatever can run */

/* ---- runtime_stream.c, runtime_capture.c, runtime_graph.c, runtime_memory.c, ... ------------ */

cusim_stream *cusim_stream_new(int device, unsigned flags, int priority, bool legacy);
cusim_stream *cusim_stream_resolve(cudaStream_t stream); /* the default stream's handles, too */
cusim_stream *cusim_stream_legacy(int device);

/* The error of a call that no capture in its way allows; invalidates that capture. */
cudaError_t cusim_capture_forbids(void);
void cusim_capture_invalidate(cusim_stream *stream);
capture *cusim_capture_find(uint64_t id);
cudaError_t cusim_capture_add(op *operation, cusim_stream *stream);
cudaError_t cusim_capture_legacy_use(int device);

graph_node *cusim_graph_add(cusim_graph *graph, op *operation, graph_node *const *after, int n_after);
void cusim_graph_clear(cusim_graph *graph);
void cusim_run_free(graph_run *run);

int cusim_shared_per_sm(int device); /* bytes */
int cusim_shared_per_block(int device);
bool cusim_device_attribute(int device, int which, int *out); /* the driver's numbers, too */

void cusim_memory_open(int device); /* CUSIM_PROTECT; device < 0: all */
void cusim_memory_close(void);
void cusim_memory_release(void *pointer);
cudaError_t cusim_memory_check_copy(const void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind);

#endif
