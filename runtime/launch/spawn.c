#include "launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"

/* In the child. Writes errno into `report` when the program cannot be started. */
static _Noreturn void become(char *const *argv, const lsi_spawn_options *options, pid_t parent, int report)
{
    int input = options->without_input ? open("/dev/null", O_RDONLY) : STDIN_FILENO;
    struct sigaction fresh = {.sa_handler = SIG_DFL};
    int error = 0;

    sigemptyset(&fresh.sa_mask);
    setpgid(0, 0);
    sigaction(SIGPIPE, &fresh, NULL);
    if (options->signal_at_our_end != 0) {
        prctl(PR_SET_PDEATHSIG, options->signal_at_our_end);
        if (getppid() != parent) { /* it came too late */
            _exit(127);
        }
    }
    if (input < 0 || (input != STDIN_FILENO && dup2(input, STDIN_FILENO) < 0) ||
        (options->out >= 0 && dup2(options->out, STDOUT_FILENO) < 0) ||
        (options->err >= 0 && dup2(options->err, STDERR_FILENO) < 0) ||
        (options->mask != NULL && sigprocmask(SIG_SETMASK, options->mask, NULL) != 0)) {
        error = errno;
    } else {
        execvp(argv[0], argv);
        error = errno;
    }
    if (write(report, &error, sizeof error) < 0) {
        _exit(126);
    }
    _exit(127);
}

ls_status lsi_spawn(char *const *argv, const lsi_spawn_options *options, pid_t *out)
{
    int report[2], error = 0;
    pid_t parent = getpid();
    ssize_t n;

    LS_REQUIRE(pipe2(report, O_CLOEXEC) == 0, LS_ERR_INTERNAL, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        become(argv, options, parent, report[1]);
    }
    int fork_error = errno;
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return LS_FAIL(LS_ERR_MEMORY, "cannot start a process for '%.200s': %s", argv[0], strerror(fork_error));
    }
    do {
        n = read(report[0], &error, sizeof error);
    } while (n < 0 && errno == EINTR);
    close(report[0]);
    if (n == sizeof error) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return LS_FAIL(LS_ERR_USAGE, "cannot start '%.200s': %s", argv[0], strerror(error));
    }
    *out = pid;
    return LS_OK;
}

int lsi_spawn_exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

bool lsi_spawn_catches(pid_t pid, int number)
{
    char path[64], caught[32];

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    return lsi_proc_find(path, "SigCgt", caught, sizeof caught) &&
           (strtoull(caught, NULL, 16) >> (number - 1) & 1) != 0;
}
