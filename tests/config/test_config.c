/* RUN: timeout=60 */
/* From file, environment and command line to values: precedence, origins, paths, and failures that name the place. */
#include "support/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "config/config.h"
#include "config/state.h"

/* What every loadable configuration needs; tests add to it. */
#define MINIMAL "[train]\nsteps = 5\n[data]\nkind = synthetic\n"

static char here[512];      /* folder of the test, with the file below in it */
static char ini[600];

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(realpath(test_folder_make(), here));
    snprintf(ini, sizeof ini, "%s/x.ini", here);
    return chdir(here);
}

static int remove_folder(void **state)
{
    (void)state;
    test_check_no_memory_live();
    test_folder_remove();
    return 0;
}

static void write_ini(const char *text)
{
    FILE *file = fopen(ini, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* Loads `text` as x.ini with at most one --set. */
static ls_status load(const char *text, const char *set, lsi_config **out)
{
    write_ini(text);
    return lsi_config_load(ini, &set, set != NULL ? 1 : 0, out);
}

static void check_refused(const char *text, const char *set, const char *message)
{
    lsi_config *config = NULL;

    CHECK_FAILS(load(text, set, &config), LS_ERR_CONFIG, message);
    assert_null(config);
}

static const char *origin(const lsi_config *config, const char *section, const char *key)
{
    const char *text = config->origin[lsi_table_find(section, key)];

    return text != NULL ? text : "default";
}

static void later_sources_win_and_are_remembered(void **state)
{
    char expected[700];
    lsi_config *config;

    (void)state;
    setenv("LOCKSTEP_TRAIN_SEED", "3", 1);
    setenv("LOCKSTEP_LOSS_SCALE_GIVE_UP_AFTER", "7", 1);
    setenv("LOCKSTEP_TRAIN_GLOBAL_BATCH", "32", 1);
    CHECK_OK(load(MINIMAL "[optimizer]\nlr = 0.5 ; high\n[loss_scale]\ngive_up_after = 5\n", " train.seed = 4 ",
                  &config));
    unsetenv("LOCKSTEP_TRAIN_SEED");
    unsetenv("LOCKSTEP_LOSS_SCALE_GIVE_UP_AFTER");
    unsetenv("LOCKSTEP_TRAIN_GLOBAL_BATCH");

    const ls_config *values = lsi_config_values(config);
    assert_int_equal(values->train.micro_batch, 8);
    assert_string_equal(origin(config, "train", "micro_batch"), "default");
    assert_true(values->optimizer.lr == 0.5);
    snprintf(expected, sizeof expected, "%s:6", ini);
    assert_string_equal(origin(config, "optimizer", "lr"), expected);
    assert_int_equal(values->train.global_batch, 32);
    assert_string_equal(origin(config, "train", "global_batch"), "LOCKSTEP_TRAIN_GLOBAL_BATCH");
    assert_int_equal(values->loss_scale.give_up_after, 7);
    assert_int_equal(values->train.seed, 4);
    assert_string_equal(origin(config, "train", "seed"), "--set");
    lsi_config_destroy(&config);
    assert_null(config);
}

static void a_file_is_not_needed(void **state)
{
    static const char *const sets[] = {"train.steps=1", "data.kind=synthetic", "train.steps=9"};
    lsi_config *config;

    (void)state;
    CHECK_OK(lsi_config_load(NULL, sets, 3, &config));
    assert_int_equal(lsi_config_values(config)->train.steps, 9);
    lsi_config_destroy(&config);
}

static void failures_name_the_place(void **state)
{
    static const struct {
        const char *text, *set, *message;
    } cases[] = {
        {MINIMAL "[optimizer]\nlr = 0,0003\n", NULL, "x.ini:6: optimizer.lr = '0,0003': use a point: 0.0003"},
        {MINIMAL "[train]\nsteps = 6\n", NULL, "x.ini:6: duplicate key 'train.steps', already set in line 2"},
        {MINIMAL "[train]\nlr = 6\n", NULL, "x.ini:6: unknown key 'train.lr'; did you mean 'optimizer.lr'?"},
        {MINIMAL "[optimiser]\n", NULL, "x.ini:5: unknown section 'optimiser'; did you mean 'optimizer'?"},
        {MINIMAL "[checkpoints]\n", NULL, "x.ini:5: unknown section 'checkpoints'"},
        {MINIMAL "kind = mlp\n", NULL, "x.ini:5: duplicate key 'data.kind', already set in line 4"},
        {MINIMAL "workers =\n", NULL, "x.ini:5: data.workers has no value"},
        {MINIMAL, "train.seed=x", "--set train.seed=x: train.seed = 'x': "},
        {MINIMAL, "train.sede=1", "--set train.sede=1: unknown key 'train.sede'; did you mean 'train.seed'?"},
        {MINIMAL, "trian.seed=1", "--set trian.seed=1: unknown section 'trian'; did you mean 'train'?"},
        {MINIMAL, "seed=1", "--set seed=1: expected section.key=value"},
        {MINIMAL, "train.seed", "--set train.seed: expected section.key=value"},
        {MINIMAL, "lr=0.5", "--set lr=0.5: expected section.key=value"},
        {MINIMAL, "train.seed=", "--set train.seed=: train.seed has no value"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_refused(cases[i].text, cases[i].set, cases[i].message);
    }
}

static void variables_of_known_sections_are_checked(void **state)
{
    lsi_config *config;

    (void)state;
    setenv("LOCKSTEP_TRAIN_STEPZ", "1", 1);
    check_refused(MINIMAL, NULL, "LOCKSTEP_TRAIN_STEPZ: unknown key 'train.stepz'; did you mean 'train.steps'?");
    unsetenv("LOCKSTEP_TRAIN_STEPZ");
    setenv("LOCKSTEP_TRAIN_SEED", "one", 1);
    check_refused(MINIMAL, NULL, "LOCKSTEP_TRAIN_SEED: train.seed = 'one': ");
    unsetenv("LOCKSTEP_TRAIN_SEED");

    setenv("LOCKSTEP_ALLOW_FAULTS", "1", 1);
    setenv("LOCKSTEP_TRAINING", "1", 1);
    CHECK_OK(load(MINIMAL, NULL, &config));
    unsetenv("LOCKSTEP_ALLOW_FAULTS");
    unsetenv("LOCKSTEP_TRAINING");
    lsi_config_destroy(&config);
}

static void unreadable_files_are_named(void **state)
{
    lsi_config *config = NULL;

    (void)state;
    CHECK_FAILS(lsi_config_load("absent.ini", NULL, 0, &config), LS_ERR_CONFIG, "absent.ini");
    CHECK_FAILS(lsi_config_load(here, NULL, 0, &config), LS_ERR_CONFIG, here);
    assert_null(config);
}

/* `actual` is `folder`/`rest`. */
static void check_path(const char *actual, const char *rest)
{
    char expected[1200];

    snprintf(expected, sizeof expected, "%s/%s", here, rest);
    assert_string_equal(actual, expected);
}

static void paths_resolve_where_they_were_written(void **state)
{
    static const char *const sets[] = {"data.val=t10k-images-idx3-ubyte"};
    lsi_config *config;

    (void)state;
    assert_int_equal(system("mkdir -p sub/images-idx3"), 0);
    snprintf(ini, sizeof ini, "%s/sub/y.ini", here);
    write_ini("[train]\nsteps = 1\n[data]\ntrain = images-idx3/train-images-idx3-ubyte.gz\n[log]\nmetrics = m.jsonl\n");
    CHECK_OK(lsi_config_load("sub/y.ini", sets, 1, &config));
    const ls_config *values = lsi_config_values(config);
    check_path(values->data.train, "sub/images-idx3/train-images-idx3-ubyte.gz");
    check_path(values->data.labels, "sub/images-idx3/train-labels-idx1-ubyte.gz");
    check_path(values->data.val, "t10k-images-idx3-ubyte");
    check_path(values->data.val_labels, "t10k-labels-idx1-ubyte");
    check_path(values->log.dir, "runs/y");
    check_path(values->log.metrics, "sub/m.jsonl");
    lsi_config_destroy(&config);

    write_ini("[train]\nsteps = 1\n[data]\ntrain = /abs/pixels\nlabels = l\n");
    CHECK_OK(lsi_config_load(ini, (const char *const[]){"log.dir=out"}, 1, &config));
    values = lsi_config_values(config);
    assert_string_equal(values->data.train, "/abs/pixels");
    check_path(values->data.labels, "sub/l");
    assert_string_equal(values->data.val, "");
    assert_string_equal(values->data.val_labels, "");
    check_path(values->log.dir, "out");
    check_path(values->log.metrics, "out/metrics.jsonl");
    lsi_config_destroy(&config);
    snprintf(ini, sizeof ini, "%s/x.ini", here);
}

static void every_shard_of_a_list_resolves(void **state)
{
    char expected[1800];
    lsi_config *config;

    (void)state;
    CHECK_OK(load("[train]\nsteps = 1\n[model]\nkind = gpt\n[data]\nkind = tokens\ntrain = a_*.bin, /abs/b.bin ,c\n",
                  NULL, &config));
    snprintf(expected, sizeof expected, "%s/a_*.bin,/abs/b.bin,%s/c", here, here);
    assert_string_equal(lsi_config_values(config)->data.train, expected);
    lsi_config_destroy(&config);

    /* One file may have a comma in its name. */
    CHECK_OK(load("[train]\nsteps = 1\n[data]\ntrain = a,b\n", NULL, &config));
    check_path(lsi_config_values(config)->data.train, "a,b");
    assert_string_equal(lsi_config_values(config)->data.labels, "");
    lsi_config_destroy(&config);
}

static void files_of_any_editor_mean_the_same(void **state)
{
    static const char *const same[] = {
        "[train]\nsteps = 5\n[data]\nkind = synthetic\n[optimizer]\nlr = 0.25\n",
        "\xEF\xBB\xBF[train]\r\nsteps = 5\r\n[data]\r\nkind = synthetic\r\n[optimizer]\r\nlr = 0.25",
        "; c\n  [optimizer]#c\n\tlr=\"0.25\" ; c\n[data]\nkind\t=synthetic\t\n[train]\nsteps=5",
    };
    char hashes[3][17];

    (void)state;
    /* Where the system has it: a locale with a decimal comma changes nothing. */
    setlocale(LC_ALL, "de_DE.UTF-8");
    for (int i = 0; i < 3; i++) {
        lsi_config *config;

        CHECK_OK(load(same[i], NULL, &config));
        assert_true(lsi_config_values(config)->optimizer.lr == 0.25);
        lsi_config_hash(config, NULL, hashes[i]);
        lsi_config_destroy(&config);
    }
    setlocale(LC_ALL, "C");
    assert_string_equal(hashes[0], hashes[1]);
    assert_string_equal(hashes[0], hashes[2]);
}

/* What a checkpoint keeps: environment and --set come on top, and labels follow images that have moved. */
static void a_printed_configuration_can_stand_for_the_file(void **state)
{
    static const char *const sets[] = {"train.steps=9", "data.val=moved-images-idx3"};
    lsi_config *first, *second;
    lsi_text text = {0};
    char moved[700];

    (void)state;
    CHECK_OK(load("[train]\nsteps = 5\nseed = 6\n[data]\ntrain = a-images-idx3\nlabels = x\nval = b-images-idx3\n",
                  NULL, &first));
    lsi_config_print(first, &text);
    CHECK_OK(lsi_text_status(&text));
    setenv("LOCKSTEP_TRAIN_SEED", "3", 1);
    CHECK_OK(lsi_config_load_printed("/c/manifest.json", text.data, sets, 2, &second));
    unsetenv("LOCKSTEP_TRAIN_SEED");

    const ls_config *a = lsi_config_values(first), *b = lsi_config_values(second);

    assert_int_equal(b->train.steps, 9);
    assert_int_equal(b->train.seed, 3);
    assert_string_equal(b->data.train, a->data.train);
    assert_string_equal(b->data.labels, a->data.labels);
    snprintf(moved, sizeof moved, "%s/moved-labels-idx1", here);
    assert_string_equal(b->data.val_labels, moved);
    assert_string_equal(b->log.dir, a->log.dir);
    lsi_config_destroy(&second);

    CHECK_FAILS(lsi_config_load_printed("/c/manifest.json", text.data, (const char *const[]){"train.steps=0"}, 1,
                                        &second),
                LS_ERR_CONFIG, "train.steps and train.epochs are both 0");
    CHECK_FAILS(lsi_config_load_printed("/c/manifest.json", "[train]\nsteps = x\n", NULL, 0, &second), LS_ERR_CONFIG,
                "/c/manifest.json:2");
    lsi_config_destroy(&first);
    lsi_text_free(&text);
}

static void lanes_are_a_power_of_two_up_to_8(void **state)
{
    static const int expected[] = {0, 1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
    ls_config values = {.train = {.micro_batch = 3}};

    (void)state;
    for (int slots = 1; slots <= 17; slots++) {
        values.train.global_batch = 3 * slots;
        values.train.lanes = 0;
        assert_int_equal(lsi_config_lanes(&values), expected[slots]);
        values.train.lanes = slots;
        assert_int_equal(lsi_config_lanes(&values), slots);
    }
}

/* Whichever allocation fails: the status says so, nothing leaks, and the next load works. */
/* A program's own values stand between default and file; its [model] and [data] are its own business. */
static void a_program_has_defaults_of_its_own(void **state)
{
    static const char defaults[] = "[train]\nsteps = 7\nseed = 3\nlog_every = 2\n[log]\nmetrics = m.jsonl\n";
    const char *const sets[] = {"train.log_every=4"};
    char expected[700];
    lsi_config *config;

    (void)state;
    CHECK_OK(lsi_config_load_program("spirals", defaults, NULL, sets, 1, &config));
    const ls_config *v = lsi_config_values(config);
    assert_int_equal(v->train.steps, 7);
    assert_int_equal(v->train.log_every, 4);
    snprintf(expected, sizeof expected, "%s/runs/spirals", here);
    assert_string_equal(v->log.dir, expected);
    snprintf(expected, sizeof expected, "%s/m.jsonl", here);
    assert_string_equal(v->log.metrics, expected);
    assert_string_equal(origin(config, "train", "steps"), "spirals:2");
    CHECK_FAILS(lsi_config_check_inputs(config), LS_ERR_CONFIG, "data.train is not set");
    lsi_config_destroy(&config);

    write_ini("[train]\nseed = 5\n");
    CHECK_OK(lsi_config_load_program("spirals", defaults, ini, NULL, 0, &config));
    v = lsi_config_values(config);
    assert_int_equal(v->train.steps, 7);
    assert_int_equal(v->train.seed, 5);
    snprintf(expected, sizeof expected, "%s/runs/x", here);
    assert_string_equal(v->log.dir, expected);
    snprintf(expected, sizeof expected, "%s:2", ini);
    assert_string_equal(origin(config, "train", "seed"), expected);
    lsi_config_destroy(&config);

    CHECK_FAILS(lsi_config_load_program("spirals", "[train]\nstep = 1\n", NULL, NULL, 0, &config), LS_ERR_CONFIG,
                "spirals:2: unknown key 'train.step'");
    CHECK_FAILS(lsi_config_load_program("spirals", NULL, NULL, NULL, 0, &config), LS_ERR_CONFIG,
                "spirals: train.steps and train.epochs are both 0");
}

static void memory_may_run_out_anywhere(void **state)
{
    long failures = 0;
    bool done = false;

    (void)state;
    write_ini("[train]\nsteps = 1\n[model]\nkind = gpt\n[data]\nkind = tokens\ntrain = a,b\nval = \"c d\"\n");
    while (!done) {
        lsi_config *config = NULL;

        lsi_memory_fail_at(failures + 1);
        ls_status status = lsi_config_load(ini, (const char *const[]){"train.seed=2"}, 1, &config);
        lsi_memory_fail_at(0);
        done = status == LS_OK;
        if (!done) {
            assert_int_equal(status, LS_ERR_MEMORY);
            assert_null(config);
            failures++;
        } else {
            lsi_config_destroy(&config);
        }
        test_check_no_memory_live();
    }
    assert_true(failures > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_sources_win_and_are_remembered),
        cmocka_unit_test(a_file_is_not_needed),
        cmocka_unit_test(failures_name_the_place),
        cmocka_unit_test(variables_of_known_sections_are_checked),
        cmocka_unit_test(unreadable_files_are_named),
        cmocka_unit_test(paths_resolve_where_they_were_written),
        cmocka_unit_test(every_shard_of_a_list_resolves),
        cmocka_unit_test(files_of_any_editor_mean_the_same),
        cmocka_unit_test(a_printed_configuration_can_stand_for_the_file),
        cmocka_unit_test(lanes_are_a_power_of_two_up_to_8),
        cmocka_unit_test(a_program_has_defaults_of_its_own),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
