/* RUN: timeout=60 */
/* Rules over several keys: which combinations are refused, and that the message has the numbers and the way out. */
#include "support/test.h"

#include <string.h>

#include "config/config.h"
#include "config/rules.h"

/* A right configuration; every case spoils it. */
#define RIGHT "[train]\nsteps = 5\n"

static ls_status check(const char *text)
{
    lsi_config *config;

    CHECK_OK(lsi_config_parse(text, &config));
    ls_status status = lsi_rules_check(config);

    status = status == LS_OK ? lsi_rules_check_inputs(config) : status;
    lsi_config_destroy(&config);
    return status;
}

static void wrong_combinations_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {RIGHT "micro_batch = 7\n[data]\nkind = synthetic\n",
         "configuration:3: train.micro_batch = 7 does not divide train.global_batch = 64; "
         "nearest: micro_batch = 4 or 8, or global_batch = 63 or 70"},
        {RIGHT "global_batch = 60\n[data]\nkind = synthetic\n",
         "configuration:3: train.micro_batch = 8 does not divide train.global_batch = 60; "
         "nearest: micro_batch = 6 or 10, or global_batch = 56 or 64"},
        {RIGHT "micro_batch = 100\n[data]\nkind = synthetic\n", "nearest: micro_batch = 64, or global_batch = 100"},
        {RIGHT "lanes = 9\n[data]\nkind = synthetic\n",
         "configuration:3: train.lanes = 9 is more than the 8 slots of a step (global_batch 64 / micro_batch 8); "
         "highest: 8"},
        {"[data]\nkind = synthetic\n", "configuration: train.steps and train.epochs are both 0"},
        {RIGHT "[data]\nkind = synthetic\n[optimizer]\nlr = 0\n", "configuration:6: optimizer.lr = 0: must be above 0"},
        {RIGHT "[data]\nkind = synthetic\n[model]\nkind = gpt\nheads = 5\n",
         "configuration:7: model.heads = 5 does not divide model.width = 128; nearest: heads = 4 or 8, "
         "or width = 125 or 130"},
        {RIGHT "[data]\nkind = text\ntrain = /t\n",
         "configuration:4: model.kind = mlp does not go with data.kind = text; it takes idx or synthetic"},
        {RIGHT "[data]\ntrain = /t\n[model]\nkind = gpt\n",
         "configuration:6: model.kind = gpt does not go with data.kind = idx; it takes text, tokens or synthetic"},
        {RIGHT "[data]\nkind = idx\n", "configuration:4: data.train is not set; data.kind = idx needs it"},
        {RIGHT "[data]\ntrain = \n", "configuration:4: data.train is not set"},
        {RIGHT "[data]\ntrain = /t\nval = /v\nval_fraction = 0.1\n",
         "configuration:6: data.val_fraction does not go with data.val (configuration:5)"},
        {RIGHT "[data]\nkind = synthetic\n[loss_scale]\nmax = 3\n",
         "configuration:6: loss_scale.max = 3 is not a power of two; nearest: 4 (2^2)"},
        {RIGHT "[data]\nkind = synthetic\n[loss_scale]\nmin = 2^17\n",
         "configuration:6: loss_scale.initial = 65536 is not within loss_scale.min = 131072 and"},
        {RIGHT "[data]\nkind = synthetic\n[comm]\ndtype = bf16\n",
         "configuration:6: comm.dtype = bf16 needs comm.reduction = fast"},
        {RIGHT "[data]\nkind = synthetic\n[log]\nmetrics = /m\ntrace = /m\n",
         "configuration:7: log.trace = /m is also log.metrics"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_FAILS(check(cases[i].text), LS_ERR_CONFIG, cases[i].message);
    }
}

static void right_combinations_pass(void **state)
{
    static const char *const cases[] = {
        RIGHT "[data]\ntrain = /t\n",
        "[train]\nepochs = 0.5\n[data]\nkind = synthetic\n",
        RIGHT "lanes = 8\n[data]\nkind = synthetic\n",
        RIGHT "[data]\ntrain = /t\nval_fraction = 0.1\n",
        RIGHT "[data]\ntrain = /t\nval = /v\n",
        RIGHT "[data]\nkind = synthetic\nval = /v\nval_fraction = 0.1\n",
        RIGHT "[data]\nkind = synthetic\n[model]\nheads = 5\n",
        RIGHT "[data]\nkind = tokens\ntrain = /t\n[model]\nkind = gpt\n",
        RIGHT "[data]\nkind = text\ntrain = /t\n[model]\nkind = gpt\n",
        RIGHT "[data]\nkind = synthetic\n[schedule]\nwarmup_steps = 100\n",
        RIGHT "[data]\nkind = synthetic\n[loss_scale]\nmode = static\nmin = 2^17\n",
        RIGHT "[data]\nkind = synthetic\n[log]\nmetrics = /m\ntrace = /t\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_OK(check(cases[i]));
    }
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_combinations_are_refused),
        cmocka_unit_test(right_combinations_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
