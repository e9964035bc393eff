/* RUN: timeout=120 label=tsan,slow */
/* Jobs that stand still, and jobs that only seem to. The test starts jobs of itself under mpirun: they are not this
 * process, whose own end they would otherwise be. comm.timeout is one second in all of them. */
#include "support/test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "job/watchdog.h"

enum { ODD_RANK = 1, LONG_SECONDS = 4 };

/* ---- a rank of the job --------------------------------------------------------------------------------------- */

static void keep_ticking(lsi_watchdog *w)
{
    for (int i = 0; i < LONG_SECONDS * 10; i++) {
        usleep(100000);
        lsi_watchdog_tick(w);
    }
}

static void hang(void)
{
    for (;;) {
        pause();
    }
}

static uint64_t device_progress(void *argument)
{
    return atomic_load((atomic_int *)argument);
}

static bool device_where(void *argument, char out[LSI_WATCHDOG_WHERE])
{
    snprintf(out, LSI_WATCHDOG_WHERE, "op %d", atomic_load((atomic_int *)argument));
    return false;
}

static void work_on_a_device(lsi_watchdog *w, bool for_ever)
{
    static atomic_int n_done;

    lsi_watchdog_observe(w, device_progress, device_where, &n_done);
    for (int i = 0; i < LONG_SECONDS * 10; i++) {
        usleep(100000);
        atomic_fetch_add(&n_done, 1);
    }
    if (!for_ever) {
        hang();
    }
    lsi_watchdog_forget(w, &n_done);
}

/* What the odd rank does, while all others wait for it. */
static void be_odd(const char *how, lsi_watchdog *w)
{
    lsi_watchdog_enter(w, "reading tea leaves");
    if (strcmp(how, "stops") == 0) {
        usleep(300000);
        raise(SIGSTOP);
    } else if (strcmp(how, "hangs") == 0) {
        hang();
    } else if (strcmp(how, "ticks") == 0) {
        keep_ticking(w);
    } else if (strcmp(how, "works") == 0) {
        work_on_a_device(w, true);
    } else if (strcmp(how, "works-and-hangs") == 0) {
        work_on_a_device(w, false);
    }
}

static ls_status run_rank(const char *how, lsi_job *job)
{
    int odd = job->world > ODD_RANK ? ODD_RANK : 0;
    lsi_watchdog *w;

    if (strcmp(how, "starts-often") == 0) {
        for (int i = 0; i < 20; i++) {
            LS_TRY(lsi_watchdog_start(job, 1, &w));
            lsi_watchdog_stop(&w);
        }
        return LS_OK;
    }
    LS_TRY(lsi_watchdog_start(job, 1, &w));
    lsi_watchdog_enter(w, "waiting for the odd one");
    if (job->rank == odd) {
        be_odd(how, w);
    }
    if (strcmp(how, "leaves-late") == 0) {
        if (job->rank == odd) {
            keep_ticking(w);
        }
    } else {
        LS_TRY(lsi_job_barrier(job));
    }
    if (strcmp(how, "stops-at-its-end") == 0 && job->rank == odd) {
        raise(SIGSTOP);
    }
    lsi_watchdog_stop(&w);
    return LS_OK;
}

static int rank_main(int argc, char **argv)
{
    const char *how = argv[1];
    lsi_job *job;

    if (lsi_job_open("test_watchdog", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    ls_status status = run_rank(how, job);
    if (status != LS_OK) {
        lsi_job_abort(job, status);
    }
    lsi_job_close(&job);
    return lsi_memory_live_blocks() == 0 ? 0 : 99;
}

/* ---- the test ------------------------------------------------------------------------------------------------ */

typedef struct ending {
    char output[16384];
    int exit_code;
} ending;

static void run_job(int world, const char *how, ending *out)
{
    char self[512], launch[64] = "", command[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(length > 0);
    self[length] = '\0';
    if (world > 1) {
        snprintf(launch, sizeof launch, "mpirun --bind-to none -np %d", world);
    }
    snprintf(command, sizeof command, "timeout -k 1 60 %s '%s' %s 2>&1", launch, self, how);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out->output, 1, sizeof out->output - 1, pipe);
    out->output[n] = '\0';
    int status = pclose(pipe);
    out->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int n_worlds(void)
{
#ifdef LOCKSTEP_HAVE_MPI
    return 3;
#else
    return 1;
#endif
}

static const int worlds[] = {1, 2, 3};

static void check_ends_well(const char *how)
{
    for (int i = 0; i < n_worlds(); i++) {
        ending e;

        run_job(worlds[i], how, &e);
        if (e.exit_code != 0 || e.output[0] != '\0') {
            fail_msg("%d processes, '%s': exit code %d:\n%s", worlds[i], how, e.exit_code, e.output);
        }
    }
}

/* One line says it, and it has these parts. */
static void check_fails(int world, const char *how, const char *one, const char *two)
{
    ending e;

    run_job(world, how, &e);
    const char *line = strstr(e.output, "test_watchdog: error");
    if (e.exit_code != ls_status_exit_code(LS_ERR_TIMEOUT) || line == NULL ||
        strstr(line + 1, "test_watchdog: error") != NULL || strstr(line, one) == NULL || strstr(line, two) == NULL) {
        fail_msg("%d processes, '%s': exit code %d:\n%s", world, how, e.exit_code, e.output);
    }
}

static void long_work_is_no_failure(void **state)
{
    (void)state;
    check_ends_well("ticks");
    check_ends_well("works");
    check_ends_well("leaves-late");
}

static void watchdogs_come_and_go(void **state)
{
    (void)state;
    check_ends_well("starts-often");
}

static void a_stopped_rank_is_named(void **state)
{
    (void)state;
    for (int i = 1; i < n_worlds(); i++) {
        check_fails(worlds[i], "stops", "rank 1 on ", "it was at reading tea leaves");
        check_fails(worlds[i], "stops-at-its-end", "rank 1 on ", "it was at ");
    }
}

static void a_rank_that_hangs_is_named(void **state)
{
    (void)state;
    check_fails(1, "hangs", "nothing has got on for ", "at reading tea leaves (comm.timeout is 1 s)");
    for (int i = 1; i < n_worlds(); i++) {
        check_fails(worlds[i], "works-and-hangs", "; rank 1 on ",
                    "at reading tea leaves, op 40; this rank is at waiting for the odd one, waiting for other ranks");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_work_is_no_failure),
        cmocka_unit_test(watchdogs_come_and_go),
        cmocka_unit_test(a_stopped_rank_is_named),
        cmocka_unit_test(a_rank_that_hangs_is_named),
    };

    return argc == 2 ? rank_main(argc, argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
