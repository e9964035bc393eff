#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Nothing built here is near this size; a text that is has lost its end somewhere. */
static const size_t limit_bytes = (size_t)64 << 20;

/* What a text shows whose first append failed; room 0 says that it is not ours to free. */
static char nothing[1];

/* Makes room for `more` bytes behind the text and a NUL; false after a failure. */
static bool reserve(lsi_text *text, size_t more)
{
    if (text->data == NULL) {
        text->data = nothing;
    }
    if (text->status != LS_OK) {
        return false;
    }
    if (more >= limit_bytes - text->length) {
        text->status = LS_FAIL(LS_ERR_INTERNAL, "a text grew beyond %zu bytes", limit_bytes);
        return false;
    }
    size_t need = text->length + more + 1;
    if (need <= text->room) {
        return true;
    }
    size_t room = text->room < 64 ? 64 : text->room * 2;
    if (room < need) {
        room = need;
    }
    void *data = text->room > 0 ? text->data : NULL;
    text->status = lsi_memory_resize(&data, room, "a text");
    if (text->status != LS_OK) {
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void lsi_text_append(lsi_text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    lsi_text_append_v(text, format, arguments);
    va_end(arguments);
}

void lsi_text_append_v(lsi_text *text, const char *format, va_list arguments)
{
    va_list again;

    if (!reserve(text, 0)) {
        return;
    }
    va_copy(again, arguments);
    int length = vsnprintf(text->data + text->length, text->room - text->length, format, arguments);
    if (length < 0) {
        text->data[text->length] = '\0';
        text->status = LS_FAIL(LS_ERR_INTERNAL, "cannot format '%s'", format);
    } else if ((size_t)length < text->room - text->length) {
        text->length += (size_t)length;
    } else {
        text->data[text->length] = '\0';
        if (reserve(text, (size_t)length)) {
            text->length += (size_t)vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        }
    }
    va_end(again);
}

void lsi_text_append_bytes(lsi_text *text, const char *bytes, size_t n)
{
    if (!reserve(text, n)) {
        return;
    }
    if (n > 0) {
        memcpy(text->data + text->length, bytes, n);
    }
    text->length += n;
    text->data[text->length] = '\0';
}

void lsi_text_clear(lsi_text *text)
{
    text->length = 0;
    text->status = LS_OK;
    if (text->room > 0) {
        text->data[0] = '\0';
    }
}

void lsi_text_free(lsi_text *text)
{
    if (text->room > 0) {
        lsi_memory_free(text->data);
    }
    *text = (lsi_text){0};
}

ls_status lsi_text_status(const lsi_text *text)
{
    return text->status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

char *lsi_text_trim(char *text)
{
    char *end = text + strlen(text);

    while (is_blank(*text)) {
        text++;
    }
    while (end > text && is_blank(end[-1])) {
        end--;
    }
    *end = '\0';
    return text;
}

enum { NEAREST_MAX = 64 };  /* longer names are not compared */

/* Levenshtein distance of two words shorter than NEAREST_MAX. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t row[NEAREST_MAX];

    for (size_t j = 0; j <= n_b; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n_b];
}

const char *lsi_text_nearest(const char *word, const char *const *names, int n)
{
    size_t length = strlen(word), allowed = length / 3 < 2 ? 2 : length / 3;
    const char *nearest = NULL;

    if (length >= NEAREST_MAX) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length >= NEAREST_MAX) {
            continue;
        }
        size_t d = distance(word, length, names[i], name_length);
        /* A name that shares no character with a short word is not near. */
        if (d <= allowed && d < (length > name_length ? length : name_length)) {
            nearest = names[i];
            if (d == 0) {
                break;
            }
            allowed = d - 1;
        }
    }
    return nearest;
}
