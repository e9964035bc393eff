/* RUN: timeout=900 */
/* A peer that is dead, stopped or late. The test starts jobs of itself under mpirun: the jobs are not this process,
 * whose own end they would otherwise be. */
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "comm/registry.h"

enum { WORLD = 3, LANES = 8, N = 16384, ODD_RANK = 1 };

/* ---- a rank of the job --------------------------------------------------------------------------------------- */

static lsi_job *job;

_Noreturn static void give_up(void *argument, ls_status status)
{
    (void)argument;
    lsi_job_abort(job, status);
}

enum { DATA = LSI_TREE_MAX_ROOTS * N, ALL = WORLD * N, BYTES = (DATA + ALL) * sizeof(float) };

static ls_status prepare(ls_comm *comm, const char *kind, const lsi_span *share, float *data, ls_collective **out)
{
    float *all = data + DATA;

    if (strcmp(kind, "exchange") == 0) {
        return comm->transport->prepare_exchange(comm, data, all, N, out);
    }
    if (strcmp(kind, "broadcast") == 0) {
        return comm->transport->prepare_broadcast(comm, data, N, ODD_RANK, out);
    }
    if (strcmp(kind, "gather") == 0) {
        return comm->transport->prepare_gather(comm, all, WORLD * N, sizeof(uint16_t), out);
    }
    if (strcmp(kind, "fast") == 0) {
        return comm->transport->prepare_reduce(comm, &(ls_partial){0, 1, all}, 1, WORLD * N, all, true, out);
    }
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    ls_partial partials[LSI_TREE_MAX_ROOTS];
    int n = lsi_tree_roots(LANES, share[comm->rank].lo, share[comm->rank].hi, roots);
    for (int i = 0; i < n; i++) {
        partials[i] = (ls_partial){roots[i].lo, roots[i].hi, data + (ptrdiff_t)i * N};
    }
    return comm->transport->prepare_reduce(comm, partials, n, N, all, true, out);
}

/* Some collectives go well; before the last one the odd rank does what `how` says. */
static ls_status run_rank(const char *how, const char *transport, const char *kind, ls_device *device)
{
    lsi_memory_account account = {.poison = false};
    lsi_span share[WORLD];
    ls_collective *collective;
    ls_stream *stream;
    ls_comm *comm;
    void *data;

    LS_TRY(device->backend->stream_create(device, "comm", 1, &stream));
    LS_TRY(lsi_shares(LANES, job->world, job->node, share));
    LS_TRY(lsi_comm_open(&(lsi_comm_options){.transport = transport, .job = job, .device = device, .account = &account,
                                             .n_lanes = LANES, .share = share, .fast = strcmp(kind, "fast") == 0,
                                             .wire = LS_BF16, .timeout_seconds = 1.5, .on_failure = give_up}, &comm));
    LS_TRY(comm->transport->alloc(comm, BYTES, &data));
    memset(data, 0, BYTES);
    LS_TRY(prepare(comm, kind, share, data, &collective));
    for (int i = 0; i < 3; i++) {
        if (i == 2 && job->rank == ODD_RANK) {
            if (strcmp(how, "late") == 0) {
                usleep(500000);
            } else {
                raise(strcmp(how, "stopped") == 0 ? SIGSTOP : SIGKILL);
            }
        }
        LS_TRY(comm->transport->launch(collective, stream));
        LS_TRY(device->backend->stream_sync(stream));
    }
    comm->transport->release(comm, BYTES, data);
    comm->transport->close(comm);
    device->backend->stream_destroy(stream);
    return LS_OK;
}

static int rank_main(int argc, char **argv)
{
    const char *how = argv[1], *transport = argv[2], *kind = argv[3];
    const ls_backend *backend;
    ls_device *device;

    if (lsi_job_open("test_failure", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    ls_status status = lsi_backend_find("cpu", &backend);
    if (status == LS_OK) {
        status = backend->open(&(ls_device_options){.struct_size = sizeof(ls_device_options), .n_threads = 1}, &device);
    }
    if (status == LS_OK) {
        status = run_rank(how, transport, kind, device);
        backend->close(device);
    }
    if (status != LS_OK) {
        lsi_job_abort(job, status);
    }
    lsi_job_close(&job);
    return 0;
}

/* ---- the test ------------------------------------------------------------------------------------------------ */

enum { HAD_TO_BE_ENDED = 124 };     /* exit code of timeout(1) */

typedef struct ending {
    char output[16384];
    int exit_code;
} ending;

static void run_job(const char *mpirun_options, const char *how, const char *transport, const char *kind, ending *out)
{
    char self[512], command[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof command, "timeout -k 1 60 mpirun --bind-to none %s -np %d '%s' %s %s %s 2>&1",
             mpirun_options, WORLD, self, how, transport, kind);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out->output, 1, sizeof out->output - 1, pipe);
    out->output[n] = '\0';
    int status = pclose(pipe);
    out->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_named(const ending *e, const char *part)
{
    if (strstr(e->output, part) == NULL) {
        fail_msg("exit code %d; '%s' is not in:\n%s", e->exit_code, part, e->output);
    }
}

static const char *const transports[] = {"mpi", "shm"};

static void test_stopped_peer(void **state)
{
    static const struct {
        const char *transport, *kind, *awaited, *doing;
    } cases[] = {
        {"mpi", "reduction", "rank 1", "adding partial sums (reduction of 65536 bytes"},
        {"mpi", "exchange", "rank 1", "exchanging (exchange of 16384 bytes"},
        {"mpi", "broadcast", "rank 1", "receiving a broadcast (broadcast of 16384 bytes"},
        {"mpi", "gather", "rank 1", "gathering the chunks (gather of 98304 bytes"},
        {"mpi", "fast", "another rank", "adding up the chunks (fast reduction of 196608 bytes"},   /* MPI does not say */
        {"shm", "reduction", "rank 1", "meeting the others (reduction of 65536 bytes"},
        {"shm", "exchange", "rank 1", "meeting the others (exchange of 16384 bytes"},
        {"shm", "broadcast", "rank 1", "meeting the others (broadcast of 16384 bytes"},
        {"shm", "gather", "rank 1", "meeting the others (gather of 98304 bytes"},
        {"shm", "fast", "rank 1", "meeting the others (fast reduction of 196608 bytes"},
    };
    char waited[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ending e;

        run_job("", "stopped", cases[i].transport, cases[i].kind, &e);
        snprintf(waited, sizeof waited, "has waited 1.5 s for %s while", cases[i].awaited);
        check_named(&e, waited);
        check_named(&e, cases[i].doing);
        assert_int_equal(e.exit_code, ls_status_exit_code(LS_ERR_TIMEOUT));
    }
}

static void test_killed_peer(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        ending e;

        run_job("", "killed", transports[t], "reduction", &e);
        check_named(&e, "exited on signal 9");
        assert_int_not_equal(e.exit_code, 0);
        assert_int_not_equal(e.exit_code, HAD_TO_BE_ENDED);
    }
}

/* mpirun would end the job; told not to, the survivors find out by themselves. */
static void test_killed_peer_is_noticed(void **state)
{
    static const char *const doing[] = {"adding partial sums", "meeting the others"};

    (void)state;
    for (int t = 0; t < 2; t++) {
        ending e;
        char message[96];

        run_job("--enable-recovery", "killed", transports[t], "reduction", &e);
        snprintf(message, sizeof message, "has waited 1.5 s for rank 1 while %s", doing[t]);
        check_named(&e, message);
        assert_int_not_equal(e.exit_code, HAD_TO_BE_ENDED);
    }
}

static void test_late_peer_is_waited_for(void **state)
{
    static const char *const kinds[] = {"reduction", "gather", "fast"};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        ending e;

        run_job("", "late", transports[i % 2], kinds[i / 2], &e);
        assert_string_equal(e.output, "");
        assert_int_equal(e.exit_code, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_peer),
        cmocka_unit_test(test_killed_peer),
        cmocka_unit_test(test_killed_peer_is_noticed),
        cmocka_unit_test(test_late_peer_is_waited_for),
    };

    if (argc == 4) {
        return rank_main(argc, argv);
    }
#ifndef LOCKSTEP_HAVE_MPI
    puts("skipped: this build has no MPI");
    return 0;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
