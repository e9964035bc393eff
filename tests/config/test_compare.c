/* RUN: */
/* What a resume is told of a configuration that is not the one of the checkpoint. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/state.h"

static void check(const char *then_text, const char *now_text, const char *refused, const char *changed)
{
    lsi_config *then, *now;
    lsi_text no = {0}, warn = {0};

    CHECK_OK(lsi_config_parse(then_text, &then));
    CHECK_OK(lsi_config_parse(now_text, &now));
    CHECK_OK(lsi_config_compare(then, now, &no, &warn));
    assert_string_equal(no.data, refused);
    assert_string_equal(warn.data, changed);
    lsi_text_free(&no);
    lsi_text_free(&warn);
    lsi_config_destroy(&then);
    lsi_config_destroy(&now);
    test_check_no_memory_live();
}

static void differences_are_named_old_and_new(void **state)
{
    (void)state;
    check("", "", "", "");
    check("[train]\nseed = 1\n", "[train]\nseed = 2\n", "train.seed was 1, now 2", "");
    check("[optimizer]\nlr = 1e-3\n", "[optimizer]\nlr = 0.0010\n", "", "");
    check("", "[optimizer]\nlr = 0.01\n[model]\ndropout = 0.5\n", "",
          "model.dropout was 0, now 0.5; optimizer.lr was 0.001, now 0.01");
    check("[model]\nhidden = 3,4\n[train]\nseed = 7\n[schedule]\nwarmup_steps = 5\n", "[model]\nhidden = 3\n",
          "model.hidden was 3,4, now 3; train.seed was 7, now 1", "schedule.warmup_steps was 5, now 0");
}

static void paths_and_free_keys_are_not_compared(void **state)
{
    (void)state;
    check("[data]\ntrain = /a\nlabels = /b\nworkers = 1\n[comm]\nbucket_bytes = 1M\n", "[data]\ntrain = /c\n", "", "");
}

static void lanes_are_compared_as_resolved(void **state)
{
    (void)state;
    check("[train]\nlanes = 8\n", "", "", "");
    check("", "[train]\nlanes = 4\n", "train.lanes was 8, now 4", "");
    check("[train]\nglobal_batch = 16\nmicro_batch = 8\n", "[train]\nglobal_batch = 16\nmicro_batch = 8\nlanes = 2\n",
          "", "");
}

static void keys_without_effect_are_not_compared(void **state)
{
    (void)state;
    check("[model]\nkind = mlp\nheads = 2\n", "[model]\nkind = mlp\nheads = 4\n", "", "");
    check("[model]\nkind = mlp\nheads = 2\n", "[model]\nkind = gpt\nheads = 4\n", "model.kind was mlp, now gpt", "");
}

/* Every key, changed alone, lands where its domain says. */
static void every_key_lands_in_its_place(void **state)
{
    (void)state;
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);
        lsi_text refused = {0}, changed = {0};
        lsi_config *then, *now;
        lsi_choices choices = {.n = 0};
        bool number = key->lowest != NULL, yes = strcmp(key->fallback, "true") == 0;
        const char *value = number ? key->lowest : key->kind == LSI_KEY_BOOL ? (yes ? "false" : "true") : "other";

        if (key->choices != NULL) {
            lsi_table_split(key->choices, &choices);
            value = choices.name[strcmp(choices.name[choices.n - 1], key->fallback) == 0 ? 0 : choices.n - 1];
        } else if (number && strcmp(key->lowest, key->fallback) == 0) {
            value = key->highest;
        }
        CHECK_OK(lsi_config_parse("", &then));
        CHECK_OK(lsi_config_parse("", &now));
        bool counts = lsi_table_in_effect(key, lsi_config_values(now)) && strcmp(value, key->fallback) != 0;
        CHECK_OK(lsi_state_set(now, id, value, "test", "test"));
        CHECK_OK(lsi_config_compare(then, now, &refused, &changed));
        char name[64];
        snprintf(name, sizeof name, "%s.%s was ", key->section, key->key);
        assert_int_equal(strstr(refused.data, name) != NULL, counts && key->domain == LSI_DOMAIN_FIXED);
        assert_int_equal(strstr(changed.data, name) != NULL, counts && key->domain == LSI_DOMAIN_BITS);
        lsi_text_free(&refused);
        lsi_text_free(&changed);
        lsi_config_destroy(&then);
        lsi_config_destroy(&now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_named_old_and_new), cmocka_unit_test(paths_and_free_keys_are_not_compared),
        cmocka_unit_test(lanes_are_compared_as_resolved),    cmocka_unit_test(keys_without_effect_are_not_compared),
        cmocka_unit_test(every_key_lands_in_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
