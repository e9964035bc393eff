/* RUN: label=tsan timeout=90 */
/* ThreadSanitizer sees a collective that is not ordered with the streams that make its input or use its output: in
 * edges mode, where only what the contracts promise counts as order. The cases are processes of their own. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/tsan.h"
#include "comm/registry.h"

enum { N = 40000, REPORTED = 66, MAX_WORLD = 2 };

_Noreturn static void give_up(void *argument, ls_status status)
{
    lsi_job_abort(argument, status);
}

/* A reduction of a partial into `out`, or a gather of `out`, where both have N elements. */
static ls_status prepare(ls_comm *comm, const char *kind, lsi_span share, float *partial, float *out,
                         ls_collective **collective)
{
    const ls_transport *t = comm->transport;

    return strcmp(kind, "gather") == 0
               ? t->prepare_gather(comm, out, N, sizeof(float), collective)
               : t->prepare_reduce(comm, &(ls_partial){share.lo, share.hi, partial}, 1, N, out, true, collective);
}

/* compute makes what goes in, comm runs the collective, compute overwrites what came out; `how` leaves out one of the
 * two waits. */
static ls_status run_case(const char *how, const char *transport, const char *kind, lsi_job *job, ls_device *device)
{
    const ls_backend *b = device->backend;
    lsi_memory_account account = {.poison = false};
    bool is_fast = strcmp(kind, "fast") == 0, is_gather = strcmp(kind, "gather") == 0;
    lsi_span share[MAX_WORLD];
    ls_stream *compute, *comm_stream;
    ls_event *made, *reduced;
    ls_collective *collective;
    ls_comm *comm;
    void *partial, *out;

    LS_TRY(lsi_shares(4, job->world, job->node, share));
    LS_TRY(lsi_comm_open(&(lsi_comm_options){.transport = transport, .job = job, .device = device, .account = &account,
                                             .n_lanes = 4, .share = share, .fast = is_fast, .wire = LS_F16,
                                             .timeout_seconds = 20, .on_failure = give_up, .failure_argument = job},
                         &comm));
    LS_TRY(b->stream_create(device, "compute", 0, &compute));
    LS_TRY(b->stream_create(device, "comm", 1, &comm_stream));
    LS_TRY(b->event_create(device, &made));
    LS_TRY(b->event_create(device, &reduced));
    LS_TRY(comm->transport->alloc(comm, N * sizeof(float), &partial));
    LS_TRY(comm->transport->alloc(comm, N * sizeof(float), &out));
    LS_TRY(prepare(comm, kind, share[job->rank], partial, out, &collective));

    LS_TRY(b->fill(compute, is_gather ? out : partial, 0, N * sizeof(float)));
    LS_TRY(b->event_record(made, compute));
    if (strcmp(how, "before") != 0) {
        LS_TRY(b->event_wait(comm_stream, made));
    }
    LS_TRY(comm->transport->launch(collective, comm_stream));
    LS_TRY(b->event_record(reduced, comm_stream));
    if (strcmp(how, "after") != 0) {
        LS_TRY(b->event_wait(compute, reduced));
    }
    LS_TRY(b->fill(compute, out, 0, N * sizeof(float)));
    LS_TRY(b->stream_sync(comm_stream));
    LS_TRY(b->stream_sync(compute));

    comm->transport->release(comm, N * sizeof(float), partial);
    comm->transport->release(comm, N * sizeof(float), out);
    comm->transport->close(comm);
    b->event_destroy(made);
    b->event_destroy(reduced);
    b->stream_destroy(compute);
    b->stream_destroy(comm_stream);
    return LS_OK;
}

static int case_main(int argc, char **argv)
{
    const char *how = argv[1], *transport = argv[2], *kind = argv[3];
    const ls_backend *backend;
    ls_device *device;
    lsi_job *job;

    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};

    if (lsi_job_open("test_order", &argc, &argv, &job) != LS_OK || lsi_backend_find("cpu", &backend) != LS_OK ||
        backend->open(&options, &device) != LS_OK) {
        return 1;
    }
    ls_status status = run_case(how, transport, kind, job, device);
    if (status != LS_OK) {
        fprintf(stderr, "%s\n", ls_failure_message());
        return 1;
    }
    backend->close(device);
    lsi_job_close(&job);
    return 0;
}

static int exit_code_of(const char *how, const char *transport, const char *kind, int world)
{
    char self[512], command[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof command,
             "LOCKSTEP_TSAN_EDGES=1 TSAN_OPTIONS='ignore_noninstrumented_modules=1 exitcode=%d' "
             "mpirun --bind-to none -np %d '%s' %s %s %s >/dev/null 2>&1",
             REPORTED, world, self, how, transport, kind);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_both_waits(const char *transport, const char *kind, int world)
{
    static const struct {
        const char *how;
        int code;
    } cases[] = {{"none", 0}, {"before", REPORTED}, {"after", REPORTED}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = exit_code_of(cases[i].how, transport, kind, world);

        if (code != cases[i].code) {
            fail_msg("%s of %s at np = %d, left out: %s; exit code %d instead of %d", kind, transport, world,
                     cases[i].how, code, cases[i].code);
        }
    }
}

static void test_both_waits_are_needed(void **state)
{
    static const char *const transports[] = {"mpi", "shm"};

    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int world = 1; world <= MAX_WORLD; world++) {
            check_both_waits(transports[t], "reduction", world);
            check_both_waits(transports[t], "gather", world);
        }
        check_both_waits(transports[t], "fast", 2);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_waits_are_needed),
    };

    if (argc == 4) {
        return case_main(argc, argv);
    }
#if !defined(LSI_TSAN) || !defined(LOCKSTEP_HAVE_MPI)
    puts("skipped: for a build with ThreadSanitizer and MPI");
    return 0;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
