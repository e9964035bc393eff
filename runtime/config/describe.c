#include "config/config.h"

#include <string.h>

#include "config/table.h"

static const char *kind_name(lsi_key_kind kind)
{
    switch (kind) {
    case LSI_KEY_INT:
        return "whole number";
    case LSI_KEY_SIZE:
        return "size";
    case LSI_KEY_REAL:
        return "number";
    case LSI_KEY_DURATION:
        return "duration";
    case LSI_KEY_BOOL:
        return "true or false";
    case LSI_KEY_TEXT:
        return "text";
    case LSI_KEY_PICK:
        return "one of";
    case LSI_KEY_LIST:
        return "list of whole numbers";
    }
    return "";
}

static void describe_choices(const lsi_key *key, lsi_text *out)
{
    lsi_choices choices;

    lsi_table_split(key->choices, &choices);
    for (int i = 0; i < choices.n; i++) {
        lsi_text_append(out, "%s %s", i > 0 ? "," : "", choices.name[i]);
    }
    if (lsi_table_lacking(key) != NULL) {
        lsi_table_split(lsi_table_lacking(key), &choices);
        for (int i = 0; i < choices.n; i++) {
            lsi_text_append(out, "%s%s", i > 0 ? ", " : " (not in this build: ", choices.name[i]);
        }
        lsi_text_append(out, ")");
    }
}

static void describe_key(const lsi_key *key, lsi_text *out)
{
    lsi_text_append(out, "  %s =%s%s\n      %s\n      %s", key->key, key->fallback[0] != '\0' ? " " : "", key->fallback,
                    key->help, kind_name(key->kind));
    if (key->choices != NULL) {
        describe_choices(key, out);
    }
    if (key->lowest != NULL) {
        lsi_text_append(out, ", %s to %s", key->lowest, key->highest);
    }
    lsi_text_append(out, "; %s", lsi_table_domain_word(key->domain));
    if (key->when[0] != '\0') {
        lsi_text_append(out, "; only with %s", key->when);
    }
    lsi_text_append(out, "\n");
}

void lsi_config_describe(lsi_text *out)
{
    const char *section = "";

    lsi_text_append(out, "Keys of a configuration file, as key = default. Sizes take k, M, G (1024), durations s, m,\n"
                         "h; 2^n is a number. Environment: LOCKSTEP_SECTION_KEY. Command line: --set\n"
                         "section.key=value. Each key is one of:\n");
    for (int i = 0; i < LSI_DOMAIN_COUNT; i++) {
        lsi_text_append(out, "  %-12s %s\n", lsi_table_domain_word((lsi_domain)i),
                        lsi_table_domain_meaning((lsi_domain)i));
    }
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        if (strcmp(key->section, section) != 0) {
            section = key->section;
            lsi_text_append(out, "\n[%s] %s\n", section, lsi_table_section_help(section));
        }
        describe_key(key, out);
    }
}
