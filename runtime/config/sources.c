#include "config/sources.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/ini.h"

static ls_status refuse_section(const char *where, const char *section)
{
    char suggestion[LSI_SUGGESTION_MAX];

    lsi_table_suggest(section, NULL, suggestion);
    return LS_FAIL(LS_ERR_CONFIG, "%s: unknown section '%.60s'%s", where, section, suggestion);
}

static ls_status refuse_key(const char *where, const char *section, const char *key)
{
    char suggestion[LSI_SUGGESTION_MAX];

    lsi_table_suggest(section, key, suggestion);
    return LS_FAIL(LS_ERR_CONFIG, "%s: unknown key '%.60s.%.60s'%s", where, section, key, suggestion);
}

typedef struct text_source {
    lsi_config *config;
    bool printed;
    int line_of[LSI_KEY_COUNT];     /* 0: not yet set here */
} text_source;

static ls_status take_line(void *user, const lsi_ini_line *line)
{
    text_source *source = user;
    lsi_config *config = source->config;
    char where[512];

    snprintf(where, sizeof where, "%s:%d", config->name, line->number);
    if (!lsi_table_has_section(line->section)) {
        return refuse_section(where, line->section);
    }
    if (line->key == NULL) {
        return LS_OK;
    }

    int id = lsi_table_find(line->section, line->key);
    if (id < 0) {
        return refuse_key(where, line->section, line->key);
    }
    LS_REQUIRE(source->line_of[id] == 0, LS_ERR_CONFIG, "%s: duplicate key '%s.%s', already set in line %d", where,
               line->section, line->key, source->line_of[id]);
    source->line_of[id] = line->number;

    const char *origin = where;
    if (source->printed && line->comment[0] != '\0') {
        origin = strcmp(line->comment, "default") == 0 ? NULL : line->comment;
    }
    LS_TRY(lsi_state_set(config, id, line->value, origin, where));
    config->from_file[id] = true;
    return LS_OK;
}

ls_status lsi_sources_text(lsi_config *config, char *text, size_t size, bool printed)
{
    text_source source = {.config = config, .printed = printed};

    return lsi_ini_read(config->name, text, size, take_line, &source);
}

/* A value that no file gave. Quotes mean what they mean in a file: some shells and launchers hand them on. */
static ls_status set_outside(lsi_config *config, int id, const char *value, const char *origin, const char *where)
{
    char *copy;

    LS_TRY(lsi_memory_strdup(value, &copy));
    const char *behind = copy[0] == '"' ? lsi_ini_unquote(copy + 1) : "";
    ls_status status =
        behind != NULL && *behind == '\0'
            ? lsi_state_set(config, id, copy[0] == '"' ? copy + 1 : copy, origin, where)
            : LS_FAIL(LS_ERR_CONFIG, "%s: %s", where,
                      behind == NULL ? "lacks the closing quote" : "unexpected text behind the closing quote");
    lsi_memory_free(copy);
    if (status == LS_OK) {
        config->from_file[id] = false;
    }
    return status;
}

/* `word` in lower case: both spellings of a variable mean the same key. */
static void lower(const char *word, size_t length, char *out)
{
    for (size_t i = 0; i < length; i++) {
        out[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
    }
    out[length] = '\0';
}

/* The section `name` begins with, NULL when none; `name` is section_key. */
static const char *leading_section(const char *name)
{
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const char *section = lsi_table_key(id)->section;
        size_t length = strlen(section);

        if (strncmp(name, section, length) == 0 && name[length] == '_') {
            return section;
        }
    }
    return NULL;
}

static ls_status take_variable(lsi_config *config, const char *variable, size_t length, const char *value)
{
    static const char prefix[] = "LOCKSTEP_";
    char name[128], where[128];

    if (length >= sizeof name || strncmp(variable, prefix, strlen(prefix)) != 0) {
        return LS_OK;
    }
    lower(variable + strlen(prefix), length - strlen(prefix), name);
    const char *section = leading_section(name);
    if (section == NULL) {
        return LS_OK;
    }

    const char *key = name + strlen(section) + 1;
    snprintf(where, sizeof where, "%.*s", (int)length, variable);
    int id = lsi_table_find(section, key);
    if (id < 0) {
        return refuse_key(where, section, key);
    }
    return set_outside(config, id, value, where, where);
}

ls_status lsi_sources_environment(lsi_config *config)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        const char *equals = strchr(*variable, '=');

        if (equals != NULL) {
            LS_TRY(take_variable(config, *variable, (size_t)(equals - *variable), equals + 1));
        }
    }
    return LS_OK;
}

/* Cuts up `copy` of the argument. */
static ls_status take_set(lsi_config *config, const char *argument, char *copy)
{
    char where[160];
    char *equals = strchr(copy, '='), *dot = strchr(copy, '.');

    snprintf(where, sizeof where, "--set %.100s%s", argument, strlen(argument) > 100 ? "..." : "");
    LS_REQUIRE(equals != NULL && dot != NULL && dot < equals, LS_ERR_CONFIG, "%s: expected section.key=value", where);
    *equals = *dot = '\0';

    const char *section = lsi_text_trim(copy), *key = lsi_text_trim(dot + 1);
    int id = lsi_table_find(section, key);
    if (id < 0) {
        return lsi_table_has_section(section) ? refuse_key(where, section, key) : refuse_section(where, section);
    }
    return set_outside(config, id, lsi_text_trim(equals + 1), "--set", where);
}

ls_status lsi_sources_sets(lsi_config *config, const char *const *sets, int n)
{
    for (int i = 0; i < n; i++) {
        char *copy;

        LS_TRY(lsi_memory_strdup(sets[i], &copy));
        ls_status status = take_set(config, sets[i], copy);
        lsi_memory_free(copy);
        LS_TRY(status);
    }
    return LS_OK;
}
