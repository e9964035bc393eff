/* --generate: continues a prompt with the weights of a checkpoint. */
#ifndef LSI_LOOP_GENERATE_H
#define LSI_LOOP_GENERATE_H

#include "loop/sampling.h"

typedef struct lsi_generate_options {
    const char *checkpoint;  /* folder */
    const char *const *sets; /* on top of its configuration */
    int n_sets;
    int n_threads;      /* where device.threads = 0 */
    const char *prompt; /* bytes where the model was trained on text, else a list of ids */
    int64_t n_tokens;   /* to generate */
    lsi_sampling sampling;
} lsi_generate_options;

/* Not collective, needs no job. Writes the prompt and its continuation to standard output, each token as it comes, and
 * an end of line, always. The model sees the last model.context tokens. No data is read.
 * Errors: ERR_CONFIG when the model is no gpt, ERR_USAGE by the prompt, ERR_CHECKPOINT, ERR_OUTPUT. */
LS_MUST_USE ls_status lsi_generate(const lsi_generate_options *options);

#endif
