/* RUN: timeout=60 */
/* The rows agree with each other, every kind of value reads and prints, and wrong ones are refused with a reason. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "config/table.h"
#include "config/value.h"

static const char *shown(const ls_config *values, const lsi_key *key)
{
    static lsi_text text;
    static char copy[512];

    lsi_value_append(values, key, &text);
    CHECK_OK(lsi_text_status(&text));
    snprintf(copy, sizeof copy, "%s", text.data);
    lsi_text_free(&text);
    return copy;
}

static const lsi_key *key_of(const char *section, const char *name)
{
    int id = lsi_table_find(section, name);

    assert_true(id >= 0);
    return lsi_table_key(id);
}

static void every_row_is_sound(void **state)
{
    (void)state;
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);
        ls_config values = {0};

        assert_int_equal(lsi_table_find(key->section, key->key), id);
        assert_true(lsi_table_has_section(key->section));
        CHECK_OK(lsi_value_set(&values, key, key->fallback, "default"));
        if (key->lowest != NULL) {
            CHECK_OK(lsi_value_set(&values, key, key->lowest, "lowest"));
            CHECK_OK(lsi_value_set(&values, key, key->highest, "highest"));
        }
        if (key->choices != NULL) {
            lsi_choices choices;

            lsi_table_split(key->choices, &choices);
            for (int i = 0; i < choices.n; i++) {
                CHECK_OK(lsi_value_set(&values, key, choices.name[i], "choice"));
                assert_string_equal(shown(&values, key), choices.name[i]);
            }
        }
        lsi_value_free(&values, key);
    }
    test_check_no_memory_live();
}

/* A condition with a misspelt key or choice would silently hold always or never. */
static void every_condition_can_hold_and_fail(void **state)
{
    (void)state;
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);
        char section[32] = "", name[32] = "", listed[96] = "";
        int holds = 0, fails = 0;

        if (key->when[0] == '\0') {
            continue;
        }
        assert_int_equal(sscanf(key->when, "%31[^.].%31[^=]=%95s", section, name, listed), 3);
        const lsi_key *pick = key_of(section, name);
        lsi_choices choices, words;
        lsi_table_split(pick->choices, &choices);
        lsi_table_split(listed, &words);
        for (int i = 0; i < choices.n; i++) {
            ls_config values = {0};

            CHECK_OK(lsi_value_set(&values, pick, choices.name[i], "test"));
            holds += lsi_table_in_effect(key, &values);
            fails += !lsi_table_in_effect(key, &values);
            lsi_value_free(&values, pick);
        }
        assert_int_equal(holds, words.n);
        assert_true(fails > 0);
    }
}

static void values_are_read_and_shown(void **state)
{
    static const struct {
        const char *section, *key, *text, *shown;
    } cases[] = {
        {"train", "steps", "2^10", "1024"},
        {"train", "epochs", "2.5", "2.5"},
        {"optimizer", "lr", "3e-4", "0.0003"},
        {"optimizer", "beta1", "0.1", "0.1"},
        {"comm", "bucket_bytes", "64k", "64k"},
        {"comm", "bucket_bytes", "26214400", "25M"},
        {"comm", "timeout", "600", "10m"},
        {"comm", "timeout", "1.5s", "1.5s"},
        {"data", "shuffle", "off", "false"},
        {"data", "shuffle", "yes", "true"},
        {"model", "hidden", "512", "512"},
        {"model", "hidden", " 1 ,2,\t3 ", "1,2,3"},
        {"model", "hidden", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"},
        {"data", "train", "", ""},
        {"data", "train", "/a/b-c.gz", "/a/b-c.gz"},
        {"data", "train", "a b", "\"a b\""},
        {"data", "train", "a\"b;c", "\"a\"\"b;c\""},
        {"data", "train", " ", "\" \""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lsi_key *key = key_of(cases[i].section, cases[i].key);
        ls_config values = {0};

        CHECK_OK(lsi_value_set(&values, key, cases[i].text, "test"));
        assert_string_equal(shown(&values, key), cases[i].shown);
        lsi_value_free(&values, key);
    }
    test_check_no_memory_live();
}

static void wrong_values_are_refused_and_the_old_one_stands(void **state)
{
    static const struct {
        const char *section, *key, *text, *message;
    } cases[] = {
        {"optimizer", "lr", "0,0003", "x: optimizer.lr = '0,0003': use a point: 0.0003"},
        {"optimizer", "lr", "nan", "x: optimizer.lr = 'nan': "},
        {"optimizer", "lr", "1e-4x", "x: optimizer.lr = '1e-4x': "},
        {"optimizer", "lr", "-1e-4", "out of range; lowest 0, highest 1000"},
        {"optimizer", "lr", "0x10", "x: optimizer.lr = '0x10': "},
        {"train", "steps", "", "x: train.steps has no value"},
        {"train", "steps", "-1", "out of range; lowest 0, highest 1099511627776"},
        {"train", "steps", "10 20", "x: train.steps = '10 20': "},
        {"train", "steps", "1e3", "x: train.steps = '1e3': "},
        {"train", "steps", "99999999999999999999", "x: train.steps = '99999999999999999999': "},
        {"data", "shuffle", "maybe", "x: data.shuffle = 'maybe': "},
        {"comm", "bucket_bytes", "1k", "out of range; lowest 64k, highest 16G"},
        {"comm", "timeout", "0s", "out of range; lowest 1s, highest 24h"},
        {"model", "kind", "gptt", "did you mean 'gpt'? choices: mlp, gpt"},
        {"model", "kind", "transformer", "unknown; choices: mlp, gpt"},
#ifndef LOCKSTEP_HAVE_CUDA
        {"precision", "compute", "tf32", "x: precision.compute = 'tf32': not in this build; choices: f32, bf16, f16"},
        {"device", "backend", "cuda", "not in this build; choices: auto, cpu"},
#endif
#ifndef LOCKSTEP_HAVE_NCCL
        {"comm", "transport", "nccl", "not in this build; choices: auto, self, mpi, shm"},
#endif
        {"comm", "reduction", "slow", "unknown; choices: ordered, fast"},
        {"model", "hidden", "", "x: model.hidden has no value"},
        {"model", "hidden", "1,,2", "an item of the list is empty"},
        {"model", "hidden", "1,", "an item of the list is empty"},
        {"model", "hidden", "1,0", "x: model.hidden = '0': out of range; lowest 1, highest 1048576"},
        {"model", "hidden", "1,two", "x: model.hidden = 'two': "},
        {"model", "hidden", "1,1111111111111111111111111111111111111111", "too large"},
        {"model", "hidden", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16 items"},
        {"data", "train", "a\nb", "contains a control character"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lsi_key *key = key_of(cases[i].section, cases[i].key);
        ls_config values = {0};

        CHECK_OK(lsi_value_set(&values, key, key->fallback, "default"));
        uint64_t before = lsi_value_hash(&values, key);
        CHECK_FAILS(lsi_value_set(&values, key, cases[i].text, "x"), LS_ERR_CONFIG, cases[i].message);
        assert_true(lsi_value_hash(&values, key) == before);
        lsi_value_free(&values, key);
    }
    test_check_no_memory_live();
}

static void suggestions_name_the_nearest(void **state)
{
    static const struct {
        const char *section, *key, *suggestion;
    } cases[] = {
        {"train", "stepz", "; did you mean 'train.steps'?"},
        {"train", "lr", "; did you mean 'optimizer.lr'?"},
        {"optimizer", "learning_rat",
         "; there are kind, lr, weight_decay, beta1, beta2, eps, momentum, clip"},
        {"optimizer", "weightdecay", "; did you mean 'optimizer.weight_decay'?"},
        {"model", "global_batches", "; did you mean 'train.global_batch'?"},
        {"trian", NULL, "; did you mean 'train'?"},
        {"trian", "steps", "; did you mean 'train'?"},
        {"zzzzzz", NULL,
         "; there are sections model, data, train, optimizer, schedule, precision, loss_scale, comm, device, checkpoint, "
         "log, monitor, fault"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char suggestion[LSI_SUGGESTION_MAX];

        lsi_table_suggest(cases[i].section, cases[i].key, suggestion);
        assert_string_equal(suggestion, cases[i].suggestion);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_sound),
        cmocka_unit_test(every_condition_can_hold_and_fail),
        cmocka_unit_test(values_are_read_and_shown),
        cmocka_unit_test(wrong_values_are_refused_and_the_old_one_stands),
        cmocka_unit_test(suggestions_name_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
