/* What the ranks say: shown with the rank in front, kept in a file for each rank, the last lines remembered (of mpirun,
 * the first). */
#ifndef LSI_LAUNCH_LOGS_H
#define LSI_LAUNCH_LOGS_H

#include <stdbool.h>

#include "base/text.h"

enum { LSI_LOGS_LAST = 12 }; /* lines remembered of each source */

typedef struct lsi_log_source {
    int fd;                    /* of its file; -1: not open */
    lsi_text part[2];          /* of a line whose end has not come: standard output, error */
    char *last[LSI_LOGS_LAST]; /* ring; counted copies */
    bool first_only;           /* the first lines are remembered instead of the last */
    int n_lines;               /* so far in this attempt */
    bool said_error;           /* one of its lines is an error message of the runtime */
} lsi_log_source;

typedef struct lsi_logs {
    char *folder;
    lsi_text heading;      /* of the attempt, as a line */
    bool prefixes;         /* there is more than one rank */
    bool failed;           /* a file could not be written; told once */
    lsi_log_source mpirun; /* mpirun's own messages: kept, not shown */
    lsi_log_source *ranks;
    int n_ranks; /* that have spoken, or lie below one that has */
} lsi_logs;

/* Makes the folder. Files in it are continued, not replaced. */
LS_MUST_USE ls_status lsi_logs_open(const char *folder, lsi_logs *out);
/* What was remembered belongs to another attempt; files go on with a line that says `heading`. */
LS_MUST_USE ls_status lsi_logs_begin(lsi_logs *logs, const char *heading, bool prefixes);
/* rank -1: mpirun. */
LS_MUST_USE ls_status lsi_logs_take(lsi_logs *logs, int rank, bool is_error, const char *text, bool complete);
/* Hands over lines whose end never came. */
LS_MUST_USE ls_status lsi_logs_end(lsi_logs *logs);
void lsi_logs_close(lsi_logs *logs);

const lsi_log_source *lsi_logs_source(const lsi_logs *logs, int rank);
/* Appends the remembered lines, each behind `indent`. */
void lsi_logs_last(const lsi_log_source *source, const char *indent, lsi_text *out);

#endif
