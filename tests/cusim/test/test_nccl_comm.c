/* RUN: np=1,2,4 timeout=120 */
/* The simulated NCCL: communicators that join, do not block, abort and leave; what is refused; graphs. */
#include "nccl_case.h"

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

/* ---- in a graph ------------------------------------------------------------------------------ */
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_communicator),      cmocka_unit_test(test_two_communicators),
        cmocka_unit_test(test_not_blocking),      cmocka_unit_test(test_abort),
        cmocka_unit_test(test_refused),           cmocka_unit_test(test_graph),
        cmocka_unit_test(test_host_waits_in_mpi),
    };
    return run_all(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
