/* RUN: np=1,2,4 timeout=120 */
/* The simulated NCCL between processes: every collective, and messages in any pattern, against what they must give. */
#include "nccl_case.h"

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

/* ---- messages -------------------------------------------------------------------------------- */
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
    };
    return run_all(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
