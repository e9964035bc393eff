#include "checkpoint/compare_lines.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"

/* One file, at the next line of the event. */
typedef struct cursor {
    const char *path, *event;
    lsi_mapping file;
    size_t at;      /* behind the current line */
    int line;       /* its number */
    json_t *object; /* NULL: there is no further one */
    int64_t step;
} cursor;

static ls_status parse(cursor *c, const char *text, size_t length)
{
    int64_t before = c->step;
    json_error_t error = {0};

    c->object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    LS_REQUIRE(c->object != NULL, LS_ERR_DATA, "%s:%d: is not a line of metrics: %s", c->path, c->line, error.text);
    const json_t *step = json_object_get(c->object, "step");
    LS_REQUIRE(json_is_integer(step), LS_ERR_DATA, "%s:%d: a line of '%s' without its step", c->path, c->line,
               c->event);
    c->step = json_integer_value(step);
    LS_REQUIRE(c->step > before, LS_ERR_DATA, "%s:%d: '%s' of step %lld after that of step %lld", c->path, c->line,
               c->event, (long long)c->step, (long long)before);
    return LS_OK;
}

/* {"event":"NAME", begins every line. */
static bool is_event(const cursor *c, const char *text, size_t length)
{
    static const char opening[] = "{\"event\":\"";
    size_t n = sizeof opening - 1, m = strlen(c->event);

    return length > n + m && memcmp(text, opening, n) == 0 && memcmp(text + n, c->event, m) == 0 && text[n + m] == '"';
}

static ls_status advance(cursor *c)
{
    json_decref(c->object);
    c->object = NULL;
    while (c->at < c->file.size) {
        const char *text = (const char *)c->file.data + c->at;
        const char *end = memchr(text, '\n', c->file.size - c->at);

        if (end == NULL) {
            break;
        }
        c->at += (size_t)(end - text) + 1;
        c->line++;
        if (is_event(c, text, (size_t)(end - text))) {
            return parse(c, text, (size_t)(end - text));
        }
    }
    return LS_OK;
}

/* ---- two lines --------------------------------------------------------------------------------------------------- */

/* What depends on how a run was executed. */
static bool is_left_out(const char *key)
{
    static const char *const ends[] = {"_seconds", "_per_second", "_bytes", "mfu"};
    size_t n = strlen(key);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t m = strlen(ends[i]);

        if (n >= m && strcmp(key + n - m, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void append_value(const json_t *value, lsi_text *out)
{
    char *text = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;

    lsi_text_append(out, "%s", text != NULL ? text : "nothing");
    free(text);
}

/* True when they differ at this key; says how. */
static bool differs(const char *key, const json_t *a, const json_t *b, lsi_text *out)
{
    if (is_left_out(key) || (a != NULL && b != NULL && json_equal(a, b))) {
        return false;
    }
    lsi_text_append(out, "%s ", key);
    append_value(a, out);
    lsi_text_append(out, " and ");
    append_value(b, out);
    return true;
}

/* The first field that differs, in the order of the lines. */
static bool compare_objects(json_t *a, json_t *b, lsi_text *out)
{
    const char *key;
    json_t *value;

    json_object_foreach(a, key, value)
    {
        if (differs(key, value, json_object_get(b, key), out)) {
            return true;
        }
    }
    json_object_foreach(b, key, value)
    {
        if (json_object_get(a, key) == NULL && differs(key, NULL, value, out)) {
            return true;
        }
    }
    return false;
}

/* ---- two files -----------------------------------------------------------------------------------------------------
 */

static ls_status only(cursor *c, int which, lsi_compare_lines *out)
{
    if (out->n_only[which]++ == 0) {
        out->first_only[which] = c->step;
    }
    return advance(c);
}

static ls_status walk(cursor c[2], lsi_text *difference, lsi_compare_lines *out)
{
    LS_TRY(advance(&c[0]));
    LS_TRY(advance(&c[1]));
    while (c[0].object != NULL || c[1].object != NULL) {
        if (c[1].object == NULL || (c[0].object != NULL && c[0].step < c[1].step)) {
            LS_TRY(only(&c[0], 0, out));
        } else if (c[0].object == NULL || c[1].step < c[0].step) {
            LS_TRY(only(&c[1], 1, out));
        } else if (compare_objects(c[0].object, c[1].object, difference)) {
            out->differ = true;
            out->step = c[0].step;
            return lsi_text_status(difference);
        } else {
            out->n_equal++;
            out->last_equal = c[0].step;
            LS_TRY(advance(&c[0]));
            LS_TRY(advance(&c[1]));
        }
    }
    return LS_OK;
}

ls_status lsi_compare_lines_of(const char *event, const char *const path[2], lsi_text *difference,
                               lsi_compare_lines *out)
{
    cursor c[2] = {{.path = path[0], .event = event, .step = -1}, {.path = path[1], .event = event, .step = -1}};
    ls_status status = lsi_file_map(path[0], LS_ERR_DATA, &c[0].file);

    *out = (lsi_compare_lines){0};
    if (status == LS_OK) {
        status = lsi_file_map(path[1], LS_ERR_DATA, &c[1].file);
    }
    if (status == LS_OK) {
        status = walk(c, difference, out);
    }
    for (int i = 0; i < 2; i++) {
        json_decref(c[i].object);
        lsi_file_unmap(&c[i].file);
    }
    return status;
}
