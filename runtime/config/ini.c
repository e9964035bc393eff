#include "config/ini.h"

#include <stdbool.h>
#include <string.h>

typedef struct reader {
    const char *name;
    int number;             /* of the current line */
    const char *section;    /* NULL before the first */
    lsi_ini_fn fn;
    void *user;
} reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_comment(char c)
{
    return c == ';' || c == '#';
}

static char *skip_blanks(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    return text;
}

/* Ends `text` before its trailing blanks. `end` is its NUL. */
static void cut_blanks(char *text, char *end)
{
    while (end > text && is_blank(end[-1])) {
        end--;
    }
    *end = '\0';
}

/* What stands behind the mark, without the one blank that follows it. */
static char *comment_text(char *mark)
{
    char *text = mark + 1;

    if (is_blank(*text)) {
        text++;
    }
    cut_blanks(text, text + strlen(text));
    return text;
}

static ls_status read_section(reader *r, char *text)
{
    char *end = strchr(text, ']');

    LS_REQUIRE(end != NULL, LS_ERR_CONFIG, "%s:%d: section without closing ']'", r->name, r->number);
    char *rest = skip_blanks(end + 1);
    LS_REQUIRE(*rest == '\0' || is_comment(*rest), LS_ERR_CONFIG, "%s:%d: unexpected text behind the section: '%.60s'",
               r->name, r->number, rest);

    char *section = skip_blanks(text + 1);
    cut_blanks(section, end);
    LS_REQUIRE(*section != '\0', LS_ERR_CONFIG, "%s:%d: section without a name", r->name, r->number);

    r->section = section;
    lsi_ini_line line = {.section = section, .comment = "", .number = r->number};
    return r->fn(r->user, &line);
}

char *lsi_ini_unquote(char *text)
{
    char *to = text, *from = text;

    while (*from != '\0' && (from[0] != '"' || from[1] == '"')) {
        from += from[0] == '"';
        *to++ = *from++;
    }
    if (*from == '\0') {
        return NULL;
    }
    *to = '\0';
    return from + 1;
}

/* From the character behind the opening quote. */
static ls_status read_quoted(reader *r, lsi_ini_line *line, char *text)
{
    char *behind = lsi_ini_unquote(text);

    LS_REQUIRE(behind != NULL, LS_ERR_CONFIG, "%s:%d: value of '%.60s' lacks the closing quote", r->name, r->number,
               line->key);
    line->value = text;
    char *rest = skip_blanks(behind);
    if (*rest != '\0') {
        LS_REQUIRE(is_comment(*rest) && is_blank(rest[-1]), LS_ERR_CONFIG,
                   "%s:%d: unexpected text behind the quoted value of '%.60s': '%.60s'", r->name, r->number, line->key,
                   rest);
        line->comment = comment_text(rest);
    }
    return LS_OK;
}

static void read_bare(lsi_ini_line *line, char *text)
{
    char *start = skip_blanks(text), *end = start;

    while (*end != '\0' && !(is_comment(*end) && is_blank(end[-1]))) {
        end++;
    }
    if (*end != '\0') {
        line->comment = comment_text(end);
    }
    cut_blanks(start, end);
    line->value = start;
}

static ls_status read_key(reader *r, char *text)
{
    char *equals = strchr(text, '=');

    LS_REQUIRE(equals != NULL, LS_ERR_CONFIG, "%s:%d: expected 'key = value' or '[section]', found '%.60s'", r->name,
               r->number, text);
    cut_blanks(text, equals);
    LS_REQUIRE(*text != '\0', LS_ERR_CONFIG, "%s:%d: no key before '='", r->name, r->number);
    LS_REQUIRE(r->section != NULL, LS_ERR_CONFIG, "%s:%d: key '%.60s' stands before the first [section]", r->name,
               r->number, text);

    lsi_ini_line line = {.section = r->section, .key = text, .comment = "", .number = r->number};
    char *value = skip_blanks(equals + 1);
    if (*value == '"') {
        LS_TRY(read_quoted(r, &line, value + 1));
    } else {
        read_bare(&line, equals + 1);
    }
    return r->fn(r->user, &line);
}

static ls_status read_line(reader *r, char *text)
{
    text = skip_blanks(text);
    cut_blanks(text, text + strlen(text));
    if (*text == '\0' || is_comment(*text)) {
        return LS_OK;
    }
    return *text == '[' ? read_section(r, text) : read_key(r, text);
}

static ls_status refuse_nul(const char *name, const char *text, size_t size)
{
    const char *nul = memchr(text, '\0', size);
    int number = 1;

    if (nul == NULL) {
        return LS_OK;
    }
    for (const char *at = text; at < nul; at++) {
        number += *at == '\n';
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s:%d: NUL byte: this is no UTF-8 text", name, number);
}

ls_status lsi_ini_read(const char *name, char *text, size_t size, lsi_ini_fn fn, void *user)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    reader r = {.name = name, .fn = fn, .user = user};

    LS_TRY(refuse_nul(name, text, size));
    if (strncmp(text, byte_order_mark, 3) == 0) {
        text += 3;
    }
    while (text != NULL) {
        char *end = strchr(text, '\n'), *next = NULL;

        if (end != NULL) {
            *end = '\0';
            next = end + 1;
        }
        r.number++;
        LS_TRY(read_line(&r, text));
        text = next;
    }
    return LS_OK;
}
