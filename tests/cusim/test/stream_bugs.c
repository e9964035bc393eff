/* stream_bugs SCENARIO good|bad: runs one scenario of streams, events, graphs, flags and threads, right or with its
 * planted bug. Exit code 0 right data, 1 wrong data or the error that CUDA gives. planted_bugs.py runs them all. */
#include "planted.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 1000, STEPS = 6 };

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}
#define CHECK(call) check((call), #call)

/* What every scenario has: two streams, two events, device and pinned buffers. */
typedef struct world {
    cudaStream_t compute, copy;
    cudaEvent_t e1, e2;
    float *a, *b, *in, *out;
    bool good;
} world;

static float *device_buffer(void)
{
    void *p;
    CHECK(cudaMalloc(&p, N * sizeof(float)));
    return p;
}
static float *pinned_buffer(void)
{
    void *p;
    CHECK(cudaHostAlloc(&p, N * sizeof(float), 0));
    return p;
}
static cudaStream_t new_stream(void)
{
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static cudaEvent_t new_event(void)
{
    cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}
static int differs(const float *data, float expected)
{
    for (int i = 0; i < N; i++)
        if (data[i] != expected) {
            printf("element %d is %g instead of %g\n", i, data[i], expected);
            return 1;
        }
    return 0;
}
static void set_all(float *data, float value)
{
    for (int i = 0; i < N; i++)
        data[i] = value;
}
/* Fetches the device's data over a stream and compares it. */
static int result_differs(world *w, const float *data, float expected, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(w->out, data, N * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return differs(w->out, expected);
}

/* Compute reads what the copy stream still fills. */
static int copy_not_awaited(world *w)
{
    set_all(w->in, 3);
    CHECK(plain_fill(w->b, 0, N, w->compute));
    CHECK(cudaMemcpyAsync(w->a, w->in, N * sizeof(float), cudaMemcpyHostToDevice, w->copy));
    CHECK(cudaEventRecord(w->e1, w->copy));
    if (w->good)
        CHECK(cudaStreamWaitEvent(w->compute, w->e1, 0));
    CHECK(plain_axpy(w->b, w->a, 2, N, w->compute));
    int bad = result_differs(w, w->b, 6, w->compute);
    CHECK(cudaStreamSynchronize(w->copy));
    return bad;
}

/* Communication starts on gradients that are not made yet. */
static int gradient_not_awaited(world *w)
{
    CHECK(plain_fill(w->b, 1, N, w->copy));
    CHECK(cudaStreamSynchronize(w->copy));
    CHECK(plain_fill(w->a, 5, N, w->compute));
    CHECK(cudaEventRecord(w->e1, w->compute));
    if (w->good)
        CHECK(cudaStreamWaitEvent(w->copy, w->e1, 0));
    CHECK(plain_axpy(w->b, w->a, 1, N, w->copy)); /* stands for the reduction */
    CHECK(cudaEventRecord(w->e2, w->copy));
    CHECK(cudaStreamWaitEvent(w->compute, w->e2, 0));
    return result_differs(w, w->b, 6, w->compute);
}

/* A pinned buffer is filled again before its copy has run. */
static int pinned_refilled(world *w)
{
    CHECK(plain_fill(w->b, 0, N, w->compute));
    for (int s = 1; s <= STEPS; s++) {
        if (w->good && s > 1)
            CHECK(cudaEventSynchronize(w->e1));
        set_all(w->in, (float)s);
        CHECK(cudaMemcpyAsync(w->a, w->in, N * sizeof(float), cudaMemcpyHostToDevice, w->compute));
        CHECK(cudaEventRecord(w->e1, w->compute));
        CHECK(plain_axpy(w->b, w->a, 1, N, w->compute));
    }
    return result_differs(w, w->b, STEPS * (STEPS + 1) / 2, w->compute);
}

/* The host reads a result it has not waited for. */
static int result_not_awaited(world *w)
{
    set_all(w->out, 0);
    CHECK(plain_fill(w->a, 4, N, w->compute));
    CHECK(cudaMemcpyAsync(w->out, w->a, N * sizeof(float), cudaMemcpyDeviceToHost, w->compute));
    CHECK(cudaEventRecord(w->e1, w->compute));
    if (w->good)
        CHECK(cudaEventSynchronize(w->e1));
    int bad = differs(w->out, 4);
    CHECK(cudaStreamSynchronize(w->compute));
    return bad;
}

/* Prefetch into two device buffers: a copy must wait for the reader of two steps before. */
static int prefetch_overtakes(world *w)
{
    float *buffer[2] = {w->a, device_buffer()}, *pinned[2] = {w->in, pinned_buffer()};
    cudaEvent_t full[2] = {new_event(), new_event()}, is_free[2] = {new_event(), new_event()};
    CHECK(plain_fill(w->b, 0, N, w->compute));
    for (int s = 0; s < STEPS; s++) {
        int k = s % 2;
        if (s > 1)
            CHECK(cudaEventSynchronize(full[k]));
        set_all(pinned[k], (float)(s + 1));
        if (w->good && s > 1)
            CHECK(cudaStreamWaitEvent(w->copy, is_free[k], 0));
        CHECK(cudaMemcpyAsync(buffer[k], pinned[k], N * sizeof(float), cudaMemcpyHostToDevice, w->copy));
        CHECK(cudaEventRecord(full[k], w->copy));
        CHECK(cudaStreamWaitEvent(w->compute, full[k], 0));
        CHECK(plain_axpy(w->b, buffer[k], 1, N, w->compute));
        CHECK(cudaEventRecord(is_free[k], w->compute));
    }
    int bad = result_differs(w, w->b, STEPS * (STEPS + 1) / 2, w->compute);
    CHECK(cudaFree(buffer[1]));
    CHECK(cudaFreeHost(pinned[1]));
    for (int k = 0; k < 2; k++) {
        CHECK(cudaEventDestroy(full[k]));
        CHECK(cudaEventDestroy(is_free[k]));
    }
    return bad;
}

static int run_graph(world *w, cudaGraph_t graph, int launches)
{
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    for (int i = 0; i < launches; i++)
        CHECK(cudaGraphLaunch(exec, w->compute));
    CHECK(cudaGraphExecDestroy(exec));
    return 0;
}

/* A captured fork; bad: the event of the join is recorded before the fork's work. */
static int graph_not_joined(world *w)
{
    cudaGraph_t graph;
    float *d = device_buffer();
    CHECK(plain_fill(w->b, 0, N, w->compute));
    CHECK(cudaStreamSynchronize(w->compute));
    CHECK(cudaStreamBeginCapture(w->compute, cudaStreamCaptureModeThreadLocal));
    CHECK(plain_fill(w->a, 1, N, w->compute));
    CHECK(cudaEventRecord(w->e1, w->compute));
    CHECK(cudaStreamWaitEvent(w->copy, w->e1, 0));
    if (!w->good)
        CHECK(cudaEventRecord(w->e2, w->copy));
    CHECK(plain_fill(d, 10, N, w->copy));
    if (w->good)
        CHECK(cudaEventRecord(w->e2, w->copy));
    CHECK(plain_axpy(w->b, w->a, 1, N, w->compute));
    CHECK(cudaStreamWaitEvent(w->compute, w->e2, 0));
    CHECK(plain_axpy(w->b, d, 1, N, w->compute));
    CHECK(cudaStreamEndCapture(w->compute, &graph));
    run_graph(w, graph, 3);
    int bad = result_differs(w, w->b, 33, w->compute);
    CHECK(cudaFree(d));
    return bad;
}

/* A captured fork and join whose branches touch the same data; bad: no edge between them. */
static int graph_edge_missing(world *w)
{
    cudaGraph_t graph;
    CHECK(plain_fill(w->b, 0, N, w->compute));
    CHECK(plain_fill(w->a, 0, N, w->compute));
    CHECK(cudaStreamSynchronize(w->compute));
    CHECK(cudaStreamBeginCapture(w->compute, cudaStreamCaptureModeThreadLocal));
    if (!w->good) { /* the fork is before the work, not behind it */
        CHECK(cudaEventRecord(w->e1, w->compute));
        CHECK(cudaStreamWaitEvent(w->copy, w->e1, 0));
    }
    CHECK(plain_fill(w->a, 2, N, w->compute));
    if (w->good) {
        CHECK(cudaEventRecord(w->e1, w->compute));
        CHECK(cudaStreamWaitEvent(w->copy, w->e1, 0));
    }
    CHECK(plain_axpy(w->b, w->a, 1, N, w->copy));
    CHECK(cudaEventRecord(w->e2, w->copy));
    CHECK(cudaStreamWaitEvent(w->compute, w->e2, 0));
    CHECK(cudaMemsetAsync(w->a, 0, N * sizeof(float), w->compute));
    CHECK(cudaStreamEndCapture(w->compute, &graph));
    run_graph(w, graph, 3);
    return result_differs(w, w->b, 6, w->compute);
}

/* The event is recorded before the work it should mark. */
static int recorded_early(world *w)
{
    CHECK(plain_fill(w->b, 1, N, w->copy));
    CHECK(cudaStreamSynchronize(w->copy));
    if (!w->good)
        CHECK(cudaEventRecord(w->e1, w->compute));
    CHECK(plain_fill(w->a, 5, N, w->compute));
    if (w->good)
        CHECK(cudaEventRecord(w->e1, w->compute));
    CHECK(cudaStreamWaitEvent(w->copy, w->e1, 0));
    CHECK(plain_axpy(w->b, w->a, 1, N, w->copy));
    return result_differs(w, w->b, 6, w->copy);
}

/* Stream-ordered memory is freed on one stream while another still reads it. */
static int freed_early(world *w)
{
    void *p;
    CHECK(cudaMallocAsync(&p, N * sizeof(float), w->compute));
    CHECK(plain_fill(p, 2, N, w->compute));
    CHECK(cudaEventRecord(w->e1, w->compute));
    CHECK(cudaStreamWaitEvent(w->copy, w->e1, 0));
    CHECK(plain_fill(w->b, 1, N, w->copy));
    CHECK(plain_axpy(w->b, p, 1, N, w->copy));
    CHECK(cudaEventRecord(w->e2, w->copy));
    if (w->good)
        CHECK(cudaStreamWaitEvent(w->compute, w->e2, 0));
    CHECK(cudaFreeAsync(p, w->compute));
    int bad = result_differs(w, w->b, 3, w->copy);
    CHECK(cudaStreamSynchronize(w->compute));
    return bad;
}

/* cudaMemcpy does not wait for a non-blocking stream. */
static int default_stream_trusted(world *w)
{
    CHECK(plain_fill(w->a, 7, N, w->compute));
    if (w->good)
        CHECK(cudaStreamSynchronize(w->compute));
    CHECK(cudaMemcpy(w->out, w->a, N * sizeof(float), cudaMemcpyDeviceToHost));
    int bad = differs(w->out, 7);
    CHECK(cudaStreamSynchronize(w->compute));
    return bad;
}

/* ---- flags and threads ---------------------------------------------------------------------- */

typedef CUresult (*stream_value_fn)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
static stream_value_fn write_value, wait_value;

static void find_entry_points(void)
{
    enum cudaDriverEntryPointQueryResult status;
    void *found[2];
    CHECK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &found[0], 12000, cudaEnableDefault, &status));
    CHECK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found[1], 12000, cudaEnableDefault, &status));
    memcpy(&write_value, &found[0], sizeof found[0]);
    memcpy(&wait_value, &found[1], sizeof found[1]);
}

typedef struct loader {
    float *buffer;
    uint32_t *flag; /* 1 full, 0 free */
    uint32_t stop;
    bool waits;     /* for "free", before it fills again */
    int pause;      /* milliseconds before it fills: a stream that does not wait is far ahead, also on a busy machine */
} loader;

static void nap(int milliseconds)
{
    struct timespec t = {0, milliseconds * 1000000L};
    nanosleep(&t, NULL);
}

static bool stopped(loader *l)
{
    return __atomic_load_n(&l->stop, __ATOMIC_RELAXED) != 0;
}

static void *load(void *argument)
{
    loader *l = argument;
    for (int s = 1; !stopped(l); s++) {
        nap(l->pause);
        while (l->waits && __atomic_load_n(l->flag, __ATOMIC_ACQUIRE) != 0 && !stopped(l))
            nap(0);
        set_all(l->buffer, (float)s);
        __atomic_store_n(l->flag, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* A thread fills one pinned buffer again and again; flags say whose it is: "full" the stream's, "free" the loader's. */
static int flags(world *w, bool stream_waits, bool loader_waits)
{
    find_entry_points();
    loader l = {.buffer = w->in, .waits = loader_waits, .pause = stream_waits ? 1 : 50};
    CHECK(cudaHostAlloc((void **)&l.flag, sizeof *l.flag, 0));
    *l.flag = 0;
    CHECK(plain_fill(w->b, 0, N, w->compute));
    set_all(w->in, -1);
    pthread_t thread;
    pthread_create(&thread, NULL, load, &l);
    nap(5); /* a loader that does not wait is ahead by now */
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)l.flag;
    for (int s = 0; s < STEPS; s++) {
        if (stream_waits)
            CHECK((cudaError_t)wait_value(w->copy, word, 1, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cudaMemcpyAsync(w->a, w->in, N * sizeof(float), cudaMemcpyHostToDevice, w->copy));
        CHECK((cudaError_t)write_value(w->copy, word, 0, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cudaEventRecord(w->e1, w->copy));
        CHECK(cudaStreamWaitEvent(w->compute, w->e1, 0));
        CHECK(plain_axpy(w->b, w->a, 1, N, w->compute));
        CHECK(cudaEventRecord(w->e2, w->compute));
        CHECK(cudaStreamWaitEvent(w->copy, w->e2, 0));
    }
    int bad = result_differs(w, w->b, STEPS * (STEPS + 1) / 2, w->compute);
    nap(20); /* a loader that does not wait goes on filling */
    __atomic_store_n(&l.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    CHECK(cudaStreamSynchronize(w->copy));
    CHECK(cudaFreeHost(l.flag));
    return bad;
}

static int full_not_awaited(world *w)
{
    return flags(w, w->good, true);
}

static int free_not_awaited(world *w)
{
    return flags(w, true, w->good);
}

/* Two threads share the API, but nothing else orders them; bad: one uses the other's pinned buffer without a join. */
static void *produce(void *argument)
{
    world *w = argument;
    CHECK(cudaSetDevice(0));
    nap(5);
    set_all(w->in, 9);
    CHECK(cudaStreamQuery(w->compute)); /* a call under the simulator's lock is no order between host threads */
    return NULL;
}

static int thread_not_joined(world *w)
{
    set_all(w->in, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, produce, w);
    if (w->good)
        pthread_join(thread, NULL);
    CHECK(cudaMemcpyAsync(w->a, w->in, N * sizeof(float), cudaMemcpyHostToDevice, w->copy));
    int bad = result_differs(w, w->a, 9, w->copy);
    if (!w->good)
        pthread_join(thread, NULL);
    return bad;
}

/* ---- choice --------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(world *w);
    } scenarios[] = {
#define SCENARIO(name) {#name, name}
        SCENARIO(copy_not_awaited),       SCENARIO(gradient_not_awaited), SCENARIO(pinned_refilled),
        SCENARIO(result_not_awaited),     SCENARIO(prefetch_overtakes),   SCENARIO(graph_not_joined),
        SCENARIO(graph_edge_missing),     SCENARIO(recorded_early),       SCENARIO(freed_early),
        SCENARIO(default_stream_trusted), SCENARIO(full_not_awaited),     SCENARIO(free_not_awaited),
        SCENARIO(thread_not_joined),
    };
    size_t i = 0, n = sizeof scenarios / sizeof *scenarios;
    while (argc == 3 && i < n && strcmp(argv[1], scenarios[i].name) != 0)
        i++;
    if (argc != 3 || i == n) {
        fprintf(stderr, "usage: stream_bugs SCENARIO good|bad\n");
        return 2;
    }
    world w = {new_stream(),    new_stream(),    new_event(),
               new_event(),     device_buffer(), device_buffer(),
               pinned_buffer(), pinned_buffer(), strcmp(argv[2], "good") == 0};
    int bad = scenarios[i].run(&w);
    CHECK(cudaStreamDestroy(w.compute));
    CHECK(cudaStreamDestroy(w.copy));
    CHECK(cudaEventDestroy(w.e1));
    CHECK(cudaEventDestroy(w.e2));
    CHECK(cudaFree(w.a));
    CHECK(cudaFree(w.b));
    CHECK(cudaFreeHost(w.in));
    CHECK(cudaFreeHost(w.out));
    printf("%s data\n", bad ? "wrong" : "right");
    return bad;
}
