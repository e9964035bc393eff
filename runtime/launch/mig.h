/* What a keeper does on a host whose GPUs are in MIG mode: its rank gets an instance of its own. */
#ifndef LSI_LAUNCH_MIG_H
#define LSI_LAUNCH_MIG_H

#include <lockstep/status.h>

#include "launch/signals.h"

/* Sets CUDA_VISIBLE_DEVICES of this process to the instance of this rank, by the program's own device.* keys; leaves it
 * as it is on hosts where CUDA shows no instance. All keepers of a host come to the same choice and take one each, by
 * their place among the ranks of the host. command: the program and n - 1 arguments. ERR_DEVICE: there are too few. */
LS_MUST_USE ls_status lsi_mig_choose(char *const *command, int n, lsi_signals *signals);

#endif
