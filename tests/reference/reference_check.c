/* reference_check DIR NAME [--micro-batch N] [--compute f32|bf16|f16] [--scale-gradient PARAMETER FACTOR]
 *
 * Runs one set of reference numbers (tests/reference/README.md) through the real graph, trainer and optimizer, under
 * any number of processes, and prints per tensor the rule, the value and the limit. Exit code 1 when a rule is broken.
 * In 16 bit the rules are on loss, logits and gradients of batch 0; a trajectory of ten steps is compared in f32 only.
 * --scale-gradient changes what is compared, to show that the check can fail. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "models/models.h"
#include "train/precision.h"
#include "train/trainer.h"

typedef struct options {
    const char *folder, *name, *compute, *scaled;
    int64_t micro_batch;        /* 0: one sample */
    double factor;
} options;

typedef struct check {
    options opt;
    lsi_job *job;
    ls_runtime *rt;
    lsi_safetensors weights, batches, expected;
    int64_t n_batches, batch;   /* samples per batch */
    double limit, loss_limit;   /* of gradients and logits; of the loss */
    int n_broken;
} check;

/* ---- the batches as a data set: sample i is sample i of the file ---------------------------------------------- */

typedef struct batch_data {
    ls_dataset head;
    const lsi_tensor *inputs, *targets;
} batch_data;

static void batch_close(ls_dataset *dataset)
{
    (void)dataset;
}

static ls_status batch_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const batch_data *d = (const batch_data *)dataset;
    size_t in = (size_t)ls_shape_count(&dataset->input_shape) * 4, out = (size_t)dataset->target_count * 4;

    memcpy(input, (const char *)d->inputs->data + (size_t)index * in, in);
    memcpy(targets, (const char *)d->targets->data + (size_t)index * out, out);
    return LS_OK;
}

static const ls_dataset_ops batch_ops = {sizeof batch_ops, "reference", batch_close, batch_read};

static bool is_gpt(const check *c)
{
    return lsi_safetensors_metadata(&c->weights, "layers") != NULL;
}

static void open_data(const check *c, batch_data *d)
{
    const lsi_tensor *inputs = lsi_safetensors_find(&c->batches, "inputs");
    const lsi_tensor *targets = lsi_safetensors_find(&c->batches, "targets");
    int64_t n = c->n_batches * c->batch;

    *d = (batch_data){
        .head =
            {
                .ops = &batch_ops,
                .n_samples = n,
                .input_dtype = inputs->dtype,
                .input_shape = ls_shape1(inputs->count / n),
                .target_count = targets->count / n,
                .description = "reference batches",
            },
        .inputs = inputs,
        .targets = targets,
    };
    if (is_gpt(c)) {
        d->head.n_classes = atoll(lsi_safetensors_metadata(&c->weights, "vocab"));
    } else {
        const char *dims = lsi_safetensors_metadata(&c->weights, "dims"), *last = strrchr(dims, ',');

        d->head.n_classes = atoll(last + 1);
    }
}

/* ---- configuration from the set's metadata -------------------------------------------------------------------- */

typedef struct settings {
    int n;
    char text[40][160];
    const char *list[40];
} settings;

static void set(settings *s, const char *key, const char *value)
{
    snprintf(s->text[s->n], sizeof s->text[0], "%s=%s", key, value);
    s->list[s->n] = s->text[s->n];
    s->n++;
}

static void set_int(settings *s, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    set(s, key, text);
}

/* "[20, 32, 16, 5]" -> "32,16" */
static void set_hidden(settings *s, const char *dims)
{
    char hidden[128] = "", *out = hidden;
    const char *from = strchr(dims, ',') + 1, *to = strrchr(dims, ',');

    for (; from < to; from++) {
        if (*from != ' ') {
            *out++ = *from;
        }
    }
    set(s, "model.hidden", hidden[0] != '\0' ? hidden : "none");
}

static void set_model(const check *c, settings *s)
{
    static const char *const keys[] = {"layers", "heads", "width", "context"};

    if (is_gpt(c)) {
        set(s, "model.kind", "gpt");
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            char key[64];

            snprintf(key, sizeof key, "model.%s", keys[i]);
            set(s, key, lsi_safetensors_metadata(&c->weights, keys[i]));
        }
        set(s, "model.tied", strcmp(lsi_safetensors_metadata(&c->weights, "tied"), "True") == 0 ? "true" : "false");
    } else {
        set(s, "model.kind", "mlp");
        set_hidden(s, lsi_safetensors_metadata(&c->weights, "dims"));
        set(s, "model.activation", lsi_safetensors_metadata(&c->weights, "activation"));
    }
}

static ls_status make_config(const check *c, const lsi_safetensors *run, lsi_config **out)
{
    static const char *const keys[] = {"kind", "lr", "beta1", "beta2", "eps", "weight_decay", "momentum", "clip"};
    settings s = {0};

    set_model(c, &s);
    set(&s, "data.kind", "synthetic");
    set(&s, "data.shuffle", "false");
    set_int(&s, "train.global_batch", c->batch);
    set_int(&s, "train.micro_batch", c->opt.micro_batch > 0 ? c->opt.micro_batch : 1);
    set(&s, "train.steps", run != NULL ? lsi_safetensors_metadata(run, "steps") : "1");
    set(&s, "precision.compute", c->opt.compute);
    set(&s, "log.level", "warn");
    for (size_t i = 0; run != NULL && i < sizeof keys / sizeof keys[0]; i++) {
        const char *value = lsi_safetensors_metadata(run, keys[i]);
        char key[64];

        snprintf(key, sizeof key, "optimizer.%s", keys[i]);
        if (value != NULL) {
            set(&s, key, value);
        }
    }
    return lsi_config_load(NULL, s.list, s.n, out);
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static double element(const lsi_tensor *t, int64_t i)
{
    if (t->dtype == LS_F64) {
        double value;

        memcpy(&value, (const char *)t->data + i * 8, 8);
        return value;
    }
    float value;
    memcpy(&value, (const char *)t->data + i * 4, 4);
    return (double)value;
}

static void verdict(check *c, const char *what, const char *name, const char *rule, double value, double limit)
{
    bool ok = value <= limit;

    c->n_broken += !ok;
    if (c->job->rank == 0) {
        printf("%-4s %-14s %-28s %-44s %.3e <= %.1e\n", ok ? "ok" : "FAIL", what, name, rule, value, limit);
    }
}

static double relative_norm(const float *ours, const lsi_tensor *theirs, double factor)
{
    double difference = 0, norm = 0;

    for (int64_t i = 0; i < theirs->count; i++) {
        double a = (double)ours[i] * factor, b = element(theirs, i);

        difference += (a - b) * (a - b);
        norm += b * b;
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

/* AdamW turns the rounding noise of a gradient that is 0 in theory into steps of full size, so elements without a real
 * gradient are held to an absolute bound and the others norm-wise. */
static void compare_adamw(check *c, const char *run, const char *name, const float *ours, const lsi_tensor *theirs,
                          const lsi_tensor *gradient, double absolute)
{
    double largest = 0, difference = 0, norm = 0, worst = 0;
    int64_t n_others = 0;

    for (int64_t i = 0; i < gradient->count; i++) {
        largest = fmax(largest, fabs(element(gradient, i)));
    }
    for (int64_t i = 0; i < theirs->count; i++) {
        double b = element(theirs, i), d = (double)ours[i] - b;

        if (fabs(element(gradient, i)) > 1e-6 * largest) {
            difference += d * d;
            norm += b * b;
        } else {
            worst = fmax(worst, fabs(d));
            n_others++;
        }
    }
    verdict(c, run, name, "relative norm where the gradient is not ~0", norm > 0 ? sqrt(difference / norm) : 0, 1e-5);
    if (n_others > 0) {
        verdict(c, run, name, "largest difference of the others", worst, absolute);
    }
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static ls_status load_weights(const check *c, ls_trainer *t)
{
    float *flat;

    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_elements * sizeof *flat, "weights", (void **)&flat));
    for (int i = 0; i < t->params->n; i++) {
        const lsi_param *p = &t->params->param[i];
        const lsi_tensor *tensor = lsi_safetensors_find(&c->weights, p->name);

        if (tensor == NULL || tensor->count != p->count) {
            lsi_memory_free(flat);
            return LS_FAIL(LS_ERR_DATA, "%s: no tensor %s of %lld elements", c->weights.path, p->name,
                           (long long)p->count);
        }
        memcpy(flat + p->offset, tensor->data, (size_t)p->count * sizeof *flat);
    }
    ls_status status = lsi_trainer_write_weights(t, flat);
    lsi_memory_free(flat);
    return status;
}

static ls_status one_step(ls_trainer *t, ls_step_info *info)
{
    ls_slot *slot;

    LS_TRY(ls_trainer_begin(t));
    while (ls_trainer_next_slot(t, &slot)) {
        LS_TRY(ls_trainer_forward(t, slot));
        LS_TRY(ls_trainer_backward(t, slot));
    }
    LS_TRY(ls_trainer_end(t, info));
    return ls_trainer_settle(t, info);
}

static float as_float(const void *data, ls_dtype dtype, int64_t i)
{
    const uint16_t *half = data;

    return dtype == LS_F16    ? lsi_half_f16_to_f32(half[i])
           : dtype == LS_BF16 ? lsi_half_bf16_to_f32(half[i])
                              : ((const float *)data)[i];
}

/* Logits of batch 0, sample by sample, through a plan of its own over the trainer's weights. */
static ls_status compare_logits(check *c, ls_trainer *t, const lsi_model *model, const batch_data *data)
{
    const lsi_tensor *theirs = lsi_safetensors_find(&c->expected, "logits");
    ls_compile_options compile = {.struct_size = sizeof compile, .mode = LS_INFER, .micro_batch = 1, .n_outputs = 1,
                                  .compute = lsi_precision_compute(t->rt->config), .output = {model->logits}};
    ls_plan *plan;
    void *activations, *input, *rows_of_sample;
    float *ours;
    int64_t per_sample = theirs->count / c->batch, n_classes = data->head.n_classes;

    LS_TRY(ls_graph_compile(t->graph, &compile, &plan));
    size_t bytes = lsi_plan_activation_bytes(plan), in = (size_t)ls_shape_count(&data->head.input_shape) * 4;
    LS_TRY(t->backend->alloc(t->device, LS_MEM_DEVICE, bytes, &activations));
    LS_TRY(t->backend->alloc(t->device, LS_MEM_DEVICE, in, &input));
    LS_TRY(lsi_memory_alloc((size_t)theirs->count * sizeof *ours, "logits", (void **)&ours));
    size_t out_bytes = (size_t)lsi_plan_output(plan, 0, activations).count * sizeof(float);
    LS_TRY(lsi_memory_alloc(out_bytes, "logits of a sample", &rows_of_sample));
    for (int64_t sample = 0; sample < c->batch; sample++) {
        lsi_plan_run run = {.stream = t->compute, .state = t->state.data, .weights = t->layer_weights.data,
                            .activations = activations, .input = input};
        ls_view out = lsi_plan_output(plan, 0, activations);
        int64_t rows = per_sample / n_classes, pitch = out.count / rows;

        LS_TRY(t->backend->copy(t->compute, input, (const char *)data->inputs->data + (size_t)sample * in, in));
        LS_TRY(lsi_plan_forward(plan, &run));
        LS_TRY(t->backend->copy(t->compute, rows_of_sample, out.data, (size_t)out.count * ls_dtype_bytes(out.dtype)));
        LS_TRY(t->backend->stream_sync(t->compute));
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t j = 0; j < n_classes; j++) {
                ours[sample * per_sample + r * n_classes + j] = as_float(rows_of_sample, out.dtype, r * pitch + j);
            }
        }
    }
    lsi_memory_free(rows_of_sample);
    verdict(c, "batch 0", "logits", "relative norm", relative_norm(ours, theirs, 1), c->limit);
    lsi_memory_free(ours);
    t->backend->release(t->device, LS_MEM_DEVICE, bytes, activations);
    t->backend->release(t->device, LS_MEM_DEVICE, in, input);
    return LS_OK;
}

static ls_status compare_gradients(check *c, ls_trainer *t)
{
    float *flat;

    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_elements * sizeof *flat, "gradients", (void **)&flat));
    LS_TRY(lsi_trainer_read_gradients(t, flat));
    for (int i = 0; i < t->params->n; i++) {
        const lsi_param *p = &t->params->param[i];
        char name[256];
        double factor = c->opt.scaled != NULL && strcmp(c->opt.scaled, p->name) == 0 ? c->opt.factor : 1;

        snprintf(name, sizeof name, "grad.%s", p->name);
        const lsi_tensor *theirs = lsi_safetensors_find(&c->expected, name);
        LS_REQUIRE(theirs != NULL && theirs->count == p->count, LS_ERR_DATA, "%s: no tensor %s", c->expected.path,
                   name);
        verdict(c, "batch 0", name, "relative norm", relative_norm(flat + p->offset, theirs, factor), c->limit);
    }
    lsi_memory_free(flat);
    return LS_OK;
}

static ls_status compare_weights(check *c, ls_trainer *t, const char *run_name, const lsi_safetensors *run)
{
    const ls_config *config = t->rt->config;
    double absolute = 0.1 * config->optimizer.lr * (double)config->train.steps;
    bool adamw = strcmp(config->optimizer.kind, "adamw") == 0;
    float *flat;

    LS_TRY(lsi_memory_alloc((size_t)t->sizes.n_elements * sizeof *flat, "weights", (void **)&flat));
    LS_TRY(lsi_trainer_read_weights(t, flat));
    for (int i = 0; i < t->params->n; i++) {
        const lsi_param *p = &t->params->param[i];
        const lsi_tensor *theirs = lsi_safetensors_find(run, p->name);
        char name[256];

        LS_REQUIRE(theirs != NULL && theirs->count == p->count, LS_ERR_DATA, "%s: no tensor %s", run->path, p->name);
        snprintf(name, sizeof name, "grad.%s", p->name);
        if (adamw) {
            compare_adamw(c, run_name, p->name, flat + p->offset, theirs, lsi_safetensors_find(&c->expected, name),
                          absolute);
        } else {
            verdict(c, run_name, p->name, "relative norm", relative_norm(flat + p->offset, theirs, 1), 1e-5);
        }
    }
    lsi_memory_free(flat);
    return LS_OK;
}

static ls_status compare_scalars(check *c, const char *run_name, const lsi_safetensors *run, int64_t step,
                                 const ls_step_info *info, double *worst_loss, double *worst_norm)
{
    const lsi_tensor *losses = lsi_safetensors_find(run, "losses"), *norms = lsi_safetensors_find(run, "grad_norms");

    LS_REQUIRE(losses != NULL && norms != NULL && step < losses->count && step < norms->count, LS_ERR_DATA,
               "%s: losses or grad_norms missing or short", run->path);
    *worst_loss = fmax(*worst_loss, fabs(info->loss - element(losses, step)) / fabs(element(losses, step)));
    *worst_norm = fmax(*worst_norm, fabs(info->grad_norm - element(norms, step)) / fabs(element(norms, step)));
    if (step == losses->count - 1) {
        verdict(c, run_name, "losses", "largest relative difference", *worst_loss, 1e-5);
        verdict(c, run_name, "grad_norms", "largest relative difference", *worst_norm, 1e-5);
    }
    return LS_OK;
}

/* One run of the set: trains and compares. `first` also compares loss, logits and gradients of batch 0. */
static ls_status check_run(check *c, const char *run_name, bool first)
{
    lsi_safetensors run;
    lsi_config *config;
    lsi_model model;
    batch_data data;
    ls_trainer *t;
    ls_step_info info;
    char path[1024];
    double worst_loss = 0, worst_norm = 0;

    snprintf(path, sizeof path, "%s/%s.%s.safetensors", c->opt.folder, c->opt.name, run_name);
    LS_TRY(lsi_safetensors_open(path, &run));
    LS_TRY(make_config(c, &run, &config));
    /* The runs of a set differ in the optimizer only: the runtime's batch geometry holds for all of them. */
    const ls_config *of_runtime = c->rt->config;
    c->rt->config = lsi_config_values(config);
    open_data(c, &data);
    LS_TRY(lsi_model_build(c->rt->config, &data.head, &model));
    LS_TRY(ls_trainer_create(c->rt, model.graph, model.loss, &data.head, &t));
    LS_TRY(load_weights(c, t));
    if (first) {
        LS_TRY(compare_logits(c, t, &model, &data));
    }
    bool whole = strcmp(c->opt.compute, "f32") == 0;
    for (int64_t step = 0; step < (whole ? c->rt->config->train.steps : 1); step++) {
        LS_TRY(one_step(t, &info));
        if (first && step == 0) {
            double loss = element(lsi_safetensors_find(&c->expected, "loss"), 0);

            verdict(c, "batch 0", "loss", "relative difference", fabs(info.loss - loss) / fabs(loss),
                    c->loss_limit);
            LS_TRY(compare_gradients(c, t));
        }
        if (whole) {
            LS_TRY(compare_scalars(c, run_name, &run, step, &info, &worst_loss, &worst_norm));
        }
    }
    if (whole) {
        LS_TRY(compare_weights(c, t, run_name, &run));
    }
    ls_trainer_destroy(&t);
    ls_graph_destroy(&model.graph);
    c->rt->config = of_runtime;
    lsi_config_destroy(&config);
    lsi_safetensors_close(&run);
    return LS_OK;
}

static ls_status open_set(check *c)
{
    static const char *const kinds[] = {"weights", "batches", "expected"};
    lsi_safetensors *files[] = {&c->weights, &c->batches, &c->expected};

    for (int i = 0; i < 3; i++) {
        char path[1024];

        snprintf(path, sizeof path, "%s/%s.%s.safetensors", c->opt.folder, c->opt.name, kinds[i]);
        LS_TRY(lsi_safetensors_open(path, files[i]));
    }
    const lsi_tensor *targets = lsi_safetensors_find(&c->batches, "targets");
    LS_REQUIRE(targets != NULL && targets->shape.rank >= 2 && lsi_safetensors_find(&c->batches, "inputs") != NULL,
               LS_ERR_DATA, "%s: no inputs and targets", c->batches.path);
    LS_REQUIRE(is_gpt(c) || lsi_safetensors_metadata(&c->weights, "dims") != NULL, LS_ERR_DATA,
               "%s: metadata has neither layers (gpt) nor dims (mlp)", c->weights.path);
    bool bf16 = strcmp(c->opt.compute, "bf16") == 0, f16 = strcmp(c->opt.compute, "f16") == 0;
    c->limit = bf16 ? 3e-2 : f16 ? 5e-3 : 1e-5;
    c->loss_limit = bf16 ? 1e-3 : f16 ? 1e-4 : 1e-5;
    c->n_batches = targets->shape.dim[0];
    c->batch = targets->shape.dim[1];
    return LS_OK;
}

static ls_status parse(int argc, char **argv, options *out)
{
    options o = {.compute = "f32", .factor = 1};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--micro-batch") == 0 && i + 1 < argc) {
            o.micro_batch = atoll(argv[++i]);
        } else if (strcmp(argv[i], "--compute") == 0 && i + 1 < argc) {
            o.compute = argv[++i];
        } else if (strcmp(argv[i], "--scale-gradient") == 0 && i + 2 < argc) {
            o.scaled = argv[++i];
            o.factor = atof(argv[++i]);
        } else if (o.folder == NULL && argv[i][0] != '-') {
            o.folder = argv[i];
        } else if (o.name == NULL && argv[i][0] != '-') {
            o.name = argv[i];
        } else {
            return LS_FAIL(LS_ERR_USAGE, "unexpected argument '%s'", argv[i]);
        }
    }
    LS_REQUIRE(o.name != NULL, LS_ERR_USAGE,
               "usage: reference_check DIR NAME [--micro-batch N] [--compute f32|bf16|f16] [--scale-gradient PARAMETER "
               "FACTOR]");
    *out = o;
    return LS_OK;
}

int main(int argc, char **argv)
{
    static const char *const runs[] = {"adamw", "adamw_clip", "sgd"};
    check c = {0};
    lsi_config *config = NULL;
    ls_status status = lsi_job_open("reference_check", &argc, &argv, &c.job);

    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = parse(argc, argv, &c.opt);
    if (status == LS_OK) {
        status = open_set(&c);
    }
    if (status == LS_OK) {
        status = make_config(&c, NULL, &config);
    }
    status = lsi_job_agree(c.job, status);
    if (status != LS_OK) {
        lsi_job_close(&c.job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(c.job, config, &c.rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    for (int i = 0; status == LS_OK && i < 3; i++) {
        status = check_run(&c, runs[i], i == 0);
    }
    if (status == LS_OK && c.job->rank == 0) {
        printf("%s %s: %d rules broken\n", c.opt.name, c.opt.compute, c.n_broken);
        fflush(stdout);
    }
    int code = ls_runtime_close(&c.rt, status);
    lsi_safetensors_close(&c.weights);
    lsi_safetensors_close(&c.batches);
    lsi_safetensors_close(&c.expected);
    return code != 0 ? code : c.n_broken > 0;
}
