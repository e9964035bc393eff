#include "launch/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 65536 };

static ls_status hand_over(lsi_lines *lines, char *line, size_t length, bool complete)
{
    char end = line[length];

    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\0') {
            line[i] = ' ';
        }
    }
    line[length] = '\0';
    ls_status status = lines->take(lines->user, line, length, complete);
    line[length] = end;
    return status;
}

/* Hands over what can be, keeps what cannot. */
static ls_status cut(lsi_lines *lines, bool at_end)
{
    char *data = lines->rest.data;
    size_t done = 0, length = lines->rest.length;

    while (done < length) {
        size_t left = length - done, room = left < lines->most ? left : lines->most;
        char *end = memchr(data + done, '\n', room + (room < left ? 1 : 0));

        if (end != NULL) {
            size_t n = (size_t)(end - (data + done));
            LS_TRY(hand_over(lines, data + done, n > 0 && end[-1] == '\r' ? n - 1 : n, true));
            done += n + 1;
        } else if (left > lines->most || at_end) {
            LS_TRY(hand_over(lines, data + done, room, false));
            done += room;
        } else {
            break;
        }
    }
    memmove(data, data + done, length - done + 1);
    lines->rest.length = length - done;
    return LS_OK;
}

ls_status lsi_lines_close(lsi_lines *lines)
{
    ls_status status = LS_OK;

    if (lines->fd >= 0) {
        close(lines->fd);
        lines->fd = -1;
        status = lines->rest.length > 0 ? cut(lines, true) : LS_OK;
        lsi_text_free(&lines->rest);
    }
    return status;
}

ls_status lsi_lines_read(lsi_lines *lines)
{
    char piece[PIECE];
    ssize_t n = read(lines->fd, piece, sizeof piece);

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return LS_OK;
    }
    if (n <= 0) {
        return lsi_lines_close(lines);
    }
    lsi_text_append_bytes(&lines->rest, piece, (size_t)n);
    LS_TRY(lsi_text_status(&lines->rest));
    return cut(lines, false);
}
