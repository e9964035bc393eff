/* The folder that holds a run's checkpoints: step-00000100/, step-00000200/, and `best`, a link to one of them. */
#ifndef LSI_CHECKPOINT_FOLDER_H
#define LSI_CHECKPOINT_FOLDER_H

#include <stdint.h>

#include "base/text.h"
#include <lockstep/status.h>

/* "step-00000100"; longer numbers take more digits. */
void lsi_folder_name(int64_t step, char out[32]);
/* The step of such a name, -1 of any other. */
int64_t lsi_folder_step(const char *name);

/* Steps of the checkpoints in `dir`, whole or torn, newest first: names alone, nothing is opened. *steps is counted
 * memory; none (NULL, 0) when the folder does not exist. ERR_CHECKPOINT when it cannot be read. */
LS_MUST_USE ls_status lsi_folder_list(const char *dir, int64_t **steps, int *n);
/* "DIR/step-00000100", new counted string. */
LS_MUST_USE ls_status lsi_folder_path(const char *dir, int64_t step, char **out);

#endif
