/* The keeper: the process between mpirun and one rank of the program. It runs the program, frames what that says, and
 * tells what it ended with, so that launch knows which rank failed first, on any host, without a shared disk. It hands
 * signals on when the program is ready for them, and ends the program when mpirun is gone. */
#ifndef LSI_LAUNCH_RANK_H
#define LSI_LAUNCH_RANK_H

#include <lockstep/status.h>

/* The first argument that makes launch a keeper; the program and its arguments stand behind it. */
#define LSI_RANK_OPTION "--as-rank"

/* Runs the program to its end; *code is what the keeper ends with: the program's code, or 0 where that is 75. mpirun
 * ends the ranks that are still leaving once one has a code other than 0, and all of them are leaving after a stop. */
LS_MUST_USE ls_status lsi_rank_run(char *const *command, int n, int *code);

#endif
