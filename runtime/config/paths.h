/* Keys that hold paths: which folder they resolve against, and the paths that follow from other keys. */
#ifndef LSI_CONFIG_PATHS_H
#define LSI_CONFIG_PATHS_H

#include "config/state.h"

/* Makes all paths absolute (those of the file against its folder, others against the current one) and fills in those
 * left empty: labels, log.dir, log.metrics, checkpoint.dir. `file` is the configuration's path or NULL;
 * log.dir is called after the file or program `named`, "default" where it is NULL. */
LS_MUST_USE ls_status lsi_paths_resolve(lsi_config *config, const char *file, const char *named);

#endif
