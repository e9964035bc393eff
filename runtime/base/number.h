/* Strict readers of numbers: the whole text must be consumed, in the C locale. They return NULL on success, else a
 * short reason that fits behind the text ("not a whole number", "use a point: 0.0003"), valid until the next call. */
#ifndef LSI_BASE_NUMBER_H
#define LSI_BASE_NUMBER_H

#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

const char *lsi_number_int(const char *text, int64_t *out);         /* decimal, or 2^n */
const char *lsi_number_real(const char *text, double *out);         /* finite; or 2^n */
const char *lsi_number_size(const char *text, int64_t *out);        /* bytes; k, M, G, T are powers of 1024 */
const char *lsi_number_duration(const char *text, double *out);     /* seconds; ms, s, m, h */
const char *lsi_number_bool(const char *text, bool *out);           /* true false yes no on off 1 0 */

/* Appends what the readers read back to the same value: %.17g shortened, 25M, 10m. */
void lsi_number_append_real(lsi_text *text, double value);
void lsi_number_append_size(lsi_text *text, int64_t bytes);
void lsi_number_append_duration(lsi_text *text, double seconds);
/* For people: "1.5 GiB", "12.3 s", "4 min 05 s". */
void lsi_number_append_bytes_human(lsi_text *text, double bytes);
void lsi_number_append_seconds_human(lsi_text *text, double seconds);

#endif
