/* What the tests of transports share: the process's part in the job, and a comm opened on pretended nodes. Each test is
 * one file, so that this one holds the state. */
#ifndef LS_TESTS_COMM_CASE_H
#define LS_TESTS_COMM_CASE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "base/memory.h"
#include "comm/registry.h"
#include "kernels/ops.h"
#include "support/test.h"

enum { MAX_WORLD = 8, SMALL_PIECE = 65536, N_MAPS = 4 };

static lsi_job *job;
static ls_device *device;
static ls_stream *stream;

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

_Noreturn static inline void give_up(void *argument, ls_status status)
{
    (void)argument;
    lsi_job_abort(job, status);
}

static inline void open_case(comm_case *c, const char *transport, int lanes, int map, size_t piece_bytes, bool fast,
                             ls_dtype wire)
{
    memset(c, 0, sizeof *c);
    for (int r = 0; r < job->world; r++) {
        c->node[r] = map == 0 ? 0 : map == 1 ? r / 2 : map == 2 ? r % 2 : r != 0;
    }
    c->job = *job;
    c->job.node = c->node;
    CHECK_OK(lsi_shares(lanes, job->world, c->node, c->share));
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

static inline void launch_and_wait(const comm_case *c, ls_collective *collective)
{
    CHECK_OK(c->comm->transport->launch(collective, stream));
    CHECK_OK(device->backend->stream_sync(stream));
}

/* Around the tests in main(): false when the process cannot start. */
static inline bool start_tests(const char *name, int argc, char **argv)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};
    const ls_backend *backend;

    if (lsi_job_open(name, &argc, &argv, &job) != LS_OK || lsi_backend_find("cpu", &backend) != LS_OK ||
        backend->open(&options, &device) != LS_OK || backend->stream_create(device, "comm", 1, &stream) != LS_OK) {
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
