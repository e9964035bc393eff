/* Starting another program. */
#ifndef LSI_LAUNCH_SPAWN_H
#define LSI_LAUNCH_SPAWN_H

#include <lockstep/status.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct lsi_spawn_options {
    int out, err;          /* descriptors that become its standard output and error; -1: ours */
    bool without_input;    /* its standard input is empty */
    int signal_at_our_end; /* what it gets when this thread ends, however that happens; 0: nothing */
    const sigset_t *mask;  /* signals it starts with blocked; NULL: those blocked here */
} lsi_spawn_options;

/* Looks for argv[0] as a shell does. The program has a process group of its own, so that signals of the terminal reach
 * it through us only. That it cannot be started is a failure here, with the system's reason. */
LS_MUST_USE ls_status lsi_spawn(char *const *argv, const lsi_spawn_options *options, pid_t *out);
/* The exit code of a status that waitpid has given: 128 + n when signal n ended the process. */
int lsi_spawn_exit_code(int wait_status);
/* Whether the process has a handler for the signal. */
bool lsi_spawn_catches(pid_t pid, int number);

#endif
