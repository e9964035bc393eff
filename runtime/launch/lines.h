/* Cuts what comes through a pipe into lines. */
#ifndef LSI_LAUNCH_LINES_H
#define LSI_LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* `complete` false: the line goes on, it is longer than `most` bytes or its end never came. NUL-terminated; bytes that
 * are 0 have become blanks. */
typedef ls_status lsi_lines_take(void *user, const char *line, size_t length, bool complete);

typedef struct lsi_lines {
    int fd;      /* not blocking; -1 when it has ended. Closed by lsi_lines_read or lsi_lines_close */
    size_t most; /* bytes of a line handed over at once */
    lsi_lines_take *take;
    void *user;
    lsi_text rest; /* of a line whose end has not come */
} lsi_lines;

/* Reads what is there, one piece of at most 64 KiB; at the end of input hands over the rest and closes. */
LS_MUST_USE ls_status lsi_lines_read(lsi_lines *lines);
/* Hands over the rest and closes. Idempotent. */
LS_MUST_USE ls_status lsi_lines_close(lsi_lines *lines);

#endif
