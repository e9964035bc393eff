/* What the program would run with: the program itself is asked, by --print-config, so that its own defaults, the file,
 * the environment and --set count as they will. */
#ifndef LSI_LAUNCH_ASK_H
#define LSI_LAUNCH_ASK_H

#include "base/text.h"
#include "config/config.h"
#include "launch/signals.h"

/* command: the program and n - 1 arguments. A wrong configuration is a failure here, before any rank is started; the
 * program has printed why. A request to stop ends the program that is asked. */
LS_MUST_USE ls_status lsi_ask_config(char *const *command, int n, lsi_signals *signals, lsi_config **out);

/* Runs argv to its end: *answer gets its standard output, *code its exit code, -1 when it has not ended after so many
 * seconds or a request to stop came; it is killed then. */
LS_MUST_USE ls_status lsi_ask_run(char *const *argv, double patience_seconds, lsi_signals *signals, lsi_text *answer,
                                  int *code);

#endif
