/* Which ends of a job are worth a start again. */
#ifndef LSI_LAUNCH_POLICY_H
#define LSI_LAUNCH_POLICY_H

#include <stdbool.h>

#include "base/text.h"

/* `code`: what the process that failed first ended with (128 + n: signal n). True for what can go well the next time
 * on the same input: a lost device, a lost peer, a standstill, a process that was killed. Steps are the same bits every
 * time, so what the user, the data or the numbers caused would come back. */
bool lsi_launch_policy_restarts(int code);
/* Whether a signal has ended a process with this code: 128 + n. */
bool lsi_launch_policy_is_signal(int code);
/* Appends the paragraph of --help about exit codes and starts again. */
void lsi_launch_policy_help(lsi_text *out);
/* "exit code 5, device error", "killed by signal 9 (Killed)". */
void lsi_launch_policy_describe(int code, lsi_text *out);

#endif
