/* Messages for people: one write(2) per line, so that lines of several ranks never mix. Progress and information go to
 * standard output (rank 0 only), warnings and errors to standard error with `[rank r/w host]`. */
#ifndef LSI_BASE_LOG_H
#define LSI_BASE_LOG_H

#include <stdbool.h>

typedef enum lsi_log_level { LSI_LOG_ERROR, LSI_LOG_WARN, LSI_LOG_INFO, LSI_LOG_DEBUG } lsi_log_level;

/* Before any thread logs. `program` and `host` are copied. World 1 drops the rank from the prefix. */
void lsi_log_open(const char *program, int rank, int world, const char *host);
void lsi_log_set_level(lsi_log_level level);

/* `PROGRAM: error [rank r/w host]: message`; control characters in the message are shown as ?. */
void lsi_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lsi_log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Rank 0 only; without prefix. */
void lsi_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lsi_log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rank 0 only. On a terminal the line is overwritten by the next message; elsewhere it is a line of its own. */
void lsi_log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
