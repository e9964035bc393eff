#include "config/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"

/* Choices the design names and this build lacks: known words, so that their message is not "did you mean". */
static const struct {
    lsi_key_id id;
    const char *choices;
} absent[] = {
    {LSI_KEY_precision_compute, "tf32|bf16|f16"},
    {LSI_KEY_comm_reduction, "fast"},
    {LSI_KEY_comm_transport, "nccl"},
    {LSI_KEY_device_backend, "cuda"},
};

static void *field(ls_config *values, const lsi_key *key)
{
    return (char *)values + key->offset;
}

static const void *const_field(const ls_config *values, const lsi_key *key)
{
    return (const char *)values + key->offset;
}

static ls_status refuse(const lsi_key *key, const char *text, const char *origin, const char *reason)
{
    return LS_FAIL(LS_ERR_CONFIG, "%s: %s.%s = '%.60s%s': %s", origin, key->section, key->key, text,
                   strlen(text) > 60 ? "..." : "", reason);
}

static ls_status refuse_range(const lsi_key *key, const char *text, const char *origin)
{
    char reason[96];

    snprintf(reason, sizeof reason, "out of range; lowest %s, highest %s", key->lowest, key->highest);
    return refuse(key, text, origin, reason);
}

static ls_status refuse_choice(const lsi_key *key, const char *text, const char *origin)
{
    char reason[256];
    lsi_choices choices;
    const char *near = NULL;
    bool known = false;

    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        known |= lsi_table_key(absent[i].id) == key && lsi_table_listed(absent[i].choices, text);
    }
    lsi_table_split(key->choices, &choices);
    if (!known && strlen(text) < sizeof choices.buffer) {
        near = lsi_text_nearest(text, choices.name, choices.n);
    }

    int length = near != NULL
                     ? snprintf(reason, sizeof reason, "did you mean '%s'? choices: ", near)
                     : snprintf(reason, sizeof reason, "%s; choices: ", known ? "not in this build" : "unknown");
    for (int i = 0; i < choices.n; i++) {
        length += snprintf(reason + length, sizeof reason - (size_t)length, "%s%s", i > 0 ? ", " : "", choices.name[i]);
    }
    return refuse(key, text, origin, reason);
}

static const char *read_whole(const lsi_key *key, const char *text, int64_t *out)
{
    return key->kind == LSI_KEY_SIZE ? lsi_number_size(text, out) : lsi_number_int(text, out);
}

static const char *read_fraction(const lsi_key *key, const char *text, double *out)
{
    return key->kind == LSI_KEY_DURATION ? lsi_number_duration(text, out) : lsi_number_real(text, out);
}

static ls_status read_int(const lsi_key *key, const char *text, const char *origin, int64_t *out)
{
    int64_t value, lowest, highest;
    const char *reason = read_whole(key, text, &value);

    if (reason == NULL) {
        reason = read_whole(key, key->lowest, &lowest);
    }
    if (reason == NULL) {
        reason = read_whole(key, key->highest, &highest);
    }
    if (reason != NULL) {
        return refuse(key, text, origin, reason);
    }
    if (value < lowest || value > highest) {
        return refuse_range(key, text, origin);
    }
    *out = value;
    return LS_OK;
}

static ls_status read_real(const lsi_key *key, const char *text, const char *origin, double *out)
{
    double value, lowest, highest;
    const char *reason = read_fraction(key, text, &value);

    if (reason == NULL) {
        reason = read_fraction(key, key->lowest, &lowest);
    }
    if (reason == NULL) {
        reason = read_fraction(key, key->highest, &highest);
    }
    if (reason != NULL) {
        return refuse(key, text, origin, reason);
    }
    if (value < lowest || value > highest) {
        return refuse_range(key, text, origin);
    }
    *out = value + 0.0;     /* -0 becomes 0: equal values must have equal bits for the hash */
    return LS_OK;
}

static ls_status read_bool(const lsi_key *key, const char *text, const char *origin, bool *out)
{
    const char *reason = lsi_number_bool(text, out);

    return reason == NULL ? LS_OK : refuse(key, text, origin, reason);
}

static ls_status read_text(const lsi_key *key, const char *text, const char *origin, const char **out)
{
    char *copy;

    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' && *at != '\t') {
            return refuse(key, text, origin, "contains a control character");
        }
    }
    LS_TRY(lsi_memory_strdup(text, &copy));
    lsi_memory_free((void *)*out);
    *out = copy;
    return LS_OK;
}

static ls_status read_pick(const lsi_key *key, const char *text, const char *origin, const char **out)
{
    if (!lsi_table_listed(key->choices, text)) {
        return refuse_choice(key, text, origin);
    }
    return read_text(key, text, origin, out);
}

static ls_status read_list(const lsi_key *key, const char *text, const char *origin, ls_int_list *out)
{
    ls_int_list list = {0};
    char *copy, *item;

    LS_TRY(lsi_memory_strdup(text, &copy));
    char *rest = copy;
    ls_status status = LS_OK;
    while (status == LS_OK && (item = strsep(&rest, ",")) != NULL) {
        item = lsi_text_trim(item);
        if (*item == '\0') {
            status = refuse(key, text, origin, "an item of the list is empty");
        } else if (list.n == LS_LIST_MAX) {
            status = refuse(key, text, origin, "more than 16 items");
        } else {
            status = read_int(key, item, origin, &list.value[list.n++]);
        }
    }
    lsi_memory_free(copy);
    LS_TRY(status);
    *out = list;
    return LS_OK;
}

ls_status lsi_value_set(ls_config *values, const lsi_key *key, const char *text, const char *origin)
{
    void *out = field(values, key);

    if (text[0] == '\0' && key->kind != LSI_KEY_TEXT) {
        return LS_FAIL(LS_ERR_CONFIG, "%s: %s.%s has no value", origin, key->section, key->key);
    }
    switch (key->kind) {
    case LSI_KEY_INT:
    case LSI_KEY_SIZE:
        return read_int(key, text, origin, out);
    case LSI_KEY_REAL:
    case LSI_KEY_DURATION:
        return read_real(key, text, origin, out);
    case LSI_KEY_BOOL:
        return read_bool(key, text, origin, out);
    case LSI_KEY_TEXT:
        return read_text(key, text, origin, out);
    case LSI_KEY_PICK:
        return read_pick(key, text, origin, out);
    case LSI_KEY_LIST:
        return read_list(key, text, origin, out);
    }
    return LS_FAIL(LS_ERR_INTERNAL, "%s.%s: unknown kind %d", key->section, key->key, (int)key->kind);
}

void lsi_value_free(ls_config *values, const lsi_key *key)
{
    if (key->kind == LSI_KEY_TEXT || key->kind == LSI_KEY_PICK) {
        const char **text = field(values, key);

        lsi_memory_free((void *)*text);
        *text = NULL;
    }
}

static void append_text(const char *text, lsi_text *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:+*?-";

    if (text[strspn(text, plain)] == '\0') {
        lsi_text_append(out, "%s", text);
        return;
    }
    lsi_text_append_bytes(out, "\"", 1);
    for (; *text != '\0'; text++) {
        lsi_text_append_bytes(out, "\"\"", *text == '"' ? 1 : 0);
        lsi_text_append_bytes(out, text, 1);
    }
    lsi_text_append_bytes(out, "\"", 1);
}

void lsi_value_append(const ls_config *values, const lsi_key *key, lsi_text *out)
{
    const void *value = const_field(values, key);

    switch (key->kind) {
    case LSI_KEY_INT:
        lsi_text_append(out, "%" PRId64, *(const int64_t *)value);
        break;
    case LSI_KEY_SIZE:
        lsi_number_append_size(out, *(const int64_t *)value);
        break;
    case LSI_KEY_REAL:
        lsi_number_append_real(out, *(const double *)value);
        break;
    case LSI_KEY_DURATION:
        lsi_number_append_duration(out, *(const double *)value);
        break;
    case LSI_KEY_BOOL:
        lsi_text_append(out, "%s", *(const bool *)value ? "true" : "false");
        break;
    case LSI_KEY_TEXT:
    case LSI_KEY_PICK:
        append_text(*(const char *const *)value, out);
        break;
    case LSI_KEY_LIST: {
        const ls_int_list *list = value;

        for (int i = 0; i < list->n; i++) {
            lsi_text_append(out, "%s%" PRId64, i > 0 ? "," : "", list->value[i]);
        }
        break;
    }
    }
}

uint64_t lsi_value_hash(const ls_config *values, const lsi_key *key)
{
    const void *value = const_field(values, key);

    switch (key->kind) {
    case LSI_KEY_BOOL:
        return lsi_hash64(value, sizeof(bool));
    case LSI_KEY_TEXT:
    case LSI_KEY_PICK:
        return lsi_hash_text(*(const char *const *)value);
    case LSI_KEY_LIST: {
        const ls_int_list *list = value;

        return lsi_hash64(list->value, sizeof *list->value * (size_t)list->n);
    }
    default:
        return lsi_hash64(value, 8);    /* int64_t or double */
    }
}
