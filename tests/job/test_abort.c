/* RUN: */
/* A process that aborts before, or without, MPI. The whole job's end is tested through the trainer. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "job/job.h"

/* Runs `child`, which does not return, in a process; what it printed on standard error, and its exit code. */
static int run(void (*child)(void), char *printed, size_t room)
{
    int ends[2], status;
    size_t n = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        child();
    }
    close(ends[1]);
    while (n < room - 1 && (got = read(ends[0], printed + n, room - 1 - n)) > 0) {
        n += (size_t)got;
    }
    printed[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void abort_with_a_message(void)
{
    lsi_log_open("trainer", 0, 1, "here");
    lsi_job_abort(NULL, LS_FAIL(LS_ERR_DATA, "token 70000 at offset 12"));
}

static void abort_without_a_message(void)
{
    lsi_log_open("trainer", 2, 4, "here");
    lsi_job_abort(NULL, LS_ERR_TIMEOUT);
}

static void *abort_here(void *argument)
{
    lsi_job_abort(NULL, LS_FAIL(LS_ERR_NUMERIC, "thread %s", (const char *)argument));
}

static void abort_from_several_threads(void)
{
    static char names[8][2] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    pthread_t thread;

    lsi_log_open("trainer", 0, 1, "here");
    for (int i = 0; i < 8; i++) {
        if (lsi_thread_start(&thread, "test", abort_here, names[i]) != LS_OK) {
            _exit(99);
        }
    }
    for (;;) {
        pause();
    }
}

static void the_exit_code_and_one_line_say_why(void **state)
{
    (void)state;
    char printed[4096];

    assert_int_equal(run(abort_with_a_message, printed, sizeof printed), 3);
    assert_string_equal(printed, "trainer: error: token 70000 at offset 12\n");
    assert_int_equal(run(abort_without_a_message, printed, sizeof printed), 7);
    assert_string_equal(printed, "trainer: error [rank 2/4 here]: timed out\n");
}

static void several_threads_print_once(void **state)
{
    (void)state;
    char printed[4096];

    for (int i = 0; i < 20; i++) {
        assert_int_equal(run(abort_from_several_threads, printed, sizeof printed), 8);
        assert_int_equal(strncmp(printed, "trainer: error: thread ", 23), 0);
        assert_ptr_equal(strchr(printed, '\n'), printed + strlen(printed) - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_and_one_line_say_why),
        cmocka_unit_test(several_threads_print_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
