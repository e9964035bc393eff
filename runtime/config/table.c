#include "config/table.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ROW(section_, key_, kind_, def, lo, hi, choices_, domain_, when_, help_)                 \
    {.section = #section_, .key = #key_, .kind = kind_, .domain = LSI_DOMAIN_##domain_,          \
     .offset = offsetof(ls_config, section_.key_), .fallback = def, .lowest = lo, .highest = hi, \
     .choices = choices_, .when = when_, .help = help_},

/* Defaults and limits become text right here: one macro deeper, `true` would already be 1. */
static const lsi_key rows[LSI_KEY_COUNT] = {
#define LS_SECTION(section, help)
#define LS_END_SECTION(section)
#define LS_INT(section, key, def, lo, hi, domain, when, help) \
    ROW(section, key, LSI_KEY_INT, #def, #lo, #hi, NULL, domain, when, help)
#define LS_SIZE(section, key, def, lo, hi, domain, when, help) \
    ROW(section, key, LSI_KEY_SIZE, #def, #lo, #hi, NULL, domain, when, help)
#define LS_REAL(section, key, def, lo, hi, domain, when, help) \
    ROW(section, key, LSI_KEY_REAL, #def, #lo, #hi, NULL, domain, when, help)
#define LS_DURATION(section, key, def, lo, hi, domain, when, help) \
    ROW(section, key, LSI_KEY_DURATION, #def, #lo, #hi, NULL, domain, when, help)
#define LS_BOOL(section, key, def, domain, when, help) \
    ROW(section, key, LSI_KEY_BOOL, #def, NULL, NULL, NULL, domain, when, help)
#define LS_TEXT(section, key, def, domain, when, help) \
    ROW(section, key, LSI_KEY_TEXT, def, NULL, NULL, NULL, domain, when, help)
#define LS_PICK(section, key, def, choices, domain, when, help) \
    ROW(section, key, LSI_KEY_PICK, #def, NULL, NULL, choices, domain, when, help)
#define LS_LIST(section, key, def, lo, hi, domain, when, help) \
    ROW(section, key, LSI_KEY_LIST, def, #lo, #hi, NULL, domain, when, help)
#include <lockstep/config_keys.def>
#include <lockstep/config_keys_undef.h>
};
#undef ROW

typedef struct section_row {
    const char *name, *help;
} section_row;

static const section_row sections[] = {
#define LS_SECTION(section, help) {#section, help},
#define LS_END_SECTION(section)
#define LS_INT(section, key, def, lo, hi, domain, when, help)
#define LS_SIZE LS_INT
#define LS_REAL LS_INT
#define LS_DURATION LS_INT
#define LS_BOOL(section, key, def, domain, when, help)
#define LS_TEXT LS_BOOL
#define LS_PICK(section, key, def, choices, domain, when, help)
#define LS_LIST LS_INT
#include <lockstep/config_keys.def>
#include <lockstep/config_keys_undef.h>
};

enum { SECTION_COUNT = sizeof sections / sizeof *sections };

const lsi_key *lsi_table_key(int id)
{
    return &rows[id];
}

bool lsi_table_is_bits(const lsi_key *key)
{
    return key->domain == LSI_DOMAIN_BITS || key->domain == LSI_DOMAIN_FIXED;
}

static const struct {
    const char *word, *meaning;
} domains[LSI_DOMAIN_COUNT] = {
#define ROW(name, word, meaning) {word, meaning},
    LSI_DOMAINS(ROW)
#undef ROW
};

const char *lsi_table_domain_word(lsi_domain domain)
{
    return domains[domain].word;
}

const char *lsi_table_domain_meaning(lsi_domain domain)
{
    return domains[domain].meaning;
}

int lsi_table_find(const char *section, const char *key)
{
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        if (strcmp(rows[id].key, key) == 0 && strcmp(rows[id].section, section) == 0) {
            return id;
        }
    }
    return -1;
}

const char *lsi_table_section_help(const char *section)
{
    for (int i = 0; i < SECTION_COUNT; i++) {
        if (strcmp(sections[i].name, section) == 0) {
            return sections[i].help;
        }
    }
    return NULL;
}

bool lsi_table_has_section(const char *section)
{
    return lsi_table_section_help(section) != NULL;
}

void lsi_table_split(const char *choices, lsi_choices *out)
{
    char *rest = out->buffer, *name;

    snprintf(out->buffer, sizeof out->buffer, "%s", choices);
    out->n = 0;
    while (out->n < LSI_CHOICES_MAX && (name = strsep(&rest, "|")) != NULL) {
        out->name[out->n++] = name;
    }
}

bool lsi_table_listed(const char *choices, const char *word)
{
    lsi_choices list;

    lsi_table_split(choices, &list);
    for (int i = 0; i < list.n; i++) {
        if (strcmp(list.name[i], word) == 0) {
            return true;
        }
    }
    return false;
}

const char *lsi_table_lacking(const lsi_key *key)
{
    switch (key - rows) {
#ifndef LOCKSTEP_HAVE_CUDA
    case LSI_KEY_precision_compute:
        return "tf32";
    case LSI_KEY_device_backend:
        return "cuda";
#endif
#ifndef LOCKSTEP_HAVE_NCCL
    case LSI_KEY_comm_transport:
        return "nccl";
#endif
    default:
        return NULL;
    }
}

bool lsi_table_in_effect(const lsi_key *key, const ls_config *values)
{
    char section[32], name[32];
    int choices_at = 0;

    if (sscanf(key->when, "%31[^.].%31[^=]=%n", section, name, &choices_at) != 2 || choices_at == 0) {
        return true;
    }
    int id = lsi_table_find(section, name);
    if (id < 0) {
        return true;
    }
    const char *const *pick = (const void *)((const char *)values + rows[id].offset);
    return lsi_table_listed(key->when + choices_at, *pick);
}

static int same_key_elsewhere(const char *key)
{
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        if (strcmp(rows[id].key, key) == 0) {
            return id;
        }
    }
    return -1;
}

/* Nearest key of `section`, or of all sections when it is NULL. */
static int nearest_key(const char *section, const char *key)
{
    const char *names[LSI_KEY_COUNT];
    int ids[LSI_KEY_COUNT], n = 0;

    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        if (section == NULL || strcmp(rows[id].section, section) == 0) {
            names[n] = rows[id].key;
            ids[n++] = id;
        }
    }
    const char *nearest = lsi_text_nearest(key, names, n);
    for (int i = 0; i < n; i++) {
        if (names[i] == nearest) {
            return ids[i];
        }
    }
    return -1;
}

static const char *nearest_section(const char *section)
{
    const char *names[SECTION_COUNT];

    for (int i = 0; i < SECTION_COUNT; i++) {
        names[i] = sections[i].name;
    }
    return lsi_text_nearest(section, names, SECTION_COUNT);
}

/* The key most likely meant, -1 when none is near. A right name under a wrong section is a better guess than a similar
 * name under this one. */
static int likely_key(const char *section, const char *key)
{
    int id = same_key_elsewhere(key);

    if (id < 0) {
        id = nearest_key(section, key);
    }
    return id >= 0 ? id : nearest_key(NULL, key);
}

static void list_names(const char *section, char out[LSI_SUGGESTION_MAX])
{
    size_t length = (size_t)snprintf(out, LSI_SUGGESTION_MAX, "; there %s", section != NULL ? "are" : "are sections");
    const char *last = "";

    for (int id = 0; id < LSI_KEY_COUNT && length < LSI_SUGGESTION_MAX; id++) {
        const char *name = section != NULL ? rows[id].key : rows[id].section;

        if ((section == NULL || strcmp(rows[id].section, section) == 0) && strcmp(name, last) != 0) {
            length += (size_t)snprintf(out + length, LSI_SUGGESTION_MAX - length, "%s %s", *last != '\0' ? "," : "",
                                       name);
            last = name;
        }
    }
}

void lsi_table_suggest(const char *section, const char *key, char out[LSI_SUGGESTION_MAX])
{
    bool known = lsi_table_has_section(section);
    const char *near = known ? NULL : nearest_section(section);
    int id = known && key != NULL ? likely_key(section, key) : -1;

    if (near != NULL) {
        snprintf(out, LSI_SUGGESTION_MAX, "; did you mean '%s'?", near);
    } else if (id >= 0) {
        snprintf(out, LSI_SUGGESTION_MAX, "; did you mean '%s.%s'?", rows[id].section, rows[id].key);
    } else {
        list_names(known ? section : NULL, out);
    }
}
