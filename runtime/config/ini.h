/* Reader of INI text that knows its lines. Own code, because Debian's inih gives no line numbers to its callers, cuts
 * values at 200 bytes and merges indented keys. */
#ifndef LSI_CONFIG_INI_H
#define LSI_CONFIG_INI_H

#include <lockstep/status.h>
#include <stddef.h>

/* One `[section]` (key NULL) or `key = value ; comment`. Texts are valid during the call only. */
typedef struct lsi_ini_line {
    const char *section, *key, *value;
    const char *comment;    /* behind the value; "" when there is none */
    int number;             /* from 1 */
} lsi_ini_line;

typedef ls_status (*lsi_ini_fn)(void *user, const lsi_ini_line *line);

/* Calls `fn` for every section and key in order, and ends with its first failure. `text` is cut up in place and needs a
 * NUL at text[size]; `name` stands for it in messages, `name:line: ...`.
 *
 * Accepts a UTF-8 byte order mark, CRLF, blanks around everything, comments from `;` or `#` (at the start of a line, or
 * behind white space), and values in double quotes, which keep blanks and comment marks; a doubled quote in them stands
 * for one. */
LS_MUST_USE ls_status lsi_ini_read(const char *name, char *text, size_t size, lsi_ini_fn fn, void *user);

/* From behind an opening quote: unquotes in place (a doubled quote is one). Returns what stands behind the closing
 * quote, NULL when there is none. */
char *lsi_ini_unquote(char *text);

#endif
