#include "launch/frame.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char mark = '\x1e'; /* ASCII's record separator */

void lsi_frame_append(lsi_text *out, lsi_frame_kind kind, int rank, const char *bytes, size_t n)
{
    lsi_text_append(out, "%c%c%d ", mark, (char)kind, rank);
    lsi_text_append_bytes(out, bytes, n);
    lsi_text_append_bytes(out, "\n", 1);
}

bool lsi_frame_read(const char *line, lsi_frame *out)
{
    static const char kinds[] = {LSI_FRAME_STARTED, LSI_FRAME_OUT,        LSI_FRAME_OUT_PART,
                                 LSI_FRAME_ERROR,   LSI_FRAME_ERROR_PART, LSI_FRAME_ENDED};
    char *end;

    if (line[0] != mark || line[1] == '\0' || memchr(kinds, line[1], sizeof kinds) == NULL || line[2] < '0' ||
        line[2] > '9') {
        return false;
    }
    long rank = strtol(line + 2, &end, 10);
    if (*end != ' ' || rank > INT_MAX) {
        return false;
    }
    *out = (lsi_frame){(lsi_frame_kind)line[1], (int)rank, end + 1};
    return true;
}
