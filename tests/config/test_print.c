/* RUN: timeout=120 */
/* What is printed reads back to the same values, whatever they are; and no mutation of it crashes the reader. */
#include "support/test.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "config/config.h"
#include "config/state.h"
#include "config/value.h"

enum { RANDOM_CONFIGS = 500, MUTATIONS = 20000 };

/* A stream of random numbers. */
typedef struct dice {
    uint32_t seed, count;
} dice;

static uint32_t roll(dice *d, uint32_t sides)
{
    return lsi_random_philox(d->seed, d->count++, 0, 0, 0).v[0] % sides;
}

static void random_word(dice *d, char *out, size_t room)
{
    static const char letters[] = "ab /.,;#\"\"=[]\\\t*\xC3\xA4 ";
    size_t length = roll(d, (uint32_t)room);

    for (size_t i = 0; i < length; i++) {
        out[i] = letters[roll(d, sizeof letters - 1)];
    }
    out[length] = '\0';
}

static void random_value(dice *d, const lsi_key *key, char *out, size_t room)
{
    lsi_choices choices;
    double unit = roll(d, 1u << 30) * 0x1p-30, low = 0, high = 0;
    int64_t lowest = 0, highest = 0;
    lsi_text text = {0};

    switch (key->kind) {
    case LSI_KEY_TEXT:
        random_word(d, out, 24);
        return;
    case LSI_KEY_PICK:
        lsi_table_split(key->choices, &choices);
        snprintf(out, room, "%s", choices.name[roll(d, (uint32_t)choices.n)]);
        return;
    case LSI_KEY_BOOL:
        snprintf(out, room, "%s", roll(d, 2) ? "on" : "no");
        return;
    case LSI_KEY_REAL:
        assert_null(lsi_number_real(key->lowest, &low));
        assert_null(lsi_number_real(key->highest, &high));
        lsi_number_append_real(&text, low + (high - low) * unit * unit * unit * unit);
        break;
    case LSI_KEY_DURATION:
        assert_null(lsi_number_duration(key->lowest, &low));
        assert_null(lsi_number_duration(key->highest, &high));
        lsi_number_append_duration(&text, low + (high - low) * (roll(d, 2) ? unit : 0.5));
        break;
    default:
        assert_null(lsi_number_size(key->lowest, &lowest));
        assert_null(lsi_number_size(key->highest, &highest));
        for (uint32_t left = key->kind == LSI_KEY_LIST ? roll(d, LS_LIST_MAX) + 1 : 1; left > 0; left--) {
            int64_t value = lowest + (int64_t)((double)(highest - lowest) * unit * unit);
            lsi_text_append(&text, "%lld%s", (long long)value, left > 1 ? "," : "");
        }
        break;
    }
    snprintf(out, room, "%s", text.data);
    lsi_text_free(&text);
}

/* Random values under random origins, a third of the keys at their defaults. */
static lsi_config *random_config(dice *d)
{
    lsi_config *config;

    CHECK_OK(lsi_config_parse("", &config));
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        static const char *const origins[] = {"a b.ini:12", "LOCKSTEP_X_Y", "--set", "x ;y#z.ini:3", " \xC3\xA4.ini:1"};
        char value[512];

        if (roll(d, 3) > 0) {
            random_value(d, lsi_table_key(id), value, sizeof value);
            CHECK_OK(lsi_state_set(config, id, value, origins[roll(d, 5)], "test"));
        }
    }
    return config;
}

static void check_same(const lsi_config *a, const lsi_config *b)
{
    char hash_a[17], hash_b[17];

    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        if (lsi_value_hash(&a->values, key) != lsi_value_hash(&b->values, key)) {
            fail_msg("%s.%s changed on its way through the text", key->section, key->key);
        }
    }
    lsi_config_hash(a, NULL, hash_a);
    lsi_config_hash(b, NULL, hash_b);
    assert_string_equal(hash_a, hash_b);
}

static void print_and_parse_is_a_fixed_point(void **state)
{
    dice d = {.seed = 1};

    (void)state;
    for (int i = 0; i < RANDOM_CONFIGS; i++) {
        lsi_config *config = random_config(&d), *back;
        lsi_text first = {0}, second = {0};

        lsi_config_print(config, &first);
        CHECK_OK(lsi_text_status(&first));
        CHECK_OK(lsi_config_parse(first.data, &back));
        lsi_config_print(back, &second);
        assert_string_equal(first.data, second.data);
        check_same(config, back);

        lsi_text_free(&first);
        lsi_text_free(&second);
        lsi_config_destroy(&config);
        lsi_config_destroy(&back);
    }
    test_check_no_memory_live();
}

static void equal_values_have_equal_hashes(void **state)
{
    static const struct {
        lsi_key_id id;
        const char *one, *other;
    } cases[] = {
        {LSI_KEY_optimizer_weight_decay, "0", "-0"},  {LSI_KEY_optimizer_lr, "1e-3", "0.0010"},
        {LSI_KEY_model_tied, "on", "1"},              {LSI_KEY_comm_bucket_bytes, "1M", "1048576"},
        {LSI_KEY_comm_timeout, "2m", "120"},          {LSI_KEY_model_hidden, "2^4,3", "16, 3"},
    };
    lsi_config *config;

    (void)state;
    CHECK_OK(lsi_config_parse("", &config));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lsi_key *key = lsi_table_key(cases[i].id);

        CHECK_OK(lsi_state_set(config, cases[i].id, cases[i].one, NULL, "test"));
        uint64_t hash = lsi_value_hash(&config->values, key);
        CHECK_OK(lsi_state_set(config, cases[i].id, cases[i].other, NULL, "test"));
        assert_true(lsi_value_hash(&config->values, key) == hash);
    }
    lsi_config_destroy(&config);
    test_check_no_memory_live();
}

static void the_hash_sees_every_bits_key_and_no_other(void **state)
{
    dice d = {.seed = 2};
    char before[17], after[17];

    (void)state;
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);
        lsi_config *config;
        char value[512];

        CHECK_OK(lsi_config_parse("", &config));
        uint64_t old = lsi_value_hash(&config->values, key);
        lsi_config_hash(config, NULL, before);
        for (int tries = 0; tries < 100 && lsi_value_hash(&config->values, key) == old; tries++) {
            random_value(&d, key, value, sizeof value);
            CHECK_OK(lsi_state_set(config, id, value, "test", "test"));
        }
        lsi_config_hash(config, NULL, after);
        bool changed = lsi_value_hash(&config->values, key) != old;
        /* Picks with one choice cannot change. */
        assert_true(changed || (key->choices != NULL && strchr(key->choices, '|') == NULL));
        assert_int_equal(strcmp(before, after) != 0, changed && lsi_table_is_bits(key));
        lsi_config_destroy(&config);
    }
}

static void the_hash_sees_what_the_data_is(void **state)
{
    char one[17], other[17], none[17];
    lsi_config *config;

    (void)state;
    CHECK_OK(lsi_config_parse("[data]\ntrain = /here/x\n", &config));
    lsi_config_hash(config, NULL, none);
    lsi_config_hash(config, "text: 12 bytes", one);
    lsi_config_destroy(&config);
    CHECK_OK(lsi_config_parse("[data]\ntrain = /there/y\n", &config));
    lsi_config_hash(config, "text: 12 bytes", other);
    assert_string_equal(one, other);
    lsi_config_hash(config, "text: 13 bytes", other);
    assert_string_not_equal(one, other);
    assert_string_not_equal(one, none);
    lsi_config_destroy(&config);
}

static void keys_without_effect_are_named(void **state)
{
    lsi_config *config, *back;
    lsi_text line = {0}, printed = {0};

    (void)state;
    CHECK_OK(lsi_config_parse("[model]\nkind = mlp\nheads = 4\nhidden = 1\n[data]\nkind = idx\nsamples = 7\n",
                              &config));
    lsi_config_unused(config, &line);
    assert_string_equal(line.data,
                        "without effect: model.heads (needs model.kind=gpt), data.samples (needs data.kind=synthetic)");
    lsi_text_free(&line);

    /* Defaults without effect are printed as comments: what is fed back sets no more than what was set. */
    lsi_config_destroy(&config);
    CHECK_OK(lsi_config_parse("", &config));
    lsi_config_print(config, &printed);
    assert_non_null(strstr(printed.data, "\n; width = 128 "));
    assert_non_null(strstr(printed.data, "\nhidden = 256,128 "));
    CHECK_OK(lsi_config_parse(printed.data, &back));
    lsi_config_unused(back, &line);
    assert_string_equal(line.data, "");
    lsi_text_free(&line);
    lsi_text_free(&printed);
    lsi_config_destroy(&config);
    lsi_config_destroy(&back);
    test_check_no_memory_live();
}

static void the_description_has_every_key(void **state)
{
    lsi_text text = {0};

    (void)state;
    lsi_config_describe(&text);
    CHECK_OK(lsi_text_status(&text));
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);
        char line[256];

        snprintf(line, sizeof line, "\n  %s =%s%s\n      %s\n", key->key, key->fallback[0] != '\0' ? " " : "",
                 key->fallback, key->help);
        assert_non_null(strstr(text.data, line));
    }
    assert_non_null(strstr(text.data, "one of mlp, gpt; bits, fixed\n"));
    assert_non_null(strstr(text.data, "duration, 1s to 24h; free\n"));
    assert_non_null(strstr(text.data, "number, 0 to 1000; bits\n"));
    assert_non_null(strstr(text.data, "text; content; only with data.kind=idx|text|tokens"));
    assert_non_null(strstr(text.data, "\n  bits, fixed  likewise, but a resume refuses"));
    assert_non_null(strstr(text.data, "only with model.kind=gpt"));
    lsi_text_free(&text);
}

/* One random edit of `text`: bytes changed, removed, doubled, or swapped for something that matters to INI. */
static void mutate(dice *d, char *text, size_t *length, size_t room)
{
    static const char *const pieces[] = {"[", "]", "=", "\"",        ";",    " #",  "\n", "\r",
                                         "-", "9", "e", "[train]\n", "kind", "\xFF", ","};
    size_t at = roll(d, (uint32_t)*length + 1), n = roll(d, 16);
    const char *piece = pieces[roll(d, sizeof pieces / sizeof pieces[0])];

    n = n < *length - at ? n : *length - at;
    switch (roll(d, 4)) {
    case 0:     /* remove */
        memmove(text + at, text + at + n, *length - at - n);
        *length -= n;
        break;
    case 1:     /* double */
        if (*length + n < room) {
            memmove(text + at + n, text + at, *length - at);
            *length += n;
        }
        break;
    case 2:     /* insert */
        if (*length + strlen(piece) < room) {
            memmove(text + at + strlen(piece), text + at, *length - at);
            memcpy(text + at, piece, strlen(piece));
            *length += strlen(piece);
        }
        break;
    default:    /* change */
        if (at < *length) {
            text[at] = (char)(roll(d, 255) + 1);
        }
        break;
    }
    text[*length] = '\0';
}

static void mutated_texts_never_crash(void **state)
{
    static char text[16384];
    dice d = {.seed = 3};
    lsi_text base = {0};
    lsi_config *config;
    regex_t place;
    int refused = 0;

    (void)state;
    assert_int_equal(regcomp(&place, "^configuration:[0-9]+: .", REG_EXTENDED | REG_NOSUB), 0);
    for (int i = 0; i < MUTATIONS; i++) {
        if (i % 100 == 0) {
            lsi_text_clear(&base);
            config = random_config(&d);
            lsi_config_print(config, &base);
            lsi_config_destroy(&config);
            assert_true(base.length < sizeof text / 2);
        }
        size_t length = base.length;
        memcpy(text, base.data, length + 1);
        for (uint32_t edits = roll(&d, 4) + 1; edits > 0; edits--) {
            mutate(&d, text, &length, sizeof text);
        }

        char *exact = malloc(length + 1);       /* AddressSanitizer sees a step behind its end */
        memcpy(exact, text, length + 1);
        ls_status status = lsi_config_parse(exact, &config);
        free(exact);
        if (status == LS_OK) {
            lsi_config_destroy(&config);
        } else {
            refused++;
            if (status != LS_ERR_CONFIG || regexec(&place, ls_failure_message(), 0, NULL, 0) != 0) {
                fail_msg("mutation %d: message without a place: %s", i, ls_failure_message());
            }
        }
    }
    regfree(&place);
    lsi_text_free(&base);
    test_check_no_memory_live();
    /* Both outcomes are common, or the mutations are too weak or too strong to show anything. */
    assert_in_range(refused, MUTATIONS / 10, MUTATIONS * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(print_and_parse_is_a_fixed_point),
        cmocka_unit_test(equal_values_have_equal_hashes),
        cmocka_unit_test(the_hash_sees_every_bits_key_and_no_other),
        cmocka_unit_test(the_hash_sees_what_the_data_is),
        cmocka_unit_test(keys_without_effect_are_named),
        cmocka_unit_test(the_description_has_every_key),
        cmocka_unit_test(mutated_texts_never_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
