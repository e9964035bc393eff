/* A job from its first start to its end, with starts again in between. */
#ifndef LSI_LAUNCH_LAUNCH_H
#define LSI_LAUNCH_LAUNCH_H

#include "launch/options.h"

/* *code is what launch ends with: the code of the rank that failed first. Everything a person needs has been printed,
 * failures of launch itself aside. Once in a process. */
LS_MUST_USE ls_status lsi_launch_run(const lsi_launch_options *options, int *code);

#endif
