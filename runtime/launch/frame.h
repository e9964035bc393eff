/* What a rank's keeper (rank.h) tells launch, through mpirun's forwarding of standard error: one line a frame. A mark
 * that no text of people begins with tells frames from mpirun's own messages. */
#ifndef LSI_LAUNCH_FRAME_H
#define LSI_LAUNCH_FRAME_H

#include <stdbool.h>

#include "base/text.h"

typedef enum lsi_frame_kind {
    LSI_FRAME_STARTED = 's',  /* text: host pid */
    LSI_FRAME_OUT = 'o',      /* text: a line of standard output */
    LSI_FRAME_OUT_PART = 'p', /* the beginning of one that is longer than a frame, or has no end */
    LSI_FRAME_ERROR = 'e',    /* likewise of standard error */
    LSI_FRAME_ERROR_PART = 'f',
    LSI_FRAME_ENDED = 'x', /* text: exit code, then the signal it was asked to end by before (0: none) */
} lsi_frame_kind;

/* Of a frame with its mark and end; longer texts are cut into several. mpirun hands on at most 4,096 bytes at a time.
 */
enum { LSI_FRAME_MAX = 1024 };

/* Appends one frame; `bytes` contain no end of line and n is at most LSI_FRAME_MAX - 24. */
void lsi_frame_append(lsi_text *out, lsi_frame_kind kind, int rank, const char *bytes, size_t n);

typedef struct lsi_frame {
    lsi_frame_kind kind;
    int rank;
    const char *text; /* borrowed from the line */
} lsi_frame;

/* Takes a line without its end apart. False: it is no frame. */
bool lsi_frame_read(const char *line, lsi_frame *out);

#endif
