/* RUN: np=1,2,4 timeout=120 */
/* The simulated NCCL between processes: every collective and messages in any pattern against what they must give, with
 * each seed's order of streams. */
#include "support/test.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <mpi.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "number.h"

enum { COUNT = 1000, MAX_RANKS = 4 };

static int rank, n_ranks;
static ncclComm_t comm;
static cudaStream_t stream;
static char *device_in, *device_out;
static char host_in[COUNT * 8 * MAX_RANKS], host_out[COUNT * 8 * MAX_RANKS];

#define OK(call) assert_int_equal((call), 0)

/* ---- values ----------------------------------------------------------------------------------- */
static const ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16,
                                       ncclInt32,   ncclUint8,   ncclInt64};
enum { N_TYPES = sizeof types / sizeof types[0] };

static size_t size_of(ncclDataType_t type)
{
    return type == ncclFloat64 || type == ncclInt64      ? 8
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclUint8                           ? 1
                                                         : 4;
}

static void put(char *data, size_t i, ncclDataType_t type, double value)
{
    switch (type) {
    case ncclFloat32:
        ((float *)(void *)data)[i] = (float)value;
        break;
    case ncclFloat64:
        ((double *)(void *)data)[i] = value;
        break;
    case ncclFloat16:
        ((uint16_t *)(void *)data)[i] = cusim_to_f16((float)value);
        break;
    case ncclBfloat16:
        ((uint16_t *)(void *)data)[i] = cusim_to_bf16((float)value);
        break;
    case ncclInt32:
        ((int32_t *)(void *)data)[i] = (int32_t)value;
        break;
    case ncclInt64:
        ((int64_t *)(void *)data)[i] = (int64_t)value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    }
}

static double get(const char *data, size_t i, ncclDataType_t type)
{
    switch (type) {
    case ncclFloat32:
        return (double)((const float *)(const void *)data)[i];
    case ncclFloat64:
        return ((const double *)(const void *)data)[i];
    case ncclFloat16:
        return (double)cusim_from_f16(((const uint16_t *)(const void *)data)[i]);
    case ncclBfloat16:
        return (double)cusim_from_bf16(((const uint16_t *)(const void *)data)[i]);
    case ncclInt32:
        return ((const int32_t *)(const void *)data)[i];
    case ncclInt64:
        return (double)((const int64_t *)(const void *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* Small whole numbers: sums and products of four are exact in every type. */
static double value_of(int from, size_t i)
{
    return (double)(1 + (i * 7 + (size_t)from * 3) % 4);
}

static void fill(ncclDataType_t type, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put(host_in, i, type, value_of(rank, i));
    }
    OK(cudaMemcpy(device_in, host_in, n * size_of(type), cudaMemcpyHostToDevice));
}

/* cudaMemset returns before it is done, and the stream does not wait for the default stream. */
static void clear(size_t bytes)
{
    OK(cudaMemset(device_out, 0, bytes));
    OK(cudaDeviceSynchronize());
}

static void fetch(const char *from, size_t bytes)
{
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(host_out, from, bytes, cudaMemcpyDeviceToHost));
}

/* A call may be over before its operation is on the stream, where the communicator does not block. */
static void settle(ncclComm_t c, ncclResult_t result)
{
    while (result == ncclInProgress) {
        OK(ncclCommGetAsyncError(c, &result));
        usleep(50);
    }
    assert_int_equal(result, ncclSuccess);
}

static double reduced(ncclRedOp_t op, size_t i)
{
    double sum = value_of(0, i);

    for (int r = 1; r < n_ranks; r++) {
        double v = value_of(r, i);

        sum = op == ncclProd ? sum * v : op == ncclMax ? fmax(sum, v) : op == ncclMin ? fmin(sum, v) : sum + v;
    }
    return op == ncclAvg ? sum / n_ranks : sum;
}

/* ---- collectives ------------------------------------------------------------------------------ */
static void expect(const char *what, size_t i, ncclDataType_t type, double want)
{
    double got = get(host_out, i, type), slack = type == ncclBfloat16 ? 0.02 : type == ncclFloat16 ? 0.002 : 1e-6;

    if (!(fabs(got - want) <= (type == ncclFloat64 ? 0 : slack * fabs(want)))) {
        fail_msg("%s: element %zu of type %d is %g, expected %g", what, i, (int)type, got, want);
    }
}

static void test_reductions(void **state)
{
    static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
            ncclDataType_t type = types[t];
            bool whole = type == ncclInt32 || type == ncclInt64 || type == ncclUint8;
            size_t each = COUNT / (size_t)n_ranks, bytes = COUNT * size_of(type);
            int root = n_ranks - 1;

            if (ops[o] == ncclAvg && whole) {
                continue;
            }
            fill(type, COUNT);
            settle(comm, ncclAllReduce(device_in, device_out, COUNT, type, ops[o], comm, stream));
            fetch(device_out, bytes);
            for (size_t i = 0; i < COUNT; i++) {
                expect("AllReduce", i, type, reduced(ops[o], i));
            }
            settle(comm, ncclReduceScatter(device_in, device_out, each, type, ops[o], comm, stream));
            fetch(device_out, each * size_of(type));
            for (size_t i = 0; i < each; i++) {
                expect("ReduceScatter", i, type, reduced(ops[o], (size_t)rank * each + i));
            }
            settle(comm,
                   ncclReduce(device_in, rank == root ? device_out : NULL, COUNT, type, ops[o], root, comm, stream));
            fetch(rank == root ? device_out : device_in, bytes);
            for (size_t i = 0; i < COUNT; i++) {
                expect("Reduce", i, type, rank == root ? reduced(ops[o], i) : value_of(rank, i));
            }
            /* In place. */
            settle(comm, ncclAllReduce(device_in, device_in, COUNT, type, ops[o], comm, stream));
            fetch(device_in, bytes);
            for (size_t i = 0; i < COUNT; i++) {
                expect("AllReduce in place", i, type, reduced(ops[o], i));
            }
        }
    }
}

static void test_gather_and_broadcast(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        ncclDataType_t type = types[t];
        size_t bytes = COUNT * size_of(type);

        fill(type, COUNT);
        settle(comm, ncclAllGather(device_in, device_out, COUNT, type, comm, stream));
        fetch(device_out, bytes * (size_t)n_ranks);
        for (size_t i = 0; i < COUNT * (size_t)n_ranks; i++) {
            expect("AllGather", i, type, value_of((int)(i / COUNT), i % COUNT));
        }
        /* In place: this rank's part lies where it belongs. */
        OK(cudaMemcpy(device_out + (size_t)rank * bytes, host_in, bytes, cudaMemcpyHostToDevice));
        settle(comm, ncclAllGather(device_out + (size_t)rank * bytes, device_out, COUNT, type, comm, stream));
        fetch(device_out, bytes * (size_t)n_ranks);
        for (size_t i = 0; i < COUNT * (size_t)n_ranks; i++) {
            expect("AllGather in place", i, type, value_of((int)(i / COUNT), i % COUNT));
        }
        for (int root = 0; root < n_ranks; root++) {
            settle(comm, ncclBroadcast(device_in, device_out, COUNT, type, root, comm, stream));
            fetch(device_out, bytes);
            for (size_t i = 0; i < COUNT; i++) {
                expect("Broadcast", i, type, value_of(root, i));
            }
        }
    }
}

/* Where rounding shows: the same bits on every rank. */
static void test_same_bits_on_all_ranks(void **state)
{
    float *in = (float *)(void *)host_in, *out = (float *)(void *)host_out;
    static float other[COUNT];

    (void)state;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COUNT; i++) {
            in[i] = 1.0f / (float)(i + rank * 3 + round + 1);
        }
        OK(cudaMemcpy(device_in, in, sizeof other, cudaMemcpyHostToDevice));
        settle(comm, ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclSum, comm, stream));
        fetch(device_out, sizeof other);
        memcpy(other, out, sizeof other);
        OK(MPI_Bcast(other, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD));
        assert_memory_equal(other, out, sizeof other);
    }
}

static void test_premultiplied(void **state)
{
    float half = 0.5f;
    ncclRedOp_t immediate, on_device;
    void *scalar;

    (void)state;
    OK(cudaMalloc(&scalar, sizeof half));
    OK(cudaMemcpy(scalar, &half, sizeof half, cudaMemcpyHostToDevice));
    OK(ncclRedOpCreatePreMulSum(&immediate, &half, ncclFloat32, ncclScalarHostImmediate, comm));
    OK(ncclRedOpCreatePreMulSum(&on_device, scalar, ncclFloat32, ncclScalarDevice, comm));
    assert_int_not_equal(immediate, on_device);
    for (int k = 0; k < 2; k++) {
        fill(ncclFloat32, COUNT);
        settle(comm,
               ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, k == 0 ? immediate : on_device, comm, stream));
        fetch(device_out, COUNT * 4);
        for (size_t i = 0; i < COUNT; i++) {
            expect("PreMulSum", i, ncclFloat32, reduced(ncclSum, i) / 2);
        }
    }
    assert_int_equal(ncclAllReduce(device_in, device_out, COUNT, ncclFloat64, ncclSum + 100, comm, stream),
                     ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(device_in, device_out, 10, ncclFloat64, immediate, comm, stream),
                     ncclInvalidArgument);
    OK(ncclRedOpDestroy(immediate, comm));
    OK(ncclRedOpDestroy(on_device, comm));
    assert_int_equal(ncclRedOpDestroy(on_device, comm), ncclInvalidArgument);
    OK(cudaFree(scalar));
}

/* ---- messages --------------------------------------------------------------------------------- */
/* Everyone to everyone, themselves included, several messages a pair, sizes that depend on the pair. */
static void test_all_to_all(void **state)
{
    enum { EACH = 3, MOST = 40 };
    size_t at = 0;

    (void)state;
    fill(ncclFloat32, COUNT);
    clear(COUNT * 4);
    OK(ncclGroupStart());
    for (int peer = 0; peer < n_ranks; peer++) {
        for (int k = 0; k < EACH; k++) {
            size_t count = (size_t)(rank * 5 + peer * 2 + k);

            OK(ncclSend(device_in + 4 * count, count, ncclFloat32, peer, comm, stream));
        }
    }
    for (int peer = n_ranks - 1; peer >= 0; peer--) {
        for (int k = 0; k < EACH; k++) {
            size_t count = (size_t)(peer * 5 + rank * 2 + k);

            OK(ncclRecv(device_out + 4 * at, count, ncclFloat32, peer, comm, stream));
            at += count;
        }
    }
    settle(comm, ncclGroupEnd());
    fetch(device_out, 4 * at);
    at = 0;
    for (int peer = n_ranks - 1; peer >= 0; peer--) {
        for (int k = 0; k < EACH; k++) {
            size_t count = (size_t)(peer * 5 + rank * 2 + k);

            for (size_t i = 0; i < count; i++) {
                expect("message", at++, ncclFloat32, value_of(peer, count + i));
            }
        }
    }
}

/* More messages to one peer than the ring of a channel holds, and messages that grow. */
static void test_many_and_large(void **state)
{
    enum { MANY = 50 };
    int next = (rank + 1) % n_ranks, before = (rank + n_ranks - 1) % n_ranks;

    (void)state;
    fill(ncclInt32, COUNT);
    OK(ncclGroupStart());
    for (int k = 0; k < MANY; k++) {
        OK(ncclSend(device_in + 4 * k, 1, ncclInt32, next, comm, stream));
        OK(ncclRecv(device_out + 4 * k, 1, ncclInt32, before, comm, stream));
    }
    settle(comm, ncclGroupEnd());
    fetch(device_out, 4 * MANY);
    for (size_t k = 0; k < MANY; k++) {
        expect("one of many", k, ncclInt32, value_of(before, k));
    }
    for (size_t bytes = 1 << 10; bytes <= 4 << 20; bytes *= 16) {
        char *large, *host = malloc(bytes);

        assert_non_null(host);
        OK(cudaMalloc((void **)&large, 2 * bytes));
        memset(host, rank + 1, bytes);
        OK(cudaMemcpy(large, host, bytes, cudaMemcpyHostToDevice));
        OK(ncclGroupStart());
        OK(ncclSend(large, bytes, ncclUint8, next, comm, stream));
        OK(ncclRecv(large + bytes, bytes, ncclUint8, before, comm, stream));
        settle(comm, ncclGroupEnd());
        OK(cudaStreamSynchronize(stream));
        OK(cudaMemcpy(host, large + bytes, bytes, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < bytes; i += 1021) {
            assert_int_equal(host[i], before + 1);
        }
        OK(cudaFree(large));
        free(host);
    }
}

/* Collectives and messages in one group. */
static void test_mixed_group(void **state)
{
    int next = (rank + 1) % n_ranks, before = (rank + n_ranks - 1) % n_ranks;

    (void)state;
    fill(ncclFloat32, COUNT);
    OK(ncclGroupStart());
    OK(ncclAllReduce(device_in, device_out, 100, ncclFloat32, ncclSum, comm, stream));
    OK(ncclGroupStart());
    OK(ncclRecv(device_out + 400, 100, ncclFloat32, before, comm, stream));
    OK(ncclSend(device_in, 100, ncclFloat32, next, comm, stream));
    OK(ncclGroupEnd());
    OK(ncclBroadcast(device_in, device_out + 800, 100, ncclFloat32, 0, comm, stream));
    settle(comm, ncclGroupEnd());
    fetch(device_out, 1200);
    for (size_t i = 0; i < 100; i++) {
        expect("AllReduce", i, ncclFloat32, reduced(ncclSum, i));
        expect("message", 100 + i, ncclFloat32, value_of(before, i));
        expect("Broadcast", 200 + i, ncclFloat32, value_of(0, i));
    }
}

/* ---- communicators ---------------------------------------------------------------------------- */
static ncclComm_t join(bool blocking)
{
    ncclUniqueId id;
    ncclComm_t c;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = blocking;
    if (rank == 0) {
        OK(ncclGetUniqueId(&id));
    }
    OK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
    settle(c, ncclCommInitRankConfig(&c, n_ranks, id, rank, &config));
    return c;
}

static void test_communicator(void **state)
{
    int value;
    ncclResult_t error;

    (void)state;
    OK(ncclGetVersion(&value));
    assert_int_equal(value, NCCL_VERSION_CODE);
    OK(ncclCommCount(comm, &value));
    assert_int_equal(value, n_ranks);
    OK(ncclCommUserRank(comm, &value));
    assert_int_equal(value, rank);
    OK(ncclCommCuDevice(comm, &value));
    assert_int_equal(value, rank);
    OK(ncclCommGetAsyncError(comm, &error));
    assert_int_equal(error, ncclSuccess);
    assert_string_equal(ncclGetErrorString(ncclRemoteError), "remote process exited or there was a network error");
    assert_int_equal(ncclCommCount(NULL, &value), ncclInvalidArgument);
}

/* Two communicators on two streams, in another order on every second rank: neither waits for the other. */
static void test_two_communicators(void **state)
{
    ncclComm_t other = join(true);
    cudaStream_t second;

    (void)state;
    OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    fill(ncclFloat32, COUNT);
    for (int k = 0; k < 2; k++) {
        bool first = (rank + k) % 2 == 0;

        settle(first ? comm : other,
               ncclAllReduce(device_in, first ? device_out : device_out + COUNT * 4, COUNT, ncclFloat32, ncclSum,
                             first ? comm : other, first ? stream : second));
    }
    OK(cudaStreamSynchronize(second));
    fetch(device_out, COUNT * 8);
    for (size_t i = 0; i < 2 * COUNT; i++) {
        expect("AllReduce", i, ncclFloat32, reduced(ncclSum, i % COUNT));
    }
    OK(ncclCommFinalize(other));
    OK(ncclCommDestroy(other));
    assert_int_equal(ncclCommDestroy(other), ncclInvalidArgument);
    OK(cudaStreamDestroy(second));
}

static void test_not_blocking(void **state)
{
    ncclComm_t c = join(false);
    int in_progress = 0;

    (void)state;
    for (int k = 0; k < 30; k++) {
        fill(ncclFloat32, COUNT);
        ncclResult_t result = ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclSum, c, stream);

        if (result == ncclInProgress) {
            in_progress++;
            assert_int_equal(ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclSum, c, stream),
                             ncclInvalidArgument);
        }
        settle(c, result);
        fetch(device_out, COUNT * 4);
        expect("AllReduce", 0, ncclFloat32, reduced(ncclSum, 0));
    }
    const char *seed = getenv("CUSIM_SEED");
    assert_true(in_progress > 0 || seed == NULL || atoi(seed) == 0);
    settle(c, ncclCommFinalize(c));
    assert_int_equal(ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclSum, c, stream), ncclInvalidUsage);
    OK(ncclCommDestroy(c));
}

/* Frees every rank at once: one hangs where it would have to post, all abort. */
static void test_abort(void **state)
{
    ncclComm_t c = join(true);

    (void)state;
    fill(ncclFloat32, COUNT);
    if (rank == 0 || n_ranks == 1) {
        OK(ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclSum, c, stream));
    }
    if (rank == 0 && n_ranks > 1) {
        assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(ncclCommAbort(c));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclSum, c, stream), ncclInvalidArgument);
    assert_int_equal(ncclCommAbort(c), ncclInvalidArgument);
}

static void test_refused(void **state)
{
    char small[16] = {0};
    ncclUniqueId id = {0};
    ncclComm_t c;

    (void)state;
    assert_int_equal(ncclAllReduce(small, small, 4, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
    assert_string_equal(ncclGetLastError(comm),
                        rank == 0   ? "ncclAllReduce: a buffer is not 16 bytes of memory of device 0"
                        : rank == 1 ? "ncclAllReduce: a buffer is not 16 bytes of memory of device 1"
                        : rank == 2 ? "ncclAllReduce: a buffer is not 16 bytes of memory of device 2"
                                    : "ncclAllReduce: a buffer is not 16 bytes of memory of device 3");
    assert_int_equal(ncclAllReduce(device_in, device_out, 1 << 28, ncclFloat32, ncclSum, comm, stream),
                     ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(device_in, device_in + 4, 4, ncclFloat32, ncclSum, comm, stream),
                     ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(device_in, device_out, 4, ncclNumTypes, ncclSum, comm, stream), ncclInvalidArgument);
    assert_int_equal(ncclBroadcast(device_in, device_out, 4, ncclFloat32, n_ranks, comm, stream), ncclInvalidArgument);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_int_equal(ncclCommInitRank(&c, 2, id, 2), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRank(&c, 2, id, 1), ncclSystemError);
    /* What goes wrong inside a group is the group's result, and nothing of it runs. */
    fill(ncclFloat32, COUNT);
    clear(4);
    OK(ncclGroupStart());
    OK(ncclAllReduce(device_in, device_out, 4, ncclFloat32, ncclSum, comm, stream));
    assert_int_equal(ncclAllReduce(small, small, 4, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
    assert_int_equal(ncclGroupEnd(), ncclInvalidArgument);
    fetch(device_out, 4);
    expect("not run", 0, ncclFloat32, 0);
    OK(ncclAllReduce(device_in, device_out, 0, ncclFloat32, ncclSum, comm, stream));
}

/* ---- in a graph ------------------------------------------------------------------------------- */
static void test_graph(void **state)
{
    enum { LAUNCHES = 5, N = 64 };
    cudaStream_t side;
    cudaEvent_t fork, join_event;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    int next = (rank + 1) % n_ranks, before = (rank + n_ranks - 1) % n_ranks;

    (void)state;
    OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
    for (size_t i = 0; i < N; i++) {
        put(host_in, i, ncclFloat64, rank + 1);
    }
    OK(cudaMemcpy(device_in, host_in, N * 8, cudaMemcpyHostToDevice));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(ncclAllReduce(device_in, device_in, N, ncclFloat64, ncclSum, comm, side));
    OK(ncclGroupStart());
    OK(ncclSend(device_in, N, ncclFloat64, next, comm, side));
    OK(ncclRecv(device_out, N, ncclFloat64, before, comm, side));
    OK(ncclGroupEnd());
    OK(cudaEventRecord(join_event, side));
    OK(cudaStreamWaitEvent(stream, join_event, 0));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    double want = n_ranks * (n_ranks + 1) / 2;
    for (int k = 0; k < LAUNCHES; k++) {
        OK(cudaGraphLaunch(executable, stream));
        fetch(device_out, N * 8);
        for (size_t i = 0; i < N; i++) {
            expect("AllReduce and message of a graph", i, ncclFloat64, want);
        }
        want *= n_ranks;
    }
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join_event));
    OK(cudaStreamDestroy(side));
}

/* Ranks that wait crosswise, in MPI and for a stream: streams go on although the host is away. */
static void test_host_waits_in_mpi(void **state)
{
    (void)state;
    fill(ncclFloat32, COUNT);
    for (int k = 0; k < 5; k++) {
        OK(ncclAllReduce(device_in, device_out, COUNT, ncclFloat32, ncclMax, comm, stream));
        if (rank % 2 == 0) {
            OK(cudaStreamSynchronize(stream));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(cudaStreamSynchronize(stream));
    }
}

static int open_all(void **state)
{
    (void)state;
    if (cudaSetDevice(rank) != 0 || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != 0 ||
        cudaMalloc((void **)&device_in, sizeof host_in) != 0 ||
        cudaMalloc((void **)&device_out, sizeof host_out) != 0) {
        return -1;
    }
    comm = join(true);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    return ncclCommDestroy(comm) != 0 || cudaFree(device_in) != 0 || cudaFree(device_out) != 0 ||
           cudaStreamDestroy(stream) != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_gather_and_broadcast),
        cmocka_unit_test(test_same_bits_on_all_ranks),
        cmocka_unit_test(test_premultiplied),
        cmocka_unit_test(test_all_to_all),
        cmocka_unit_test(test_many_and_large),
        cmocka_unit_test(test_mixed_group),
        cmocka_unit_test(test_communicator),
        cmocka_unit_test(test_two_communicators),
        cmocka_unit_test(test_not_blocking),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_host_waits_in_mpi),
    };
    /* A rank that fails must not leave the others waiting. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    int failed = cmocka_run_group_tests(tests, open_all, close_all), any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
