/* What the tests of NCCL between processes share: values whose sums are exact, buffers, one communicator; run under
 * mpirun. */
#ifndef CUSIM_TEST_NCCL_CASE_H
#define CUSIM_TEST_NCCL_CASE_H

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

/* ---- values ---------------------------------------------------------------------------------- */
static const ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16,
                                       ncclInt32,   ncclUint8,   ncclInt64};
enum { N_TYPES = sizeof types / sizeof types[0] };

static inline size_t size_of(ncclDataType_t type)
{
    return type == ncclFloat64 || type == ncclInt64      ? 8
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclUint8                           ? 1
                                                         : 4;
}

static inline void put(char *data, size_t i, ncclDataType_t type, double value)
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

static inline double get(const char *data, size_t i, ncclDataType_t type)
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
static inline double value_of(int from, size_t i)
{
    return (double)(1 + (i * 7 + (size_t)from * 3) % 4);
}

static inline void fill(ncclDataType_t type, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put(host_in, i, type, value_of(rank, i));
    }
    OK(cudaMemcpy(device_in, host_in, n * size_of(type), cudaMemcpyHostToDevice));
}

/* cudaMemset returns before it is done, and the stream does not wait for the default stream. */
static inline void clear(size_t bytes)
{
    OK(cudaMemset(device_out, 0, bytes));
    OK(cudaDeviceSynchronize());
}

static inline void fetch(const char *from, size_t bytes)
{
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(host_out, from, bytes, cudaMemcpyDeviceToHost));
}

/* A call may be over before its operation is on the stream, where the communicator does not block. */
static inline void settle(ncclComm_t c, ncclResult_t result)
{
    while (result == ncclInProgress) {
        OK(ncclCommGetAsyncError(c, &result));
        usleep(50);
    }
    assert_int_equal(result, ncclSuccess);
}

static inline double reduced(ncclRedOp_t op, size_t i)
{
    double sum = value_of(0, i);

    for (int r = 1; r < n_ranks; r++) {
        double v = value_of(r, i);

        sum = op == ncclProd ? sum * v : op == ncclMax ? fmax(sum, v) : op == ncclMin ? fmin(sum, v) : sum + v;
    }
    return op == ncclAvg ? sum / n_ranks : sum;
}

static inline void expect(const char *what, size_t i, ncclDataType_t type, double want)
{
    double got = get(host_out, i, type), slack = type == ncclBfloat16 ? 0.02 : type == ncclFloat16 ? 0.002 : 1e-6;

    if (!(fabs(got - want) <= (type == ncclFloat64 ? 0 : slack * fabs(want)))) {
        fail_msg("%s: element %zu of type %d is %g, expected %g", what, i, (int)type, got, want);
    }
}

static inline ncclComm_t join(bool blocking)
{
    ncclUniqueId id;
    ncclComm_t c = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = blocking;
    if (rank == 0) {
        OK(ncclGetUniqueId(&id));
    }
    OK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
    ncclResult_t result = ncclCommInitRankConfig(&c, n_ranks, id, rank, &config);
    settle(c, result);
    return c;
}

static inline int open_all(void **state)
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

static inline int close_all(void **state)
{
    (void)state;
    return ncclCommDestroy(comm) != 0 || cudaFree(device_in) != 0 || cudaFree(device_out) != 0 ||
           cudaStreamDestroy(stream) != 0;
}

static inline int run_all(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
    int failed, any = 0;

    /* A rank that fails must not leave the others waiting. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    failed = _cmocka_run_group_tests("nccl", tests, n, open_all, close_all);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}

#endif
