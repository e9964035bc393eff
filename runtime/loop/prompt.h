/* Between token ids and what stands for them on the command line and in the output: bytes of a text, or numbers. */
#ifndef LSI_LOOP_PROMPT_H
#define LSI_LOOP_PROMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* bytes: every byte of `text` is a token; else `text` is a list of ids, separated by blanks or commas. *token is
 * counted memory, *n at least 1. ERR_USAGE names what is no id below `vocab`. */
LS_MUST_USE ls_status lsi_prompt_read(const char *text, bool bytes, int64_t vocab, int32_t **token, int64_t *n);
/* Appends a token, the `position`-th of the output (from 0): its byte, or its id with a blank in front of all but the
 * first. */
void lsi_prompt_append(lsi_text *out, bool bytes, int64_t position, int32_t token);

#endif
