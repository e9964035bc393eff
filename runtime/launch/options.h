/* The command line of launch: its own options, then the program and the program's arguments. */
#ifndef LSI_LAUNCH_OPTIONS_H
#define LSI_LAUNCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/words.h"

/* Options; help and parsing come from here.
 *   FLAG(member, names, help)
 *   COUNT(member, names, value, lowest, highest, help)
 *   SECONDS(member, names, value, lowest, highest, help)
 *   TEXT(member, names, value, help)                       given at most once
 *   MPI(names, value, words, itself, help)                 handed to mpirun: its next `words` arguments, behind the
 *                                                          option itself or alone
 * `names` are separated by blanks; the first is the one in help, the others are what mpirun knows too. */
#define LSI_LAUNCH_OPTIONS(FLAG, COUNT, SECONDS, TEXT, MPI)                                                            \
    COUNT(n_ranks, "-n -np --np", "N", 1, 100000, "ranks to start; with fewer healthy GPUs, a restart takes fewer")    \
    TEXT(hostfile, "--hostfile -hostfile --machinefile -machinefile", "FILE", "hosts, one a line: name slots=N")       \
    TEXT(host, "--host -host -H", "NAME:N,...", "hosts and how many ranks each takes")                                 \
    MPI("-x", "NAME[=VALUE]", 1, true, "an environment variable for the ranks on other hosts, too")                    \
    MPI("--mca -mca", "KEY VALUE", 2, true, "a parameter of Open MPI")                                                 \
    MPI("--mpi-arg", "WORD", 1, false, "any other word for mpirun, --mpi-arg=--report-bindings")                       \
    COUNT(max_restarts, "--max-restarts", "N", 0, 1000000, "start again from the last checkpoint, N times at most")    \
    SECONDS(restart_delay, "--restart-delay", "TIME", 0, 86400, "wait before a start again (1s)")                      \
    TEXT(log_dir, "--log-dir", "DIR", "folder for the output of each rank (log.dir/launch)")                           \
    FLAG(dry_run, "--dry-run", "show the choice, the mpirun command and the environment; start nothing")               \
    FLAG(help, "--help -h", "this text")                                                                               \
    FLAG(version, "--version -V", "version, commit, compiler")

typedef struct lsi_launch_options {
    int64_t n_ranks; /* 0: not given */
    int64_t max_restarts;
    double restart_delay;                  /* seconds */
    const char *hostfile, *host, *log_dir; /* borrowed; NULL: not given */
    bool dry_run, help, version;
    lsi_words mpi;        /* for mpirun, as they are */
    char *const *command; /* borrowed: the program and its arguments */
    int n_command;        /* 0 with help or version */
} lsi_launch_options;

/* argv[0] is launch itself. What stands behind `--`, or from the first word that is no option, is the program's. */
LS_MUST_USE ls_status lsi_launch_options_parse(int argc, char *const *argv, lsi_launch_options *out);
void lsi_launch_options_free(lsi_launch_options *options);
void lsi_launch_options_help(lsi_text *out);

#endif
