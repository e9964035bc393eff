#include "config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "config/state.h"
#include "config/value.h"

enum { COMMENT_COLUMN = 40 };

static void append_origin(const char *origin, lsi_text *out)
{
    for (; *origin != '\0'; origin++) {
        char c = (unsigned char)*origin < ' ' ? '?' : *origin;

        lsi_text_append_bytes(out, &c, 1);
    }
}

static void pad(size_t from, lsi_text *out)
{
    int used = (int)(out->length - from);

    lsi_text_append(out, "%*s; ", used < COMMENT_COLUMN ? COMMENT_COLUMN - used : 1, "");
}

/* A key that nobody set and that has no effect is shown as a comment: fed back, it must not count as set. */
static void print_key(const lsi_config *config, int id, lsi_text *out)
{
    const lsi_key *key = lsi_table_key(id);
    bool set = config->origin[id] != NULL, idle = !set && !lsi_table_in_effect(key, &config->values);
    size_t start = out->length;

    lsi_text_append(out, "%s%s = ", idle ? "; " : "", key->key);
    lsi_value_append(&config->values, key, out);
    pad(start, out);
    if (set) {
        append_origin(config->origin[id], out);
    } else {
        lsi_text_append(out, "default%s%s", idle ? ", needs " : "", idle ? key->when : "");
    }
    lsi_text_append(out, "\n");
}

void lsi_config_print(const lsi_config *config, lsi_text *out)
{
    const char *section = "";

    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        if (strcmp(key->section, section) != 0) {
            lsi_text_append(out, "%s[%s]\n", id > 0 ? "\n" : "", key->section);
            section = key->section;
        }
        print_key(config, id, out);
    }
}

void lsi_config_hash(const lsi_config *config, const char *content, char out[17])
{
    uint64_t hash = 0;

    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        if (lsi_table_is_bits(key)) {
            uint64_t chain[] = {hash, lsi_hash_text(key->section), lsi_hash_text(key->key),
                                lsi_value_hash(&config->values, key)};

            hash = lsi_hash64(chain, sizeof chain);
        }
    }
    if (content != NULL) {
        uint64_t chain[] = {hash, lsi_hash_text(content)};

        hash = lsi_hash64(chain, sizeof chain);
    }
    snprintf(out, 17, "%016" PRIx64, hash);
}

void lsi_config_unused(const lsi_config *config, lsi_text *out)
{
    bool any = false;

    lsi_text_append_bytes(out, "", 0);      /* empty, not absent */
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        if (config->origin[id] != NULL && !lsi_table_in_effect(key, &config->values)) {
            lsi_text_append(out, "%s%s.%s (needs %s)", any ? ", " : "without effect: ", key->section, key->key,
                            key->when);
            any = true;
        }
    }
}
