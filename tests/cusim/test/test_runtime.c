/* RUN: timeout=60 */
/* What the simulated runtime answers: memory, copies, events, host functions, flags, errors, clocks. Order between
 * streams has its own programs (stream_bugs.c). */
#include "support/test.h"

#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cusim.h"
#include "planted.h"

#define OK(call) assert_int_equal((call), cudaSuccess)
enum { N = 1000 };

static cudaStream_t stream_of(int priority)
{
    cudaStream_t s;
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority));
    return s;
}

static cudaEvent_t event_of(unsigned flags)
{
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, flags));
    return e;
}

/* ---- devices and memory --------------------------------------------------------------------- */

static void devices(void **state)
{
    (void)state;
    int n, value, major;
    struct cudaDeviceProp p;
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 4);
    assert_int_equal(cudaSetDevice(4), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_false(cusim_has_context(2));
    OK(cudaGetDeviceProperties(&p, 2));
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 2));
    assert_int_equal(value, p.multiProcessorCount);
    OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 2));
    assert_int_equal(major, p.major);
    assert_false(cusim_has_context(2)); /* asking makes none */
    OK(cudaSetDevice(2));
    assert_true(cusim_has_context(2));
    OK(cudaSetDevice(0));
    char bus[20];
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 3));
    OK(cudaDeviceGetByPCIBusId(&value, bus));
    assert_int_equal(value, 3);
    assert_int_equal(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
}

static void memory(void **state)
{
    (void)state;
    size_t before, after, total, alive = cusim_bytes_alive();
    float *a, *pinned;
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc((void **)&a, N * sizeof *a));
    OK(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, N * sizeof *a);
    void *big = NULL;
    assert_int_equal(cudaMalloc(&big, after + 1), cudaErrorMemoryAllocation);
    assert_null(big);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    struct cudaPointerAttributes at;
    OK(cudaPointerGetAttributes(&at, a + 10));
    assert_int_equal(at.type, cudaMemoryTypeDevice);
    OK(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, 0));
    OK(cudaPointerGetAttributes(&at, pinned));
    assert_int_equal(at.type, cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&at, &at));
    assert_int_equal(at.type, cudaMemoryTypeUnregistered);
    /* Copies that leave their memory, or go the wrong way. */
    assert_int_equal(cudaMemcpy(a, pinned, N * sizeof *a + 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(a + 1, pinned, N * sizeof *a, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(a, pinned, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(a + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(pinned), cudaErrorInvalidValue);
    assert_int_equal(cudaFreeHost(a), cudaErrorInvalidValue);
    OK(cudaFree(NULL));
    OK(cudaFree(a));
    OK(cudaFreeHost(pinned));
    float *own = malloc(N * sizeof *own);
    OK(cudaHostRegister(own, N * sizeof *own, 0));
    assert_int_equal(cudaHostRegister(own + 8, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaPointerGetAttributes(&at, own + 1));
    assert_int_equal(at.type, cudaMemoryTypeHost);
    OK(cudaHostUnregister(own));
    assert_int_equal(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
    free(own);
    cudaGetLastError();
    assert_int_equal(cusim_bytes_alive(), alive);
}

/* A pageable source is read when the call is made; a copy to pageable memory is over when it returns. */
static void pageable_copies(void **state)
{
    (void)state;
    cudaStream_t s = stream_of(0);
    float *a, host[N], back[N];
    OK(cudaMalloc((void **)&a, sizeof host));
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    OK(cudaMemcpyAsync(a, host, sizeof host, cudaMemcpyHostToDevice, s));
    memset(host, 0, sizeof host);
    OK(cudaMemcpyAsync(back, a, sizeof back, cudaMemcpyDeviceToHost, s));
    for (int i = 0; i < N; i++)
        assert_true(back[i] == (float)i);
    float square[4][4];
    OK(cudaMemcpy2DAsync(square, sizeof square[0], a, 10 * sizeof *a, 4 * sizeof *a, 4, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 16; i++)
        assert_true(square[i / 4][i % 4] == (float)(i / 4 * 10 + i % 4));
    OK(cudaFree(a));
    OK(cudaStreamDestroy(s));
}

/* ---- events, clocks ------------------------------------------------------------------------- */

static void events(void **state)
{
    (void)state;
    cudaStream_t s = stream_of(-5);
    cudaEvent_t from = event_of(0), to = event_of(0), untimed = event_of(cudaEventDisableTiming);
    float *a, ms;
    int priority;
    OK(cudaStreamGetPriority(s, &priority));
    assert_int_equal(priority, -5);
    OK(cudaMalloc((void **)&a, N * sizeof *a));
    OK(cudaEventQuery(from)); /* never recorded: done */
    OK(cudaEventRecord(from, s));
    for (int i = 0; i < 10; i++)
        OK(plain_fill(a, 1, N, s));
    OK(cudaEventRecord(to, s));
    while (cudaEventQuery(to) == cudaErrorNotReady) { /* polling comes to an end */
    }
    assert_int_equal(cudaGetLastError(), cudaSuccess); /* not ready is no error that stays */
    OK(cudaEventElapsedTime(&ms, from, to));
    assert_true(ms > 0.03f && ms < 0.2f); /* the virtual clock */
    OK(cudaEventRecord(untimed, s));
    OK(cudaEventSynchronize(untimed));
    assert_int_equal(cudaEventElapsedTime(&ms, from, untimed), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    OK(cudaSetDevice(1));
    cudaEvent_t foreign = event_of(0);
    assert_int_equal(cudaEventRecord(foreign, s), cudaErrorInvalidResourceHandle); /* another device's */
    assert_int_equal(plain_fill(a, 1, N, s), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    OK(cudaEventDestroy(foreign));
    OK(cudaSetDevice(0));
    OK(cudaEventDestroy(from));
    OK(cudaEventDestroy(to));
    OK(cudaEventDestroy(untimed));
    OK(cudaFree(a));
    OK(cudaStreamDestroy(s));
}

/* A copy on a stream of its own overlaps with kernels: a matter of structure, in the virtual clock. */
static double seconds_of(cudaStream_t compute, cudaStream_t copy, float *a, float *b, float *pinned, size_t bytes)
{
    OK(cudaDeviceSynchronize());
    double start = cusim_virtual_seconds();
    for (int i = 0; i < 8; i++) {
        OK(cudaMemcpyAsync(a, pinned, bytes, cudaMemcpyHostToDevice, copy));
        OK(plain_fill(b, 1, (int)(bytes / sizeof *b), compute));
    }
    OK(cudaDeviceSynchronize());
    return cusim_virtual_seconds() - start;
}

static void overlap(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    cudaStream_t s = stream_of(0), t = stream_of(0);
    float *a, *b, *pinned;
    OK(cudaMalloc((void **)&a, BYTES));
    OK(cudaMalloc((void **)&b, BYTES));
    OK(cudaHostAlloc((void **)&pinned, BYTES, 0));
    double apart = seconds_of(s, t, a, b, pinned, BYTES), one = seconds_of(s, s, a, b, pinned, BYTES);
    assert_true(apart < 0.95 * one);
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
}

/* A kernel's clock does not go back along a stream, nor across an event. */
static void stamps(void **state)
{
    (void)state;
    enum { RING = 8 };
    cudaStream_t s = stream_of(0), t = stream_of(0);
    cudaEvent_t e = event_of(cudaEventDisableTiming);
    uint64_t *ring, *counter;
    float *a;
    OK(cudaHostAlloc((void **)&ring, 2 * RING * sizeof *ring, 0));
    OK(cudaMalloc((void **)&counter, sizeof *counter));
    OK(cudaMalloc((void **)&a, N * sizeof *a));
    OK(cudaMemsetAsync(counter, 0, sizeof *counter, s));
    OK(plain_stamp(ring, counter, RING, 10, s));
    OK(plain_fill(a, 1, N, s));
    OK(plain_stamp(ring, counter, RING, 11, s));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(plain_stamp(ring, counter, RING, 12, t));
    OK(cudaStreamSynchronize(t));
    for (int i = 0; i < 3; i++)
        assert_int_equal(ring[2 * i], 10 + i);
    assert_true(ring[3] >= ring[1] + 4000); /* a kernel between them */
    assert_true(ring[5] > ring[3]);
    OK(cudaFreeHost(ring));
    OK(cudaFree(counter));
    OK(cudaFree(a));
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
}

/* ---- host functions, flags, threads --------------------------------------------------------- */

typedef struct note {
    pthread_mutex_t mutex;
    int value;
    cudaError_t inside;
} note;

static void host_function(void *argument)
{
    note *n = argument;
    int device;
    n->inside = cudaGetDevice(&device); /* forbidden here */
    pthread_mutex_lock(&n->mutex);
    n->value++;
    pthread_mutex_unlock(&n->mutex);
}

/* The function runs although the caller holds what it needs, and its stream goes on after it. */
static void host_functions(void **state)
{
    (void)state;
    cudaStream_t s = stream_of(0);
    note n = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_mutex_lock(&n.mutex);
    OK(cudaLaunchHostFunc(s, host_function, &n));
    for (int i = 0; i < 3; i++)
        cudaStreamQuery(s);
    assert_int_equal(n.value, 0);
    pthread_mutex_unlock(&n.mutex);
    OK(cudaStreamSynchronize(s));
    assert_int_equal(n.value, 1);
    assert_int_equal(n.inside, cudaErrorNotPermitted);
    OK(cudaStreamDestroy(s));
}

typedef CUresult (*stream_value_fn)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

static stream_value_fn entry(const char *name)
{
    void *found;
    stream_value_fn function;
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    memcpy(&function, &found, sizeof found);
    return function;
}

/* A thread that only polls memory sees the stream go on; the stream sees the thread's store. */
static void flags(void **state)
{
    (void)state;
    stream_value_fn write_value = entry("cuStreamWriteValue32"), wait_value = entry("cuStreamWaitValue32");
    cudaStream_t s = stream_of(0);
    uint32_t *words;
    OK(cudaHostAlloc((void **)&words, 2 * sizeof *words, 0));
    words[0] = words[1] = 0;
    CUdeviceptr first = (CUdeviceptr)(uintptr_t)&words[0], second = (CUdeviceptr)(uintptr_t)&words[1];
    OK((cudaError_t)wait_value(s, first, 5, CU_STREAM_WAIT_VALUE_EQ));
    OK((cudaError_t)write_value(s, second, 7, 0));
    assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
    __atomic_store_n(&words[0], 5, __ATOMIC_RELEASE);
    while (__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) != 7) {
        struct timespec t = {0, 100000};
        nanosleep(&t, NULL);
    }
    OK(cudaStreamSynchronize(s));
    uint32_t local = 0;
    assert_int_equal(write_value(s, (CUdeviceptr)(uintptr_t)&local, 1, 0), CUDA_ERROR_INVALID_VALUE);
    void *found;
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &found, 12000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    OK(cudaFreeHost(words));
    OK(cudaStreamDestroy(s));
}

/* Several threads use the API at once, each with its own current device. */
static void *work(void *argument)
{
    int device = *(int *)argument, current;
    float *a, host[N];
    if (cudaSetDevice(device) != cudaSuccess || cudaMalloc((void **)&a, sizeof host) != cudaSuccess)
        return argument;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 50 && error == cudaSuccess; i++) {
        error = plain_fill(a, (float)(device + i), N, s);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(host, a, sizeof host, cudaMemcpyDeviceToHost, s);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(s);
        if (error == cudaSuccess && (host[0] != (float)(device + i) || host[N - 1] != host[0]))
            error = cudaErrorUnknown;
    }
    cudaGetDevice(&current);
    cudaStreamDestroy(s);
    cudaFree(a);
    return error == cudaSuccess && current == device ? NULL : argument;
}

static void threads(void **state)
{
    (void)state;
    pthread_t thread[4];
    int device[4];
    for (int i = 0; i < 4; i++) {
        device[i] = i;
        assert_int_equal(pthread_create(&thread[i], NULL, work, &device[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
}

static void nothing_left(void **state)
{
    (void)state;
    assert_int_equal(cusim_streams_alive(), 0);
    assert_int_equal(cusim_bytes_alive(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),        cmocka_unit_test(memory),  cmocka_unit_test(pageable_copies),
        cmocka_unit_test(events),         cmocka_unit_test(overlap), cmocka_unit_test(stamps),
        cmocka_unit_test(host_functions), cmocka_unit_test(flags),   cmocka_unit_test(threads),
        cmocka_unit_test(nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
