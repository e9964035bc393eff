/* metrics.jsonl: one JSON object per line, "event" first; a line is one write. Floats as %.9g, doubles as %.17g,
 * non-finite numbers as strings. */
#ifndef LSI_METRICS_JSONL_H
#define LSI_METRICS_JSONL_H

#include "base/text.h"
#include <lockstep/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct lsi_jsonl lsi_jsonl;

/* Opens for appending; a regular file is locked for the life of `out`. Fails on one that another run is writing to, and
 * on a pipe that nobody reads. */
LS_MUST_USE ls_status lsi_jsonl_open(const char *path, lsi_jsonl **out);
/* Takes that lock for whoever has the file `path` open as fd, until it is closed. */
LS_MUST_USE ls_status lsi_jsonl_lock(const char *path, int fd);
void lsi_jsonl_close(lsi_jsonl **jsonl);
/* Bytes of a regular file so far; -1 of anything else, and of NULL. */
int64_t lsi_jsonl_length(const lsi_jsonl *jsonl);
/* The descriptor, -1 of NULL. */
int lsi_jsonl_fd(const lsi_jsonl *jsonl);

/* One line: begin, fields, end. end writes it; ERR_OUTPUT names the path. */
void lsi_jsonl_begin(lsi_jsonl *jsonl, const char *event);
void lsi_jsonl_int(lsi_jsonl *jsonl, const char *name, int64_t value);
void lsi_jsonl_float(lsi_jsonl *jsonl, const char *name, float value);
void lsi_jsonl_double(lsi_jsonl *jsonl, const char *name, double value);
void lsi_jsonl_bool(lsi_jsonl *jsonl, const char *name, bool value);
void lsi_jsonl_string(lsi_jsonl *jsonl, const char *name, const char *value);
void lsi_jsonl_strings(lsi_jsonl *jsonl, const char *name, const char *const *values, int n);
void lsi_jsonl_ints(lsi_jsonl *jsonl, const char *name, const int64_t *values, int n);
void lsi_jsonl_doubles(lsi_jsonl *jsonl, const char *name, const double *values, int n);
/* An object: keys[i] has values[i]. */
void lsi_jsonl_named_ints(lsi_jsonl *jsonl, const char *name, const char *const *keys, const int64_t *values, int n);
LS_MUST_USE ls_status lsi_jsonl_end(lsi_jsonl *jsonl);

#endif
