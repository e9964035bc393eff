/* The command that starts the ranks. */
#ifndef LSI_LAUNCH_COMMAND_H
#define LSI_LAUNCH_COMMAND_H

#include "launch/options.h"
#include "launch/pick.h"

typedef struct lsi_launch_command {
    lsi_words words; /* all of it */
    int n_before;    /* of them before the keeper and the program: mpirun and its options; 0: no mpirun */
} lsi_launch_command;

/* `resume`: append what makes the program go on from its own newest checkpoint. ERR_CONFIG: several ranks, and a build
 * without MPI. */
LS_MUST_USE ls_status lsi_command_build(const lsi_launch_options *options, const lsi_pick *pick, bool resume,
                                        lsi_launch_command *out);
/* Whether the words for mpirun say themselves where each rank goes. */
bool lsi_command_places(const lsi_launch_options *options);
/* What counts the GPUs of one of the hosts (launch/hosts.h), as ranks would be started there. */
LS_MUST_USE ls_status lsi_command_build_count(const lsi_launch_options *options, const char *host,
                                              lsi_launch_command *out);
void lsi_command_destroy(lsi_launch_command *command);
/* Appends what --dry-run shows: as comments why, and the command for a shell. */
void lsi_command_show(const lsi_launch_command *command, const lsi_launch_options *options, const lsi_pick *pick,
                      const char *log_folder, lsi_text *out);

#endif
