/* A growing string with a limit. After the first failure (memory, limit) appends do nothing and lsi_text_status says
 * why. */
#ifndef LSI_BASE_TEXT_H
#define LSI_BASE_TEXT_H

#include <lockstep/status.h>
#include <stdarg.h>
#include <stddef.h>

typedef struct lsi_text {
    char *data;             /* NUL-terminated, never NULL after the first append */
    size_t length, room;
    ls_status status;
} lsi_text;

/* Starts from {0}. */
void lsi_text_append(lsi_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lsi_text_append_v(lsi_text *text, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
void lsi_text_append_bytes(lsi_text *text, const char *bytes, size_t n);
void lsi_text_clear(lsi_text *text);    /* keeps the memory */
void lsi_text_free(lsi_text *text);
LS_MUST_USE ls_status lsi_text_status(const lsi_text *text);

/* The text without blanks and tabs at its ends; cut in place. */
char *lsi_text_trim(char *text);

/* Nearest of n names to `word` by edit distance, NULL when none is near (distance over max(2, length / 3)). */
const char *lsi_text_nearest(const char *word, const char *const *names, int n);

#endif
