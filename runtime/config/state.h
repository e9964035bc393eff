/* What a resolved configuration remembers; for the files of this folder. */
#ifndef LSI_CONFIG_STATE_H
#define LSI_CONFIG_STATE_H

#include "config/config.h"
#include "config/table.h"

struct lsi_config {
    ls_config values;
    char *name;                     /* the file, for messages about keys that nobody set */
    char *origin[LSI_KEY_COUNT];    /* "file.ini:12", "LOCKSTEP_TRAIN_STEPS", "--set"; NULL: default */
    bool from_file[LSI_KEY_COUNT];  /* paths resolve against the file's folder */
};

/* Sets the value and its origin; `where` begins the message of a failure. */
LS_MUST_USE ls_status lsi_state_set(lsi_config *config, int id, const char *text, const char *origin,
                                    const char *where);
/* Of a key; the name of the configuration for a default. */
const char *lsi_state_origin(const lsi_config *config, int id);

#endif
