#include "config/rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where to look first: at `id` if somebody set it, else at `other`. */
static const char *blame(const lsi_config *config, lsi_key_id id, lsi_key_id other)
{
    return lsi_state_origin(config, config->origin[id] != NULL ? id : other);
}

static bool is(const char *value, const char *word)
{
    return strcmp(value, word) == 0;
}

/* "7" or "7 or 9": the numbers around a wrong one, each 0 when there is none. */
typedef struct candidates {
    char text[48];
} candidates;

static candidates either(int64_t below, int64_t above)
{
    candidates c;

    if (below > 0 && above > 0 && below != above) {
        snprintf(c.text, sizeof c.text, "%" PRId64 " or %" PRId64, below, above);
    } else {
        snprintf(c.text, sizeof c.text, "%" PRId64, below > 0 ? below : above);
    }
    return c;
}

static candidates nearest_divisors(int64_t of, int64_t around)
{
    int64_t below = around < of ? around : of, above = around;

    while (of % below != 0) {
        below--;
    }
    while (above <= of && of % above != 0) {
        above++;
    }
    return either(below, above <= of ? above : 0);
}

static candidates nearest_multiples(int64_t of, int64_t around)
{
    return either(around / of * of, (around / of + 1) * of);
}

static ls_status check_batch(const lsi_config *config)
{
    int64_t global = config->values.train.global_batch, micro = config->values.train.micro_batch;

    if (global % micro == 0) {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG,
                   "%s: train.micro_batch = %" PRId64 " does not divide train.global_batch = %" PRId64
                   "; nearest: micro_batch = %s, or global_batch = %s",
                   blame(config, LSI_KEY_train_micro_batch, LSI_KEY_train_global_batch), micro, global,
                   nearest_divisors(global, micro).text, nearest_multiples(micro, global).text);
}

static ls_status check_lanes(const lsi_config *config)
{
    int64_t slots = config->values.train.global_batch / config->values.train.micro_batch;

    if (config->values.train.lanes <= slots) {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG,
                   "%s: train.lanes = %" PRId64 " is more than the %" PRId64
                   " slots of a step (global_batch %" PRId64 " / micro_batch %" PRId64 "); highest: %" PRId64,
                   lsi_state_origin(config, LSI_KEY_train_lanes), config->values.train.lanes, slots,
                   config->values.train.global_batch, config->values.train.micro_batch, slots);
}

static ls_status check_end(const lsi_config *config)
{
    if (config->values.train.steps > 0 || config->values.train.epochs > 0) {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s: train.steps and train.epochs are both 0; set one of them, say epochs = 10",
                   blame(config, LSI_KEY_train_steps, LSI_KEY_train_epochs));
}

static ls_status check_learning_rate(const lsi_config *config)
{
    LS_REQUIRE(config->values.optimizer.lr > 0, LS_ERR_CONFIG, "%s: optimizer.lr = 0: must be above 0",
               lsi_state_origin(config, LSI_KEY_optimizer_lr));
    return LS_OK;
}

static ls_status check_heads(const lsi_config *config)
{
    int64_t width = config->values.model.width, heads = config->values.model.heads;

    if (!is(config->values.model.kind, "gpt") || width % heads == 0) {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG,
                   "%s: model.heads = %" PRId64 " does not divide model.width = %" PRId64
                   "; nearest: heads = %s, or width = %s",
                   blame(config, LSI_KEY_model_heads, LSI_KEY_model_width), heads, width,
                   nearest_divisors(width, heads).text, nearest_multiples(heads, width).text);
}

static ls_status check_kinds(const lsi_config *config)
{
    const char *model = config->values.model.kind, *data = config->values.data.kind;
    const char *fitting = is(model, "mlp") ? "idx|synthetic" : "text|tokens|synthetic";
    lsi_choices choices;

    if (lsi_table_listed(fitting, data)) {
        return LS_OK;
    }
    lsi_table_split(fitting, &choices);
    return LS_FAIL(LS_ERR_CONFIG, "%s: model.kind = %s does not go with data.kind = %s; it takes %s%s%s%s%s",
                   blame(config, LSI_KEY_data_kind, LSI_KEY_model_kind), model, data, choices.name[0],
                   choices.n > 2 ? ", " : " or ", choices.name[1], choices.n > 2 ? " or " : "",
                   choices.n > 2 ? choices.name[2] : "");
}

static ls_status check_training_data(const lsi_config *config)
{
    if (is(config->values.data.kind, "synthetic") || config->values.data.train[0] != '\0') {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s: data.train is not set; data.kind = %s needs it",
                   blame(config, LSI_KEY_data_train, LSI_KEY_data_kind), config->values.data.kind);
}

static ls_status check_validation(const lsi_config *config)
{
    if (config->values.data.val_fraction == 0 || config->values.data.val[0] == '\0' ||
        is(config->values.data.kind, "synthetic")) {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s: data.val_fraction does not go with data.val (%s); remove one of them",
                   lsi_state_origin(config, LSI_KEY_data_val_fraction), lsi_state_origin(config, LSI_KEY_data_val));
}

/* Scaling by a power of two is exact, so that a scale changes no bit of the weights short of overflow and underflow. */
static ls_status check_scale(const lsi_config *config)
{
    const ls_config *v = &config->values;
    const struct {
        lsi_key_id id;
        const char *name;
        double value;
    } scales[] = {
        {LSI_KEY_loss_scale_initial, "initial", v->loss_scale.initial},
        {LSI_KEY_loss_scale_growth, "growth", v->loss_scale.growth},
        {LSI_KEY_loss_scale_backoff, "backoff", v->loss_scale.backoff},
        {LSI_KEY_loss_scale_min, "min", v->loss_scale.min},
        {LSI_KEY_loss_scale_max, "max", v->loss_scale.max},
    };

    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        int exponent;
        double part = frexp(scales[i].value, &exponent);    /* in [0.5, 1) */

        if (part != 0.5) {
            return LS_FAIL(LS_ERR_CONFIG, "%s: loss_scale.%s = %.17g is not a power of two; nearest: %.17g (2^%d)",
                           lsi_state_origin(config, scales[i].id), scales[i].name, scales[i].value,
                           ldexp(1.0, part < 0.75 ? exponent - 1 : exponent), part < 0.75 ? exponent - 1 : exponent);
        }
    }
    if (is(v->loss_scale.mode, "dynamic") && (v->loss_scale.min > v->loss_scale.initial ||
                                              v->loss_scale.initial > v->loss_scale.max)) {
        return LS_FAIL(LS_ERR_CONFIG,
                       "%s: loss_scale.initial = %g is not within loss_scale.min = %g and loss_scale.max = %g",
                       blame(config, LSI_KEY_loss_scale_initial, LSI_KEY_loss_scale_min), v->loss_scale.initial,
                       v->loss_scale.min, v->loss_scale.max);
    }
    return LS_OK;
}

static ls_status check_wire(const lsi_config *config)
{
    if (is(config->values.comm.dtype, "f32") || is(config->values.comm.reduction, "fast")) {
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s: comm.dtype = %s needs comm.reduction = fast; an ordered sum is made in f32",
                   blame(config, LSI_KEY_comm_dtype, LSI_KEY_comm_reduction), config->values.comm.dtype);
}

/* The trace would take the place of the metrics, which go on into a file that nobody finds. */
static ls_status check_trace(const lsi_config *config)
{
    const char *trace = config->values.log.trace;

    LS_REQUIRE(trace[0] == '\0' || !is(trace, config->values.log.metrics), LS_ERR_CONFIG,
               "%s: log.trace = %s is also log.metrics; give one of them another name",
               blame(config, LSI_KEY_log_trace, LSI_KEY_log_metrics), trace);
    return LS_OK;
}

typedef ls_status (*rule)(const lsi_config *config);

static ls_status check_all(const lsi_config *config, const rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        LS_TRY(rules[i](config));
    }
    return LS_OK;
}

ls_status lsi_rules_check(const lsi_config *config)
{
    static const rule rules[] = {
        check_batch, check_lanes, check_end, check_learning_rate, check_scale, check_wire, check_trace,
    };

    return check_all(config, rules, sizeof rules / sizeof *rules);
}

ls_status lsi_rules_check_inputs(const lsi_config *config)
{
    static const rule rules[] = {check_kinds, check_training_data, check_validation, check_heads};

    return check_all(config, rules, sizeof rules / sizeof *rules);
}
