/* The command line of gpus. Options that say which GPUs will do are keys of [device], with their types, ranges,
 * defaults and help: --min-free 20G is device.min_free = 20G. */
#ifndef LSI_APP_GPUS_OPTIONS_H
#define LSI_APP_GPUS_OPTIONS_H

#include "base/text.h"
#include <lockstep/status.h>
#include <stdbool.h>

enum { GPUS_COUNT_MAX = 64 };

typedef enum gpus_what { GPUS_LIST, GPUS_COUNT, GPUS_EXPLAIN, GPUS_WATCH, GPUS_HELP, GPUS_VERSION } gpus_what;

typedef struct gpus_options {
    gpus_what what;
    int count;
    bool index, json;
    double watch_seconds;
    char **sets; /* "device.key=value", counted */
    int n_sets;
} gpus_options;

/* ERR_USAGE names the argument, and the nearest option. */
LS_MUST_USE ls_status gpus_options_parse(int argc, char *const *argv, gpus_options *out);
void gpus_options_free(gpus_options *options);
void gpus_options_help(lsi_text *out);

#endif
