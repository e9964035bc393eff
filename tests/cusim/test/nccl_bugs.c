/* nccl_bugs NAME good|bad [RANKS]: several processes that reduce and send, with one planted bug or done right. This
 * process only starts the ranks. Exit: 0 right data, 1 wrong data, 2 something else went wrong (a message says what),
 * 66 a report of ThreadSanitizer. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "planted.h"

enum { N = 1200, STEPS = 4, BUCKETS = 2, MAX_RANKS = 8 };

static int rank, n_ranks = 2;
static bool good;
static ncclComm_t comm;
static cudaStream_t compute, side;

/* What the processes share besides NCCL: the unique id, and one barrier. */
static struct shared {
    ncclUniqueId id;
    _Atomic int has_id, arrived;
} * shared;

#define CUDA_OK(call)                                                                                                  \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            printf("rank %d: %s: %s\n", rank, #call, cudaGetErrorString(error_));                                      \
            fflush(stdout);                                                                                            \
            _exit(2);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define NCCL_OK(call)                                                                                                  \
    do {                                                                                                               \
        ncclResult_t result_ = (call);                                                                                 \
        if (result_ != ncclSuccess) {                                                                                  \
            printf("rank %d: %s: %s (%s)\n", rank, #call, ncclGetErrorString(result_), ncclGetLastError(comm));        \
            fflush(stdout);                                                                                            \
            _exit(2);                                                                                                  \
        }                                                                                                              \
    } while (0)

static float *device_memory(size_t n)
{
    void *p;

    CUDA_OK(cudaMalloc(&p, n * sizeof(float)));
    CUDA_OK(cudaMemset(p, 0, n * sizeof(float)));
    CUDA_OK(cudaDeviceSynchronize());
    return p;
}

static void barrier(void)
{
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < n_ranks) {
        usleep(100);
    }
}

static void make_id(void)
{
    if (rank == 0) {
        NCCL_OK(ncclGetUniqueId(&shared->id));
        atomic_store(&shared->has_id, 1);
    }
    while (!atomic_load(&shared->has_id)) {
        usleep(100);
    }
}

static void join(void)
{
    make_id();
    NCCL_OK(ncclCommInitRank(&comm, n_ranks, shared->id, rank));
}

static int compare(const float *data, size_t n, float want)
{
    static float host[N];

    CUDA_OK(cudaMemcpy(host, data, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++) {
        if (host[i] != want) {
            printf("rank %d: element %zu is %g, expected %g\n", rank, i, (double)host[i], (double)want);
            return 1;
        }
    }
    return 0;
}

static int leave(int result)
{
    NCCL_OK(ncclCommDestroy(comm));
    return result;
}

/* ---- planted --------------------------------------------------------------------------------- */
/* Buckets of gradients are reduced on a stream of their own; bad: the second without waiting for its kernel. */
static int reduced_early(void)
{
    float *gradient[BUCKETS], *weights = device_memory(N), want = 0;
    cudaEvent_t ready[BUCKETS], done;

    join();
    for (int b = 0; b < BUCKETS; b++) {
        gradient[b] = device_memory(N);
        CUDA_OK(cudaEventCreateWithFlags(&ready[b], cudaEventDisableTiming));
    }
    CUDA_OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    for (int step = 0; step < STEPS; step++) {
        for (int b = 0; b < BUCKETS; b++) {
            CUDA_OK(plain_fill(gradient[b], (float)(rank + 1 + b + step), N, compute));
            CUDA_OK(cudaEventRecord(ready[b], compute));
            if (good || b != 1) {
                CUDA_OK(cudaStreamWaitEvent(side, ready[b], 0));
            }
            NCCL_OK(ncclAllReduce(gradient[b], gradient[b], N, ncclFloat32, ncclSum, comm, side));
            want += (float)(n_ranks * (n_ranks + 1) / 2 + n_ranks * (b + step));
        }
        CUDA_OK(cudaEventRecord(done, side));
        CUDA_OK(cudaStreamWaitEvent(compute, done, 0));
        for (int b = 0; b < BUCKETS; b++) {
            CUDA_OK(plain_axpy(weights, gradient[b], 1, N, compute));
        }
    }
    CUDA_OK(cudaStreamSynchronize(compute));
    for (int b = 0; b < BUCKETS; b++) {
        CUDA_OK(cudaEventDestroy(ready[b]));
    }
    CUDA_OK(cudaEventDestroy(done));
    return leave(compare(weights, N, want));
}

/* Bad: one rank counts one element less. */
static int other_count(void)
{
    float *data = device_memory(N);

    join();
    NCCL_OK(ncclAllReduce(data, data, N, ncclFloat32, ncclSum, comm, side));
    NCCL_OK(ncclAllReduce(data, data, !good && rank == 1 ? N - 1 : N, ncclFloat32, ncclSum, comm, side));
    CUDA_OK(cudaStreamSynchronize(side));
    return leave(0);
}

/* Bad: the ranks call collectives in another order. */
static int other_collective(void)
{
    float *data = device_memory(N);

    join();
    for (int k = 0; k < 2; k++) {
        if ((k == 0) == (good || rank == 0)) {
            NCCL_OK(ncclAllReduce(data, data, N, ncclFloat32, ncclSum, comm, side));
        } else {
            NCCL_OK(ncclBroadcast(data, data, N, ncclFloat32, 0, comm, side));
        }
    }
    CUDA_OK(cudaStreamSynchronize(side));
    return leave(0);
}

/* Every rank sends to the next one and receives from the one before; bad: not as a group. */
static int no_group(void)
{
    float *out = device_memory(N), *in = device_memory(N);
    int next = (rank + 1) % n_ranks, before = (rank + n_ranks - 1) % n_ranks;

    join();
    CUDA_OK(plain_fill(out, (float)rank, N, side));
    if (good) {
        NCCL_OK(ncclGroupStart());
    }
    NCCL_OK(ncclSend(out, N, ncclFloat32, next, comm, side));
    NCCL_OK(ncclRecv(in, N, ncclFloat32, before, comm, side));
    if (good) {
        NCCL_OK(ncclGroupEnd());
    }
    CUDA_OK(cudaStreamSynchronize(side));
    return leave(compare(in, N, (float)before));
}

/* Two messages of different size; bad: received in the other order. */
static int crossed_messages(void)
{
    float *data = device_memory(N);
    int result = 0;

    join();
    CUDA_OK(plain_fill(data, rank == 0 ? 3 : 0, N, side));
    NCCL_OK(ncclGroupStart());
    for (int k = 0; k < 2 && rank < 2; k++) {
        size_t count = (k == 0) == (good || rank == 0) ? 100 : 200;

        if (rank == 0) {
            NCCL_OK(ncclSend(data, count, ncclFloat32, 1, comm, side));
        } else {
            NCCL_OK(ncclRecv(data, count, ncclFloat32, 0, comm, side));
        }
    }
    NCCL_OK(ncclGroupEnd());
    CUDA_OK(cudaStreamSynchronize(side));
    if (rank == 1) {
        result = compare(data, 200, 3);
    }
    return leave(result);
}

/* Bad: one rank reduces before it sends, the other after it has received. */
static int collective_between(void)
{
    float *data = device_memory(N);

    join();
    for (int k = 0; k < 2; k++) {
        if ((k == 0) == (good || rank != 1)) {
            NCCL_OK(ncclAllReduce(data, data, N, ncclFloat32, ncclSum, comm, side));
        } else if (rank == 0) {
            NCCL_OK(ncclSend(data, N, ncclFloat32, 1, comm, side));
        } else if (rank == 1) {
            NCCL_OK(ncclRecv(data, N, ncclFloat32, 0, comm, side));
        }
    }
    CUDA_OK(cudaStreamSynchronize(side));
    return leave(0);
}

/* A received buffer is read on another stream; bad: without waiting. */
static int received_early(void)
{
    float *out = device_memory(N), *in = device_memory(N), *sum = device_memory(N);
    int next = (rank + 1) % n_ranks, before = (rank + n_ranks - 1) % n_ranks;
    cudaEvent_t done, free_again;
    float want = 0;

    join();
    CUDA_OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&free_again, cudaEventDisableTiming));
    for (int step = 0; step < STEPS; step++) {
        CUDA_OK(plain_fill(out, (float)(rank + step + 1), N, side));
        NCCL_OK(ncclGroupStart());
        NCCL_OK(ncclSend(out, N, ncclFloat32, next, comm, side));
        NCCL_OK(ncclRecv(in, N, ncclFloat32, before, comm, side));
        NCCL_OK(ncclGroupEnd());
        CUDA_OK(cudaEventRecord(done, side));
        if (good) {
            CUDA_OK(cudaStreamWaitEvent(compute, done, 0));
        }
        CUDA_OK(plain_axpy(sum, in, 1, N, compute));
        CUDA_OK(cudaEventRecord(free_again, compute));
        CUDA_OK(cudaStreamWaitEvent(side, free_again, 0));
        want += (float)(before + step + 1);
    }
    CUDA_OK(cudaStreamSynchronize(compute));
    CUDA_OK(cudaStreamSynchronize(side));
    CUDA_OK(cudaEventDestroy(done));
    CUDA_OK(cudaEventDestroy(free_again));
    return leave(compare(sum, N, want));
}

/* Bad: all ranks on one GPU. */
static int one_gpu(void)
{
    CUDA_OK(cudaSetDevice(good ? rank : 0));
    join();
    return leave(0);
}

/* ---- failures of others ---------------------------------------------------------------------- */
/* Works with a watchdog; prints what it saw. Used with CUSIM_NCCL_HANG and CUSIM_NCCL_KILL: rank 1 hangs or dies. */
static int watched(void)
{
    float *data = device_memory(N);
    struct timespec pause = {0, 1000000};

    join();
    for (int step = 0; step < 6; step++) {
        NCCL_OK(ncclAllReduce(data, data, N, ncclFloat32, ncclSum, comm, side));
        for (int ms = 0;; ms++) {
            ncclResult_t error;

            NCCL_OK(ncclCommGetAsyncError(comm, &error));
            if (error != ncclSuccess || ms > 700) {
                const char *what = error != ncclSuccess ? ncclGetErrorString(error) : "no progress";

                printf("rank %d: step %d: %s\n", rank, step, what);
                NCCL_OK(ncclCommAbort(comm));
                CUDA_OK(cudaStreamSynchronize(side));
                return 0;
            }
            if (cudaStreamQuery(side) == cudaSuccess) {
                break;
            }
            nanosleep(&pause, NULL);
        }
    }
    barrier();
    return leave(0);
}

/* A rank that never joins: the others give up after a while. Bad: it is waited for without end, so this only knows
 * good. */
static int absent(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t error = ncclInProgress;

    config.blocking = 0;
    make_id();
    if (rank == 1) {
        return 0;
    }
    if (ncclCommInitRankConfig(&comm, n_ranks, shared->id, rank, &config) != ncclInProgress) {
        return 1;
    }
    for (int ms = 0; ms < 100 && error == ncclInProgress; ms++) {
        NCCL_OK(ncclCommGetAsyncError(comm, &error));
        usleep(1000);
    }
    printf("rank %d: %s\n", rank, ncclGetErrorString(error));
    NCCL_OK(ncclCommAbort(comm));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"reduced_early", reduced_early},
    {"other_count", other_count},
    {"no_group", no_group},
    {"other_collective", other_collective},
    {"watched", watched},
    {"crossed_messages", crossed_messages},
    {"absent", absent},
    {"collective_between", collective_between},
    {"one_gpu", one_gpu},
    {"received_early", received_early},
};

static int run_rank(int (*run)(void))
{
    CUDA_OK(cudaSetDevice(rank));
    CUDA_OK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    int result = run();
    fflush(stdout);
    return result;
}

/* The worst exit code; a rank that ends badly takes the others with it, but one that was killed does not. */
static int wait_for_all(pid_t *ranks)
{
    int worst = 0, status;
    pid_t ended;

    while ((ended = wait(&status)) > 0) {
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        int code = killed ? 0 : WIFEXITED(status) ? WEXITSTATUS(status) : 2;

        worst = code > worst ? code : worst;
        for (int i = 0; i < n_ranks; i++) {
            if (ranks[i] == ended) {
                ranks[i] = 0;
            } else if (code > 1 && ranks[i] > 0) {
                usleep(300000); /* the others may have something to say, too */
                kill(ranks[i], SIGKILL);
            }
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    pid_t ranks[MAX_RANKS] = {0};
    int (*run)(void) = NULL;

    for (size_t i = 0; argc >= 3 && i < sizeof cases / sizeof cases[0]; i++) {
        run = strcmp(argv[1], cases[i].name) == 0 ? cases[i].run : run;
    }
    if (run == NULL) {
        printf("usage: nccl_bugs NAME good|bad [RANKS]\n");
        return 2;
    }
    good = strcmp(argv[2], "good") == 0;
    n_ranks = argc > 3 ? atoi(argv[3]) : 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || n_ranks < 1 || n_ranks > MAX_RANKS) {
        return 2;
    }
    for (rank = 0; rank < n_ranks; rank++) {
        ranks[rank] = fork();
        if (ranks[rank] == 0) {
            exit(run_rank(run));
        }
    }
    return wait_for_all(ranks);
}
