/* faults SCENARIO: programs that end badly, or whose environment is special; planted_faults.py runs them and knows what
 * must come of it. Exit code 0: what the scenario itself expects has come true. */
#include "planted.h"
#include "test_exec.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cusim.h"

enum { N = 1000 };

static void expect(cudaError_t error, cudaError_t expected, const char *what)
{
    if (error == expected)
        return;
    printf("%s: %s, expected %s\n", what, cudaGetErrorName(error), cudaGetErrorName(expected));
    exit(1);
}
#define EXPECT(call, expected) expect((call), (expected), #call)

static cudaStream_t stream(void)
{
    cudaStream_t s;
    EXPECT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    return s;
}

static float *device(void)
{
    void *p;
    EXPECT(cudaMalloc(&p, N * sizeof(float)), cudaSuccess);
    return p;
}

/* CUSIM_FAIL=cudaMalloc@2=2 */
static void nth_call(void)
{
    void *p;
    EXPECT(cudaMalloc(&p, 4), cudaSuccess);
    EXPECT(cudaMalloc(&p, 4), cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT(cudaMalloc(&p, 4), cudaSuccess);
}

/* CUSIM_FAIL=kernel:axpy@2=214: the launch succeeds, and the error surfaces when the host waits, for good. */
static void sticky_kernel(void)
{
    cudaStream_t s = stream();
    float *a = device(), *b = device();
    EXPECT(plain_fill(a, 1, N, s), cudaSuccess);
    EXPECT(plain_fill(b, 1, N, s), cudaSuccess);
    EXPECT(plain_axpy(a, b, 1, N, s), cudaSuccess);
    EXPECT(cudaStreamSynchronize(s), cudaSuccess);
    cudaError_t error = plain_axpy(a, b, 1, N, s);
    if (error != cudaSuccess)
        EXPECT(error, cudaErrorECCUncorrectable);
    EXPECT(cudaStreamSynchronize(s), cudaErrorECCUncorrectable);
    void *p;
    EXPECT(cudaMalloc(&p, 4), cudaErrorECCUncorrectable);
    EXPECT(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
    EXPECT(cudaSetDevice(1), cudaSuccess); /* the other one lives */
    EXPECT(cudaMalloc(&p, 4), cudaSuccess);
}

/* CUSIM_FAULT=sticky: a device fault is an error of the next wait, and events behind it do not hang. */
static void device_trap(void)
{
    cudaStream_t s = stream(), t = stream();
    cudaEvent_t e;
    EXPECT(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), cudaSuccess);
    EXPECT(test_fault(1, s), cudaSuccess);
    cudaEventRecord(e, s);
    cudaStreamWaitEvent(t, e, 0);
    EXPECT(cudaStreamSynchronize(t), cudaErrorLaunchFailure);
    EXPECT(cudaEventSynchronize(e), cudaErrorLaunchFailure);
}

static void host_touches_device(void)
{
    float *a = device();
    EXPECT(plain_fill(a, 1, N, 0), cudaSuccess);
    EXPECT(cudaDeviceSynchronize(), cudaSuccess);
    volatile float x = a[3];
    (void)x;
}

static void foreign_device(void)
{
    float *a = device();
    EXPECT(cudaSetDevice(1), cudaSuccess);
    EXPECT(plain_fill(a, 1, N, 0), cudaSuccess);
    EXPECT(cudaDeviceSynchronize(), cudaSuccess);
}

/* CUSIM_MACHINE with one small GPU */
static void out_of_memory(void)
{
    size_t is_free, total;
    void *p, *q;
    EXPECT(cudaMemGetInfo(&is_free, &total), cudaSuccess);
    EXPECT(cudaMalloc(&p, is_free / 2), cudaSuccess);
    EXPECT(cudaMalloc(&q, is_free / 2 + 4096), cudaErrorMemoryAllocation);
    EXPECT(cudaFree(p), cudaSuccess);
    EXPECT(cudaMalloc(&q, is_free / 2 + 4096), cudaSuccess);
}

static void no_device(void)
{
    int n = 7;
    EXPECT(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    if (n != 0)
        exit(1);
    void *p;
    EXPECT(cudaMalloc(&p, 4), cudaErrorNoDevice);
}

static void old_driver(void)
{
    int n = 7;
    EXPECT(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
}

/* Exit code 23 and a line under CUSIM_LEAKS=1. */
static void leaks(void)
{
    stream();
    device();
}

/* One step of a training loop as the record sees it. */
static void recorded(void)
{
    cudaStream_t s = stream();
    float *a = device();
    cudaEvent_t e;
    EXPECT(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), cudaSuccess);
    for (int i = 0; i < 3; i++) {
        cusim_mark("step");
        EXPECT(plain_fill(a, (float)i, N, s), cudaSuccess);
        EXPECT(cudaEventRecord(e, s), cudaSuccess);
        EXPECT(cudaEventSynchronize(e), cudaSuccess);
    }
    cusim_mark("end");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
#define SCENARIO(name) {#name, name}
        SCENARIO(nth_call),       SCENARIO(sticky_kernel), SCENARIO(device_trap), SCENARIO(host_touches_device),
        SCENARIO(foreign_device), SCENARIO(out_of_memory), SCENARIO(no_device),   SCENARIO(old_driver),
        SCENARIO(recorded),       SCENARIO(leaks),
    };
    for (size_t i = 0; argc == 2 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            printf("as expected\n");
            return 0;
        }
    fprintf(stderr, "usage: faults SCENARIO\n");
    return 2;
}
