/* How many GPUs of this host a job would get now. */
#ifndef LSI_LAUNCH_COUNT_GPUS_H
#define LSI_LAUNCH_COUNT_GPUS_H

#include <lockstep/config.h>
#include <lockstep/status.h>
#include <stdbool.h>

#include "launch/signals.h"

/* Whether a job with this configuration uses GPUs where there are any. */
bool lsi_count_gpus_wanted(const ls_config *config);

/* *out: as many of the GPUs that device.select and the filters beside it leave as can work together, at most `most`; 0
 * when the job runs on the cpu backend. Which ones they are the ranks decide themselves, by the same rules.
 *
 * Where there is none, waits as device.wait says. Where there are fewer than `before` (those of a start that failed; 0
 * else) and time can change that, waits a little: a killed process gives its memory back only after a moment. A request
 * to stop ends both waits. ERR_DEVICE: there is none, each GPU's reason in the message. */
LS_MUST_USE ls_status lsi_count_gpus(const ls_config *config, int most, int before, lsi_signals *signals, int *out);

#endif
