/* JSON as the files of a checkpoint need it: written into a text, numbers read back to the same bits. */
#ifndef LSI_CHECKPOINT_JSON_TEXT_H
#define LSI_CHECKPOINT_JSON_TEXT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/text.h"
#include <lockstep/status.h>

/* Appends "text" with quotes and escapes. ERR_CHECKPOINT when it is no UTF-8: `what` names it. */
LS_MUST_USE ls_status lsi_json_text_string(lsi_text *out, const char *what, const char *text);
/* %.17g and %.9g with a point in every locale; "nan", "inf", "-inf" as strings. A NaN keeps no sign and payload. */
void lsi_json_text_double(lsi_text *out, double value);
void lsi_json_text_float(lsi_text *out, float value);
/* What they wrote, read back. False for anything else. */
bool lsi_json_text_real(const json_t *value, double *out);

#endif
