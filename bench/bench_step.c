/* bench_step [--steps N] section.key=value...
 *
 * Times training steps of a GPT on random tokens, and beside them, in the same process and interleaved with the steps,
 * the model's GEMMs as whole calls of the library on the same number of threads. Prints the median step, tokens/s and
 * the GEMM share: what part of the step the library's own calls would take. Default: 12 layers, width 768, vocabulary
 * 256, slots of 4 x 256. Any key may be set; run it under mpirun for several processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/datasets.h"
#include "models/models.h"
#include "train/trainer.h"

void omp_set_num_threads(int n);

enum { MAX_STEPS = 1000, WARM_UP = 2 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* ---- the library's own GEMMs ----------------------------------------------------------------------------------- */

typedef struct gemms {
    float *a, *b, *c;
    int64_t rows, width, layers, vocab;
} gemms;

/* One linear layer of a slot, forward, input gradient and weight gradient, as whole library calls. */
static double linear_seconds(gemms *g, int64_t in, int64_t out)
{
    double start = lsi_clock_seconds();

    dnnl_sgemm('N', 'N', g->rows, out, in, 1, g->a, in, g->b, out, 0, g->c, out);
    dnnl_sgemm('N', 'T', g->rows, in, out, 1, g->a, out, g->b, out, 0, g->c, in);
    dnnl_sgemm('T', 'N', in, out, g->rows, 1, g->a, in, g->b, out, 1, g->c, out);
    return lsi_clock_seconds() - start;
}

/* Seconds of all linear layers of one slot: one measurement of each shape. */
static double slot_seconds(gemms *g)
{
    int64_t c = g->width;
    double block = linear_seconds(g, c, 3 * c) + linear_seconds(g, c, c) + linear_seconds(g, c, 4 * c) +
                   linear_seconds(g, 4 * c, c);

    return (double)g->layers * block + linear_seconds(g, c, g->vocab);
}

static double slot_flops(const gemms *g)
{
    double c = (double)g->width;

    return 6.0 * (double)g->rows * ((double)g->layers * 12 * c * c + c * (double)g->vocab);
}

static ls_status open_gemms(const ls_config *config, gemms *g)
{
    int64_t rows = config->train.micro_batch * config->model.context, c = config->model.width;
    int64_t wide = 4 * c > config->model.vocab ? 4 * c : config->model.vocab;
    size_t large = (size_t)((rows > c ? rows : c) * wide) * sizeof(float),
           weights = (size_t)(c * wide + rows * wide) * sizeof(float);

    *g = (gemms){.rows = rows, .width = c, .layers = config->model.layers, .vocab = config->model.vocab};
    LS_TRY(lsi_memory_alloc(large, "a", (void **)&g->a));
    LS_TRY(lsi_memory_alloc(weights, "b", (void **)&g->b));
    LS_TRY(lsi_memory_alloc(weights, "c", (void **)&g->c));
    for (size_t i = 0; i < large / sizeof(float); i++) {
        g->a[i] = (float)(i % 17) * 0.1f - 0.8f;
    }
    for (size_t i = 0; i < weights / sizeof(float); i++) {
        g->b[i] = (float)(i % 13) * 0.1f - 0.6f;
    }
    return LS_OK;
}

static void close_gemms(gemms *g)
{
    lsi_memory_free(g->a);
    lsi_memory_free(g->b);
    lsi_memory_free(g->c);
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

static ls_status one_step(ls_trainer *t, double *seconds)
{
    double start = lsi_clock_seconds();
    ls_slot *slot;
    ls_step_info info;

    LS_TRY(ls_trainer_begin(t));
    while (ls_trainer_next_slot(t, &slot)) {
        LS_TRY(ls_trainer_forward(t, slot));
        LS_TRY(ls_trainer_backward(t, slot));
    }
    LS_TRY(ls_trainer_end(t, &info));
    LS_TRY(ls_trainer_settle(t, &info));
    *seconds = lsi_clock_seconds() - start;
    return LS_OK;
}

static ls_status measure(ls_runtime *rt, ls_trainer *t, int n_steps)
{
    static double steps[MAX_STEPS], library[MAX_STEPS];
    const ls_config *config = rt->config;
    gemms g;

    LS_TRY(open_gemms(config, &g));
    omp_set_num_threads(rt->affinity.threads);
    for (int i = -WARM_UP; i < n_steps; i++) {
        double step, gemm;

        LS_TRY(one_step(t, &step));
        LS_TRY(lsi_job_max(rt->job, &step, 1));
        gemm = slot_seconds(&g);
        LS_TRY(lsi_job_max(rt->job, &gemm, 1));
        if (i >= 0) {
            steps[i] = step;
            library[i] = gemm;
        }
    }
    if (rt->job->rank == 0) {
        double step = median(steps, n_steps), gemm = median(library, n_steps) * (double)t->sizes.n_local;
        double tokens = (double)(config->train.global_batch * config->model.context);

        printf("%d x %d threads, %lld layers, width %lld, vocabulary %lld, slots of %lld x %lld, %lld per step, %s\n",
               rt->job->world, rt->affinity.threads, (long long)config->model.layers, (long long)config->model.width,
               (long long)config->model.vocab, (long long)config->train.micro_batch, (long long)config->model.context,
               (long long)rt->geometry.n_slots, config->precision.compute);
        printf("step %.4f s (median of %d, %.4f to %.4f)  %.1f tokens/s\n", step, n_steps, steps[0], steps[n_steps - 1],
               tokens / step);
        printf("of the last step: compute %.4f s, collectives %.4f s, from the last gradient to the commit %.4f s\n",
               t->times.compute, t->times.comm, t->times.comm_exposed);
        printf("library GEMMs %.4f s (%.0f GFLOP/s per process)  GEMM share %.3f\n", gemm,
               slot_flops(&g) * (double)t->sizes.n_local / gemm * 1e-9, gemm / step);
        fflush(stdout);
    }
    close_gemms(&g);
    return LS_OK;
}

static ls_status run(ls_runtime *rt, int n_steps)
{
    ls_dataset *data, *val;
    lsi_model model;
    ls_trainer *t;

    LS_TRY(lsi_datasets_open(rt->config, &data, &val));
    LS_TRY(lsi_model_build(rt->config, data, &model));
    LS_TRY(ls_trainer_create(rt, model.graph, model.loss, data, &t));
    ls_status status = measure(rt, t, n_steps);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&model.graph);
    lsi_dataset_close(&data);
    return status;
}

int main(int argc, char **argv)
{
    const char *sets[128] = {
        "model.kind=gpt",    "model.layers=12",     "model.heads=12",  "model.width=768",      "model.vocab=256",
        "model.context=256", "data.kind=synthetic", "data.samples=64", "train.global_batch=8", "train.micro_batch=4",
        "train.lanes=2",     "train.steps=1000000", "log.level=warn"};
    int n_sets = 13, n_steps = 7;
    lsi_config *config = NULL;
    lsi_job *job;
    ls_runtime *rt;
    ls_status status = lsi_job_open("bench_step", &argc, &argv, &job);

    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    for (int i = 1; i < argc && n_sets < 128; i++) {
        if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
            n_steps = atoi(argv[++i]);
            n_steps = n_steps < 1 ? 1 : n_steps > MAX_STEPS ? MAX_STEPS : n_steps;
        } else {
            sets[n_sets++] = argv[i];
        }
    }
    status = lsi_job_agree(job, lsi_config_load(NULL, sets, n_sets, &config));
    if (status != LS_OK) {
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    return ls_runtime_close(&rt, run(rt, n_steps));
}
