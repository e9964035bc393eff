/* regression_probe [--whole train|val] [--alter RANK] section.key=value...
 *
 * Trains the regression of tests/support/model_case.h on made-up samples through the real runtime and trainer, for
 * test_regression.py, and evaluates it on samples that leave the last slot short. Some targets of either set are
 * ignored. Prints the loss of the last step, the weights' hash, the evaluation, and what the test's own model in double
 * makes of the same weights and samples. --whole: that data set says its targets are whole numbers. --alter: that rank
 * starts one parameter otherwise. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/model_case.h"
#include "train/trainer.h"

enum { FEATURES = 12, USER = 7, ITEM = FEATURES - USER, HIDDEN = 16, WIDTH = 6, N_TRAIN = 200, N_VAL = 13 };

/* ---- samples --------------------------------------------------------------------------------------------------- */

/* What the towers can learn: a product of one number of either side, and a sum. */
static ls_status read_sample(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    uint32_t key = dataset->n_samples == N_VAL ? 2 : 1;
    float *x = input, *y = targets;

    for (int i = 0; i < FEATURES; i++) {
        x[i] = 2.0f * lsi_random_unit(lsi_random_philox(key, (uint32_t)index, (uint32_t)i, 0, 0).v[0]) - 1.0f;
    }
    *y = index % 11 == 5 ? NAN : x[0] * x[USER] + 0.5f * x[1];
    return LS_OK;
}

static void close_nothing(ls_dataset *dataset)
{
    (void)dataset;
}

static const ls_dataset_ops sample_ops = {sizeof sample_ops, "regression", close_nothing, read_sample};

static ls_dataset make_data(int64_t n, const char *whole)
{
    return (ls_dataset){.ops = &sample_ops,
                        .n_samples = n,
                        .input_dtype = LS_F32,
                        .input_shape = ls_shape1(FEATURES),
                        .target_count = 1,
                        .real_targets = whole == NULL || strcmp(whole, n == N_VAL ? "val" : "train") != 0,
                        .description = "regression"};
}

/* ---- the model in double --------------------------------------------------------------------------------------- */

static const float *find(const ls_trainer *t, const float *weights, const char *tower, const char *name)
{
    char full[64];

    snprintf(full, sizeof full, "%s.%s", tower, name);
    return weights + t->params->param[lsi_param_find(t->params, full)].offset;
}

/* Weights are [in, out]. */
static void run_tower(const ls_trainer *t, const float *weights, const char *tower, const float *x, int n, double *out)
{
    const float *w0 = find(t, weights, tower, "fc0.weight"), *b0 = find(t, weights, tower, "fc0.bias");
    const float *w1 = find(t, weights, tower, "fc1.weight"), *b1 = find(t, weights, tower, "fc1.bias");

    for (int j = 0; j < WIDTH; j++) {
        out[j] = (double)b1[j];
    }
    for (int h = 0; h < HIDDEN; h++) {
        double v = (double)b0[h];

        for (int i = 0; i < n; i++) {
            v += (double)x[i] * (double)w0[i * HIDDEN + h];
        }
        v *= 0.5 * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
        for (int j = 0; j < WIDTH; j++) {
            out[j] += v * (double)w1[h * WIDTH + j];
        }
    }
}

static double reference_loss(const ls_trainer *t, const float *weights, const ls_dataset *data)
{
    double sum = 0.0, counted = 0.0;

    for (int64_t s = 0; s < data->n_samples; s++) {
        float x[FEATURES], y;
        double user[WIDTH], item[WIDTH], score = 0.0;

        (void)read_sample(data, s, x, &y);
        run_tower(t, weights, "user", x, USER, user);
        run_tower(t, weights, "item", x + USER, ITEM, item);
        for (int j = 0; j < WIDTH; j++) {
            score += user[j] * item[j];
        }
        if (!isnan(y)) {
            sum += (score - (double)y) * (score - (double)y);
            counted += 1.0;
        }
    }
    return sum / counted;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static ls_status report(ls_runtime *rt, ls_trainer *t, const char *whole, double loss)
{
    ls_dataset val = make_data(N_VAL, whole);
    ls_evaluation evaluation;
    float *weights;
    char hash[33];

    LS_TRY(ls_trainer_evaluate(t, &val, 0, &evaluation));
    LS_TRY(lsi_trainer_weights_hash(t, hash));
    LS_TRY(lsi_memory_alloc((size_t)t->params->n_elements * sizeof *weights, "weights", (void **)&weights));
    LS_TRY(lsi_trainer_read_weights(t, weights));
    if (rt->job->rank == 0) {
        printf("loss %.17g weights %s eval %.17g samples %lld counted %lld reference %.17g\n", loss, hash,
               evaluation.loss, (long long)evaluation.samples, (long long)evaluation.counted,
               reference_loss(t, weights, &val));
        fflush(stdout);
    }
    lsi_memory_free(weights);
    return LS_OK;
}

static ls_status train(ls_runtime *rt, ls_trainer *t, const char *whole)
{
    ls_step_info info;
    ls_slot *slot;

    while (t->n_queued < t->end_step) {
        LS_TRY(ls_trainer_begin(t));
        while (ls_trainer_next_slot(t, &slot)) {
            LS_TRY(ls_trainer_forward(t, slot));
            LS_TRY(ls_trainer_backward(t, slot));
        }
        LS_TRY(ls_trainer_end(t, &info));
    }
    LS_TRY(ls_trainer_settle(t, &info));
    return report(rt, t, whole, info.loss);
}

static ls_status run(ls_runtime *rt, const char *whole, int altered)
{
    ls_dataset data = make_data(N_TRAIN, whole);
    lsi_model model;
    ls_trainer *t;

    model_case_build(MODEL_CASES - 1, 0.1, &model);
    if (rt->job->rank == altered) {
        lsi_graph_params(model.graph)->param[1].init.value *= 2;
    }
    ls_status status = ls_trainer_create(rt, model.graph, model.loss, &data, &t);

    if (status == LS_OK) {
        status = train(rt, t, whole);
        ls_trainer_destroy(&t);
    }
    ls_graph_destroy(&model.graph);
    return status;
}

int main(int argc, char **argv)
{
    lsi_config *config = NULL;
    lsi_job *job;
    ls_runtime *rt;
    ls_status status = lsi_job_open("trainer", &argc, &argv, &job);
    const char *whole = argc > 2 && strcmp(argv[1], "--whole") == 0 ? argv[2] : NULL;
    int altered = argc > 2 && strcmp(argv[1], "--alter") == 0 ? atoi(argv[2]) : -1;
    int first = whole != NULL || altered >= 0 ? 3 : 1;

    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = lsi_job_agree(job, lsi_config_load(NULL, (const char **)argv + first, argc - first, &config));
    if (status != LS_OK) {
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = run(rt, whole, altered);
    return ls_runtime_close(&rt, status);
}
