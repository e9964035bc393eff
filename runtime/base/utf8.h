/* Where a UTF-8 text may be cut. */
#ifndef LSI_BASE_UTF8_H
#define LSI_BASE_UTF8_H

#include <stddef.h>

/* The largest length <= room that does not end inside a character of `text`; text[0 .. room] must be readable. */
static inline size_t lsi_utf8_cut(const char *text, size_t room)
{
    while (room > 0 && ((unsigned char)text[room] & 0xC0) == 0x80) {
        room--;
    }
    return room;
}

#endif
