/* RUN: timeout=60 */
/* Requests to stop, in processes of their own: what a signal does is over with the process. */
#include "support/test.h"

#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/job.h"
#include "job/stop.h"
#ifdef LOCKSTEP_HAVE_MPI
#include <mpi.h>
#endif

enum { REACHED = 42, WRONG = 99 };

/* ---- running a child --------------------------------------------------------------------------------------------- */

static int ready[2], words[2]; /* a child writes a byte when it is where it should be; reads what we say */

static void say_ready(void)
{
    if (write(ready[1], "", 1) != 1) {
        _exit(WRONG);
    }
}

static void await_ready(void)
{
    char byte;

    assert_int_equal(read(ready[0], &byte, 1), 1);
}

static pid_t start(void (*child)(void))
{
    assert_int_equal(pipe(ready) + pipe(words), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30); /* a child that hangs ends in SIGALRM, which is none of the results below */
        child();
        _exit(REACHED);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ready[0]);
    close(ready[1]);
    close(words[0]);
    close(words[1]);
    return status;
}

static void check_exits(pid_t pid, int code)
{
    int status = status_of(pid);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void check_killed(pid_t pid, int number)
{
    int status = status_of(pid);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void require(int condition)
{
    if (!condition) {
        _exit(WRONG);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void request_once(void)
{
    lsi_stop_watch();
    lsi_stop_watch();
    require(lsi_stop_requested() == LSI_STOP_NONE);
    raise(SIGUSR2);
    require(lsi_stop_requested() == LSI_STOP_SIGNAL + SIGUSR2);
    require(strcmp(lsi_stop_text(lsi_stop_requested()), "SIGUSR2") == 0);
}

static void the_first_signal_is_a_request(void **state)
{
    (void)state;
    check_exits(start(request_once), REACHED);
}

static void request_by_the_program(void)
{
    lsi_stop_request(LSI_STOP_TIME);
    lsi_stop_request(LSI_STOP_PROGRAM);
    require(lsi_stop_requested() == LSI_STOP_TIME);
    require(strcmp(lsi_stop_text(LSI_STOP_TIME), "train.max_time") == 0);
    require(strcmp(lsi_stop_text(LSI_STOP_PROGRAM), "the program") == 0);
    lsi_stop_watch();
    raise(SIGTERM); /* the first of its kind: a request, whatever the program has asked for */
    require(lsi_stop_requested() == LSI_STOP_SIGNAL + SIGTERM);
    lsi_stop_request(LSI_STOP_PROGRAM);
    require(lsi_stop_requested() == LSI_STOP_SIGNAL + SIGTERM);
}

static void the_strongest_reason_wins(void **state)
{
    (void)state;
    check_exits(start(request_by_the_program), REACHED);
}

static void read_through_a_request(void)
{
    char byte;

    lsi_stop_watch();
    say_ready();
    require(read(words[0], &byte, 1) == 1); /* not EINTR */
    require(lsi_stop_requested() == LSI_STOP_SIGNAL + SIGUSR1);
}

static void a_request_interrupts_nothing(void **state)
{
    (void)state;
    pid_t pid = start(read_through_a_request);
    await_ready();
    usleep(100000);
    kill(pid, SIGUSR1);
    usleep(100000);
    assert_int_equal(write(words[1], "x", 1), 1);
    check_exits(pid, REACHED);
}

/* ---- the second one ---------------------------------------------------------------------------------------------- */

static void wait_on_a_futex(void)
{
    sem_t never;

    lsi_stop_watch();
    require(sem_init(&never, 0, 0) == 0);
    say_ready();
    for (;;) {
        sem_wait(&never);
    }
}

static void wait_in_mpi(void)
{
    lsi_stop_watch();
#ifdef LOCKSTEP_HAVE_MPI
    int argc = 1;
    char name[] = "test", *arguments[] = {name, NULL}, **argv = arguments;
    lsi_job *job;
    char byte;

    require(lsi_job_open("test", &argc, &argv, &job) == LS_OK);
    say_ready();
    MPI_Recv(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE); /* nobody sends it */
#else
    say_ready();
    for (volatile int i = 0;; i = i + 1) {
    }
#endif
}

static void the_second_signal_leaves_at_once(void **state)
{
    static void (*const waits[])(void) = {wait_on_a_futex, wait_in_mpi};

    (void)state;
    for (int i = 0; i < 2; i++) {
        pid_t pid = start(waits[i]);
        int status;

        await_ready();
        kill(pid, SIGUSR1);
        usleep(100000);
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* the first one alone ends nothing */
        kill(pid, SIGTERM);
        check_exits(pid, 128 + SIGTERM);
    }
}

/* ---- others' signals --------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t n_handled;

static void count(int number)
{
    (void)number;
    n_handled = n_handled + 1;
}

static void keep_what_was_there(void)
{
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, count);
    lsi_stop_watch();
    raise(SIGUSR1);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGUSR2);
    require(n_handled == 2);
    require(lsi_stop_requested() == LSI_STOP_NONE);
    lsi_stop_unwatch();
    raise(SIGUSR1);
    raise(SIGUSR2);
    require(n_handled == 3);
}

static void what_others_do_with_a_signal_stays(void **state)
{
    (void)state;
    check_exits(start(keep_what_was_there), REACHED);
}

static void stop_watching(void)
{
    lsi_stop_watch();
    lsi_stop_unwatch();
    raise(SIGUSR1);
}

static void stop_watching_late(void)
{
    lsi_stop_watch();
    raise(SIGTERM);
    lsi_stop_unwatch();
}

static void unwatched_signals_do_what_they_always_do(void **state)
{
    (void)state;
    check_killed(start(stop_watching), SIGUSR1);
    check_killed(start(stop_watching_late), SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_signal_is_a_request),
        cmocka_unit_test(the_strongest_reason_wins),
        cmocka_unit_test(a_request_interrupts_nothing),
        cmocka_unit_test(the_second_signal_leaves_at_once),
        cmocka_unit_test(what_others_do_with_a_signal_stays),
        cmocka_unit_test(unwatched_signals_do_what_they_always_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
