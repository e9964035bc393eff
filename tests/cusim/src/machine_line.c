#include "machine_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cusim_line_fail(const cusim_line *line, const char *format, ...)
{
    va_list arguments;
    int n = snprintf(line->error, line->error_size, line->number > 0 ? "%s:%d: " : "%s: ", line->name, line->number);

    if (n >= 0 && (size_t)n < line->error_size) {
        va_start(arguments, format);
        vsnprintf(line->error + n, line->error_size - (size_t)n, format, arguments);
        va_end(arguments);
    }
    return -1;
}

int cusim_line_integer(const cusim_line *line, const char *what, const char *text, long low, long high, long *out)
{
    char *end;

    errno = 0;
    *out = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *out < low || *out > high) {
        return cusim_line_fail(line, "%s is '%s', not a whole number from %ld to %ld", what, text, low, high);
    }
    return 0;
}

static int read_memory(const cusim_line *line, const char *what, const char *text, size_t *out)
{
    char *end;
    int shift = 20;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end != text && *end != '\0' && end[1] == '\0') {
        shift = *end == 'k' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        end += shift != 0;
    }
    if (end == text || *end != '\0' || errno != 0 || text[0] == '-' || n > (~0ull >> 16 >> shift)) {
        return cusim_line_fail(line, "%s is '%s', not a size in MiB (or with k, M, G)", what, text);
    }
    *out = (size_t)(n << shift);
    return 0;
}

static int read_value(const cusim_line *line, const cusim_key *k, const char *text, void *record)
{
    void *field = (char *)record + k->offset;
    long n;

    switch (k->kind) {
    case INTEGER:
        if (cusim_line_integer(line, k->name, text, k->low, k->high, &n) != 0) {
            return -1;
        }
        *(int *)field = (int)n;
        return 0;
    case FLAG:
        if (cusim_line_integer(line, k->name, text, 0, 1, &n) != 0) {
            return -1;
        }
        *(bool *)field = n != 0;
        return 0;
    case ON_OFF:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0) {
            return cusim_line_fail(line, "%s is '%s', not on or off", k->name, text);
        }
        *(bool *)field = strcmp(text, "on") == 0;
        return 0;
    case TEXT:
        if (*text == '\0' || strlen(text) >= (size_t)k->high) {
            return cusim_line_fail(line, "%s must have 1 to %ld characters", k->name, k->high - 1);
        }
        memcpy(field, text, strlen(text) + 1);
        return 0;
    case MEMORY:
        return read_memory(line, k->name, text, field);
    case CAPABILITY: {
        char rest;
        int *cc = field;

        if (sscanf(text, "%1d.%1d%c", &cc[0], &cc[1], &rest) != 2 &&
            sscanf(text, "%2d.%1d%c", &cc[0], &cc[1], &rest) != 2) {
            return cusim_line_fail(line, "%s is '%s', not a compute capability such as 8.0", k->name, text);
        }
        return 0;
    }
    case BUS: {
        char rest;
        unsigned *pci = field;

        if (sscanf(text, "%8x:%2x:%2x.0%c", &pci[0], &pci[1], &pci[2], &rest) != 3) {
            return cusim_line_fail(line, "%s is '%s', not a PCI address such as 0000:07:00.0", k->name, text);
        }
        return 0;
    }
    case MODE: {
        static const struct {
            const char *name;
            cusim_compute_mode mode;
        } modes[] = {{"default", CUSIM_MODE_DEFAULT},
                     {"prohibited", CUSIM_MODE_PROHIBITED},
                     {"exclusive", CUSIM_MODE_EXCLUSIVE}};

        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
            if (strcmp(text, modes[i].name) == 0) {
                *(cusim_compute_mode *)field = modes[i].mode;
                return 0;
            }
        }
        return cusim_line_fail(line, "%s is '%s', not default, prohibited or exclusive", k->name, text);
    }
    }
    return -1;
}

char *cusim_line_word(char **rest)
{
    char *read = *rest + strspn(*rest, " \t\r"), *start = read, *write = read;
    bool quoted = false;

    if (*read == '\0' || *read == '#') {
        return NULL;
    }
    for (; *read != '\0' && (quoted || strchr(" \t\r", *read) == NULL); read++) {
        if (*read == '"') {
            quoted = !quoted;
        } else {
            *write++ = *read;
        }
    }
    *rest = *read != '\0' ? read + 1 : read;
    *write = '\0';
    return start;
}

int cusim_line_keys(const cusim_line *line, const char *item, char *rest, const cusim_key *keys, size_t n_keys,
                    void *record)
{
    char *word;

    while ((word = cusim_line_word(&rest)) != NULL) {
        char *value = strchr(word, '=');
        const cusim_key *k = NULL;

        if (value == NULL) {
            return cusim_line_fail(line, "'%s' is no key=value", word);
        }
        *value++ = '\0';
        for (size_t i = 0; i < n_keys; i++) {
            if (strcmp(word, keys[i].name) == 0) {
                k = &keys[i];
            }
        }
        if (k == NULL) {
            return cusim_line_fail(line, "%s has no key '%s'", item, word);
        }
        if (read_value(line, k, value, record) != 0) {
            return -1;
        }
    }
    return 0;
}
