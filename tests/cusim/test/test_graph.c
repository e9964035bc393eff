/* RUN: timeout=60 */
/* Capture and graphs: what becomes a node, what is refused, and what launches do. */
#include "support/test.h"

#include <cuda.h>
#include <pthread.h>
#include <string.h>

#include "cusim.h"
#include "planted.h"

#define OK(call) assert_int_equal((call), cudaSuccess)
enum { N = 100 };

static cudaStream_t s, t;
static cudaEvent_t fork_event, join_event;
static float *a, *b, *pinned;

static int set_up(void **state)
{
    (void)state;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
    OK(cudaMalloc((void **)&a, N * sizeof *a));
    OK(cudaMalloc((void **)&b, N * sizeof *b));
    OK(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, 0));
    OK(cudaMemset(a, 0, N * sizeof *a));
    OK(cudaMemset(b, 0, N * sizeof *b));
    OK(cudaDeviceSynchronize());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cudaGetLastError();
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
    OK(cudaEventDestroy(fork_event));
    OK(cudaEventDestroy(join_event));
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFreeHost(pinned));
    return 0;
}

static float value_of(const float *data)
{
    OK(cudaMemcpyAsync(pinned, data, N * sizeof *pinned, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 1; i < N; i++)
        assert_true(pinned[i] == pinned[0]);
    return pinned[0];
}

static cudaGraphExec_t capture_end(size_t n_nodes)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t n = 0;
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, n_nodes);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

/* Arguments are frozen, nothing runs while captured, launches repeat it. */
static void captured_and_launched(void **state)
{
    (void)state;
    enum cudaStreamCaptureStatus status;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaStreamIsCapturing(s, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    OK(plain_fill(a, 2, N, s));
    OK(cudaEventRecord(fork_event, s));
    OK(cudaStreamWaitEvent(t, fork_event, 0));
    OK(plain_axpy(b, a, 1, N, t));
    OK(cudaEventRecord(join_event, t));
    OK(cudaStreamWaitEvent(s, join_event, 0));
    OK(cudaMemsetAsync(a, 0, N * sizeof *a, s));
    cudaGraphExec_t exec = capture_end(3);
    assert_true(value_of(b) == 0);
    for (int i = 0; i < 5; i++)
        OK(cudaGraphLaunch(exec, i % 2 == 0 ? s : t)); /* launches of one graph never overlap */
    OK(cudaStreamSynchronize(t));
    assert_true(value_of(b) == 10);
    assert_true(value_of(a) == 0);
    OK(cudaGraphExecDestroy(exec));
}

/* Record and wait nodes: the event is recorded at each launch, and the host can wait for it. */
static void external_events(void **state)
{
    (void)state;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaStreamWaitEvent(s, fork_event, cudaEventWaitExternal));
    OK(plain_axpy(b, a, 1, N, s));
    OK(cudaEventRecordWithFlags(join_event, s, cudaEventRecordExternal));
    cudaGraphExec_t exec = capture_end(3);
    for (int i = 1; i <= 3; i++) {
        OK(plain_fill(a, (float)i, N, t));
        OK(cudaEventRecord(fork_event, t));
        OK(cudaGraphLaunch(exec, s));
        OK(cudaEventSynchronize(join_event));
        OK(cudaStreamWaitEvent(t, join_event, 0));
    }
    assert_true(value_of(b) == 6);
    OK(cudaGraphExecDestroy(exec));
}

static void host_and_flag_nodes(void **state)
{
    (void)state;
    typedef CUresult (*stream_value_fn)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    void *found[2];
    stream_value_fn write_value, wait_value;
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &found[0], 12000, cudaEnableDefault, &status));
    OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found[1], 12000, cudaEnableDefault, &status));
    memcpy(&write_value, &found[0], sizeof found[0]);
    memcpy(&wait_value, &found[1], sizeof found[1]);
    uint32_t *word;
    OK(cudaHostAlloc((void **)&word, sizeof *word, 0));
    *word = 0;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK((cudaError_t)wait_value(s, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(plain_axpy(b, a, 1, N, s));
    OK((cudaError_t)write_value(s, (CUdeviceptr)(uintptr_t)word, 0, 0));
    cudaGraphExec_t exec = capture_end(3);
    OK(plain_fill(a, 4, N, s));
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, s));
        assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        OK(cudaStreamSynchronize(s));
        assert_int_equal(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0);
    }
    assert_true(value_of(b) == 12);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaFreeHost(word));
}

static void updated(void **state)
{
    (void)state;
    cudaGraph_t graph;
    cudaGraphExecUpdateResultInfo info;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(plain_fill(a, 1, N, s));
    cudaGraphExec_t exec = capture_end(1);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(plain_fill(a, 8, N, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphLaunch(exec, s)); /* keeps the old arguments */
    OK(cudaMemcpyAsync(b, a, N * sizeof *a, cudaMemcpyDeviceToDevice, s));
    OK(cudaGraphExecUpdate(exec, graph, &info));
    OK(cudaGraphLaunch(exec, s));
    assert_true(value_of(b) == 1);
    assert_true(value_of(a) == 8);
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(a, 0, 4, s));
    OK(cudaStreamEndCapture(s, &graph));
    assert_int_equal(cudaGraphExecUpdate(exec, graph, &info), cudaErrorGraphExecUpdateFailure);
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec));
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void expect_invalidated(void)
{
    cudaGraph_t graph;
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
}

static void refused_in_capture(void **state)
{
    (void)state;
    void *p;
    float pageable[N];
    enum cudaStreamCaptureMode strict[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal};
    for (int i = 0; i < 2; i++) {
        OK(cudaStreamBeginCapture(s, strict[i]));
        assert_int_equal(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
        assert_int_equal(plain_fill(a, 1, N, s), cudaErrorStreamCaptureInvalidated);
        expect_invalidated();
        OK(cudaStreamBeginCapture(s, strict[i]));
        assert_int_equal(cudaEventQuery(join_event), cudaErrorStreamCaptureUnsupported);
        expect_invalidated();
    }
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    OK(cudaMalloc(&p, 4)); /* relaxed: its own risk */
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    expect_invalidated();
    OK(cudaFree(p));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaMemcpyAsync(a, pageable, sizeof pageable, cudaMemcpyHostToDevice, s),
                     cudaErrorStreamCaptureUnsupported);
    expect_invalidated();
}

static void isolation_and_joins(void **state)
{
    (void)state;
    cudaGraph_t graph;
    OK(cudaEventRecord(fork_event, t)); /* outside */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaStreamWaitEvent(s, fork_event, 0), cudaErrorStreamCaptureIsolation);
    expect_invalidated();
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork_event, s));
    OK(cudaStreamWaitEvent(t, fork_event, 0));
    OK(plain_fill(a, 1, N, t));
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureUnjoined);
    assert_int_equal(cudaEventSynchronize(fork_event), cudaErrorCapturedEvent);
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorIllegalState);
    /* Two captures cannot meet. */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaStreamBeginCapture(t, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork_event, s));
    assert_int_equal(cudaStreamWaitEvent(t, fork_event, 0), cudaErrorStreamCaptureMerge);
    expect_invalidated();
    assert_int_equal(cudaStreamEndCapture(t, &graph), cudaErrorStreamCaptureInvalidated);
}

/* Another thread's unsafe call meets a capture of each mode; the modes differ in whether that matters. */
typedef struct meddler {
    cudaError_t malloc_error, query_error, relaxed_error;
} meddler;

static void *meddle(void *argument)
{
    meddler *m = argument;
    void *p = NULL;
    m->malloc_error = cudaMalloc(&p, 4);
    if (m->malloc_error == cudaSuccess)
        cudaFree(p);
    m->query_error = cudaEventQuery(join_event);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    m->relaxed_error = cudaEventQuery(join_event);
    return NULL;
}

static void other_threads(void **state)
{
    (void)state;
    enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                          cudaStreamCaptureModeRelaxed};
    for (int i = 0; i < 3; i++) {
        OK(cudaStreamBeginCapture(s, modes[i]));
        OK(plain_fill(a, 1, N, s));
        meddler m;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, meddle, &m), 0);
        pthread_join(thread, NULL);
        cudaError_t expected = i == 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
        assert_int_equal(m.malloc_error, expected);
        assert_int_equal(m.query_error, expected);
        assert_int_equal(m.relaxed_error, cudaSuccess);
        if (i == 0)
            expect_invalidated();
        else
            OK(cudaGraphExecDestroy(capture_end(1)));
    }
}

static void *end_elsewhere(void *argument)
{
    cudaGraph_t graph;
    *(cudaError_t *)argument = cudaStreamEndCapture(s, &graph);
    return NULL;
}

static void wrong_thread(void **state)
{
    (void)state;
    cudaError_t error;
    pthread_t thread;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &error), 0);
    pthread_join(thread, NULL);
    assert_int_equal(error, cudaErrorStreamCaptureWrongThread);
    expect_invalidated();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(captured_and_launched), TEST(external_events),     TEST(host_and_flag_nodes), TEST(updated),
        TEST(refused_in_capture),    TEST(isolation_and_joins), TEST(other_threads),       TEST(wrong_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
