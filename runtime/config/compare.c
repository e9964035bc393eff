/* Two configurations of one run, before and after it was resumed. */
#include "config/config.h"

#include <inttypes.h>

#include "config/state.h"
#include "config/value.h"

/* Lanes that were left to the default are the number it gave. */
static void append_value(const lsi_config *config, lsi_key_id id, lsi_text *out)
{
    if (id == LSI_KEY_train_lanes) {
        lsi_text_append(out, "%" PRId64, lsi_config_lanes(&config->values));
    } else {
        lsi_value_append(&config->values, lsi_table_key(id), out);
    }
}

static bool same(const lsi_config *a, const lsi_config *b, lsi_key_id id)
{
    if (id == LSI_KEY_train_lanes) {
        return lsi_config_lanes(&a->values) == lsi_config_lanes(&b->values);
    }
    return lsi_value_hash(&a->values, lsi_table_key(id)) == lsi_value_hash(&b->values, lsi_table_key(id));
}

static void append_change(const lsi_config *then, const lsi_config *now, lsi_key_id id, lsi_text *out)
{
    const lsi_key *key = lsi_table_key(id);

    lsi_text_append(out, "%s%s.%s was ", out->length > 0 ? "; " : "", key->section, key->key);
    append_value(then, id, out);
    lsi_text_append(out, ", now ");
    append_value(now, id, out);
}

ls_status lsi_config_compare(const lsi_config *then, const lsi_config *now, lsi_text *refused, lsi_text *changed)
{
    lsi_text_append_bytes(refused, "", 0);
    lsi_text_append_bytes(changed, "", 0);
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        if (!lsi_table_is_bits(key) || same(then, now, (lsi_key_id)id) || !lsi_table_in_effect(key, &then->values) ||
            !lsi_table_in_effect(key, &now->values)) {
            continue;
        }
        append_change(then, now, (lsi_key_id)id, key->domain == LSI_DOMAIN_FIXED ? refused : changed);
    }
    LS_TRY(lsi_text_status(refused));
    return lsi_text_status(changed);
}
