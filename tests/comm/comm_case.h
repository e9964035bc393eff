/* What the tests of transports share: the process's part in the job, and a comm opened on pretended nodes. Each test is
 * one file, so that this one holds the state. */
#ifndef LS_TESTS_COMM_CASE_H
#define LS_TESTS_COMM_CASE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "base/memory.h"
#include "comm/nccl_choice.h"
#include "comm/registry.h"
#include "kernels/ops.h"
#include "support/backend_case.h"
#include "support/test.h"

enum { MAX_WORLD = 8, SMALL_PIECE = 65536, N_MAPS = 4, MAX_OTHERS = 3 };

static lsi_job *job;
static ls_device *device;
static ls_stream *stream;
static bool has_nccl;           /* on GPUs, one for each rank */

typedef struct comm_case {
    lsi_job job;            /* the real one, on other nodes */
    int node[MAX_WORLD];
    lsi_span share[MAX_WORLD];
    lsi_memory_account account;
    lsi_comm_options options;
    ls_comm *comm;
} comm_case;

static inline bool has_mpi(void)
{
    return job->communicator != NULL;
}

static inline int node_of(int map, int rank)
{
    return map == 0 ? 0 : map == 1 ? rank / 2 : map == 2 ? rank % 2 : rank != 0;
}

/* The transports that `auto` does not always stand for. */
static inline int others(const char *out[MAX_OTHERS])
{
    int n = 0;

    if (device->backend->host_memory) {
        out[n++] = "shm";
    }
    if (has_mpi()) {
        out[n++] = "mpi";
    }
    if (has_nccl) {
        out[n++] = "nccl";
    }
    return n;
}

/* Between the host and the transport's memory, which may be a GPU's. */
static inline void put(void *to, const void *host, size_t bytes)
{
    CHECK_OK(device->backend->copy(stream, to, host, bytes));
    CHECK_OK(device->backend->stream_sync(stream));
}

static inline void get(void *host, const void *from, size_t bytes)
{
    put(host, from, bytes);
}

_Noreturn static inline void give_up(void *argument, ls_status status)
{
    (void)argument;
    lsi_job_abort(job, status);
}

static inline void open_case(comm_case *c, const char *transport, int lanes, int map, size_t piece_bytes, bool fast,
                             ls_dtype wire)
{
    memset(c, 0, sizeof *c);
    c->job = *job;
    c->job.node = c->node;
    c->job.n_nodes = c->job.local_rank = c->job.n_local = 0;
    for (int r = 0; r < job->world; r++) {
        c->node[r] = node_of(map, r);
        c->job.n_nodes = c->node[r] + 1 > c->job.n_nodes ? c->node[r] + 1 : c->job.n_nodes;
        c->job.n_local += c->node[r] == node_of(map, job->rank);
        c->job.local_rank += r < job->rank && c->node[r] == node_of(map, job->rank);
    }
    CHECK_OK(lsi_shares(lanes, job->world, c->node, c->share));
    /* Of pretended nodes it cannot be told which ranks share a GPU. */
    if (strcmp(transport, "auto") == 0 && !device->backend->host_memory && job->world > 1 && !has_nccl && map != 0) {
        transport = "mpi";
    }
    c->options = (lsi_comm_options){
        .transport = transport,
        .job = &c->job,
        .device = device,
        .account = &c->account,
        .n_lanes = lanes,
        .share = c->share,
        .fast = fast,
        .wire = wire,
        .timeout_seconds = 60,
        .on_failure = give_up,
        .piece_bytes = piece_bytes,
    };
    CHECK_OK(lsi_comm_open(&c->options, &c->comm));
    assert_int_equal(c->comm->rank, job->rank);
    assert_int_equal(c->comm->world, job->world);
}

static inline void close_case(comm_case *c)
{
    c->comm->transport->close(c->comm);
    assert_int_equal(c->account.live_total, 0);
}

/* What the plan says of reductions and gathers of up to n elements. */
static inline int64_t planned_staging(const comm_case *c, int64_t n)
{
    lsi_comm_options options = c->options;

    options.transport = c->comm->transport->name;
    return lsi_comm_staging_bytes(&options, n, 0);
}

static inline void launch_and_wait(const comm_case *c, ls_collective *collective)
{
    CHECK_OK(c->comm->transport->launch(collective, stream));
    CHECK_OK(device->backend->stream_sync(stream));
}

static inline ls_status open_device(void)
{
    const ls_backend *backend = test_backend();
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};

    LS_TRY(lsi_backend_ordinal(backend, job->local_rank, &options.ordinal));
    LS_TRY(backend->open(&options, &device));
    if (lsi_nccl_is_built() && strcmp(backend->name, "cuda") == 0) {
        LS_TRY(lsi_nccl_own_gpus(job, device, &has_nccl));
    }
    return backend->stream_create(device, "comm", 1, &stream);
}

/* Around the tests in main(): false when the process cannot start. */
static inline bool start_tests(const char *name, int argc, char **argv)
{
    if (lsi_job_open(name, &argc, &argv, &job) != LS_OK || open_device() != LS_OK) {
        fprintf(stderr, "cannot start: %s\n", ls_failure_message());
        return false;
    }
    return true;
}

/* Returns main()'s: 0 when no test failed and all memory is free again. */
static inline int end_tests(int failed)
{
    device->backend->stream_destroy(stream);
    device->backend->close(device);
    lsi_job_close(&job);
    if (lsi_memory_live_blocks() != 0) {
        fprintf(stderr, "%zu blocks of memory live at the end\n", lsi_memory_live_blocks());
        failed = 1;
    }
    return failed;
}

#endif
