/* bench_step [--model gpt2|bytes|mlp] [--slot BxT] [--steps N] [--cpu-time] section.key=value...
 *
 * Times training steps on made-up data against what they cannot be faster than (bench/floor.md): products as the better
 * of one whole call of the library and our own op, measured between the steps in the same process; everything else by
 * the memory it must move, at the copy bandwidth measured before and after. Prints step, floor and ratio, and the same
 * for every op and shape. gpt2: GPT-2 124M with the vocabulary 50,257 (default); bytes: the same with 256; mlp: 784,
 * 2048, 2048, 10. Default: one slot of 4 x 256. Any key may be set; run it under mpirun for several processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/transport_shm.h"
#include "data/datasets.h"
#include "graph/compile.h"
#include "median.h"
#include "models/models.h"
#include "step_clock.h"
#include "step_floor.h"
#include "step_probe.h"
#include "train/trainer.h"

enum { WARM_UP = 2, MAX_SETS = 128 };

typedef struct bench {
    ls_runtime *rt;
    ls_trainer *trainer;
    int n_steps;
    bool cpu_time;
    double opened, created, first;          /* seconds: before the trainer, with it, behind the first step */
    double step[STEP_CLOCK_STEPS];
    step_probe before, after;
    lsi_shm_times collectives[2][LSI_SHM_KIND_COUNT];  /* before and behind the steps that count */
    step_floor *floor;
} bench;

/* ---- measuring ------------------------------------------------------------------------------------------------- */

static ls_status one_step(ls_trainer *t, bool count, double *seconds)
{
    double start = step_clock_seconds();
    ls_slot *slot;
    ls_step_info info;

    step_clock_begin();
    LS_TRY(ls_trainer_begin(t));
    while (ls_trainer_next_slot(t, &slot)) {
        LS_TRY(ls_trainer_forward(t, slot));
        LS_TRY(ls_trainer_backward(t, slot));
    }
    LS_TRY(ls_trainer_end(t, &info));
    /* The gather of the weights belongs to the step that follows; settling would make one more. */
    LS_TRY(lsi_trainer_collect(t));
    LS_TRY(t->backend->stream_sync(t->compute));
    step_clock_end(count);
    *seconds = step_clock_seconds() - start;
    return LS_OK;
}

/* All processes copy at the same time, as they do in a step. */
static ls_status probe(const bench *b, step_probe *out)
{
    LS_TRY(step_probe_ping(&out->ping));
    LS_TRY(lsi_job_barrier(b->rt->job));
    return step_probe_copy(b->rt->device, step_clock_seconds, &out->copy);
}

/* NULL: another transport. Several nodes have one of the same name that is built otherwise. */
static const lsi_shm_comm *shm_of(const bench *b)
{
    const ls_comm *comm = b->rt->comm;
    bool is_shm = strcmp(comm->transport->name, "shm") == 0 && comm->world > 1 && b->rt->job->n_nodes == 1;

    return is_shm ? (const lsi_shm_comm *)comm : NULL;
}

static void note_collectives(bench *b, bool end)
{
    if (shm_of(b) != NULL) {
        memcpy(b->collectives[end], shm_of(b)->times, sizeof b->collectives[end]);
    }
}

static ls_status measure(bench *b)
{
    ls_runtime *rt = b->rt;

    for (int i = -WARM_UP; i < b->n_steps; i++) {
        double seconds;

        LS_TRY(lsi_job_barrier(rt->job));
        if (i == 0) {
            note_collectives(b, false);
        }
        LS_TRY(one_step(b->trainer, i >= 0, &seconds));
        LS_TRY(lsi_job_max(rt->job, &seconds, 1));
        if (i == -WARM_UP) {
            b->first = lsi_clock_seconds();
            LS_TRY(probe(b, &b->before));
            LS_TRY(step_floor_open(rt->device, rt->affinity.threads, b->cpu_time, &b->floor));
        }
        if (i >= 0) {
            b->step[i] = seconds;
            LS_TRY(step_floor_measure(b->floor));
        }
    }
    note_collectives(b, true);
    LS_TRY(ls_trainer_settle(b->trainer, NULL));
    LS_TRY(lsi_job_barrier(rt->job));
    return probe(b, &b->after);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static void print_form(const step_clock_row *row)
{
    char text[64] = "";
    lsi_gemm_args a;

    if (step_floor_as_product(row, &a)) {
        snprintf(text, sizeof text, "%lldx%lldx%lld %c%c%s%s", (long long)a.m, (long long)a.n, (long long)a.k,
                 a.trans_a ? 'T' : 'N', a.trans_b ? 'T' : 'N', a.bias.count > 0 ? " bias" : "",
                 a.accumulate ? " +=" : "");
    } else {
        const ls_view *views = (const void *)row->arguments;
        int64_t most = 0;

        for (int i = 0; i < step_clock_n_views(row->op); i++) {
            most = views[i].count > most ? views[i].count : most;
        }
        snprintf(text, sizeof text, "%lld", (long long)most);
    }
    printf("%-18s %-24s", row->op->name, text);
}

/* Rows by time in the step, the longest first; returns what all floors add up to. */
static double print_rows(const bench *b, double step, double copy)
{
    int n, order[STEP_CLOCK_ROWS];
    const step_clock_row *rows = step_clock_rows(&n);
    double floor = 0.0, sum = 0.0;

    for (int i = 0; i < n; i++) {
        int at = i;

        for (; at > 0 && step_clock_median(rows[order[at - 1]].step, b->n_steps) <
                             step_clock_median(rows[i].step, b->n_steps);
             at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    printf("%-18s %-24s %5s %9s %9s %6s %6s\n", "op", "", "n", "ms", "floor", "ratio", "share");
    for (int i = 0; i < n; i++) {
        const step_clock_row *row = &rows[order[i]];
        double seconds = step_clock_median(row->step, b->n_steps);
        double least = row->n * step_floor_seconds(b->floor, order[i], copy);
        double library, ours;

        floor += least;
        sum += seconds;
        print_form(row);
        printf(" %5d %9.3f %9.3f ", row->n, seconds * 1e3, least * 1e3);
        printf(least > 0 ? "%6.2f" : "     -", seconds / least);
        printf(" %6.3f", seconds / step);
        if (step_floor_product(b->floor, order[i], &library, &ours)) {
            double flops = row->op->flops(row->arguments) * 1e-9;
            printf("   GFLOP/s: here %.0f, library %.0f, alone %.0f", flops * row->n / seconds, flops / library,
                   flops / ours);
        }
        printf("\n");
    }
    printf("%-43s %5s %9.3f %9s %6s %6.3f\n", "the rest of the step", "", (step - sum) * 1e3, "", "",
           (step - sum) / step);
    return floor;
}

/* Ops, all shapes of one together, that need more than 1 / 0.7 of their floor; behind the name, how much of it. */
static void print_slow_ops(const bench *b, double step, double copy)
{
    int n;
    const step_clock_row *rows = step_clock_rows(&n);
    double slow = 0.0;

    printf("slower than their floor by 1 / 0.7:");
    for (int i = 0; i < n; i++) {
        double seconds = 0.0, least = 0.0;
        bool first = true;

        for (int k = 0; k < n; k++) {
            if (rows[k].op == rows[i].op) {
                first = first && k >= i;
                seconds += step_clock_median(rows[k].step, b->n_steps);
                least += rows[k].n * step_floor_seconds(b->floor, k, copy);
            }
        }
        if (first && least < 0.7 * seconds) {
            printf(" %s %.2f (%.2f %%),", rows[i].op->name, seconds / least, 100 * seconds / step);
            slow += seconds;
        }
    }
    printf(" together %.2f %% of the step\n", 100 * slow / step);
}

/* Seconds of the collectives over shared memory, of their bytes at the copy's bandwidth, and of waiting for whoever was
 * later: that is computing, not communication. */
static void print_collectives(const bench *b, double copy)
{
    lsi_shm_times all = {0};

    if (shm_of(b) == NULL) {
        return;
    }
    for (int k = 0; k < LSI_SHM_KIND_COUNT; k++) {
        const lsi_shm_times *end = &b->collectives[1][k], *start = &b->collectives[0][k];

        all.bytes += end->bytes - start->bytes;
        all.work += (end->work - start->work) / b->n_steps;
        all.done += (end->done - start->done) / b->n_steps;
        all.ready += (end->ready - start->ready) / b->n_steps;
    }
    double least = (double)all.bytes / b->n_steps / copy;
    printf("collectives of a step: %.4f s at work, %.4f s until all were done, %.4f s for their bytes at the copy's "
           "bandwidth: ratio %.2f; %.4f s until all were ready\n",
           all.work, all.done, least, (all.work + all.done) / least, all.ready);
}

static void print_memory(const bench *b)
{
    const lsi_memory_account *account = &b->rt->account;

    printf("memory, MiB:");
    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        if (account->peak[c] >> 20 > 0) {
            printf(" %s %zu,", lsi_memory_class_text((lsi_memory_class)c), account->peak[c] >> 20);
        }
    }
    printf(" in all %zu; largest live set of activations %zu\n", account->peak_total >> 20,
           b->trainer->plan->size.bound >> 20);
}

static void print_results(const bench *b)
{
    const ls_config *c = b->rt->config;
    bool gpt = strcmp(c->model.kind, "gpt") == 0;
    double step = step_clock_median(b->step, b->n_steps), copy = b->before.copy;
    double items = (double)(c->train.global_batch * (gpt ? c->model.context : 1));

    printf("%d x %d threads, %s, slots of %lld x %lld, %lld per step, %s%s\n", b->rt->job->world,
           b->rt->affinity.threads, c->model.kind, (long long)c->train.micro_batch,
           (long long)(gpt ? c->model.context : 1), (long long)b->rt->geometry.n_slots, c->precision.compute,
           b->cpu_time ? "; times are cpu time over threads" : "");
    printf("copy %.1f to %.1f GB/s read and written, ping %.0f to %.0f ns\n", b->before.copy * 1e-9,
           b->after.copy * 1e-9, b->before.ping * 1e9, b->after.ping * 1e9);
    double floor = print_rows(b, step, copy);
    print_slow_ops(b, step, copy);
    double sorted[STEP_CLOCK_STEPS];
    memcpy(sorted, b->step, sizeof sorted);
    qsort(sorted, (size_t)b->n_steps, sizeof *sorted, bench_by_value);
    printf("step %.4f s (median of %d, %.4f to %.4f)  floor %.4f s  ratio %.3f  %.1f %s/s\n", step, b->n_steps,
           sorted[0], sorted[b->n_steps - 1], floor, step / floor, items / step, gpt ? "tokens" : "samples");
    printf("of the last step: compute %.4f s, collectives %.4f s, from the last gradient to the commit %.4f s\n",
           b->trainer->times.compute, b->trainer->times.comm, b->trainer->times.comm_exposed);
    print_collectives(b, copy);
    if (!b->cpu_time) {
        printf("start-up: trainer made in %.3f s, first step done %.3f s later: %.2f steps\n", b->created - b->opened,
               b->first - b->created, (b->first - b->created) / step);
    }
    print_memory(b);
    if (step_probe_differs(&b->before, &b->after)) {
        printf("DISCARD this run: copy bandwidth or ping changed by more than a fifth\n");
    }
    fflush(stdout);
}

/* ---- set-up ---------------------------------------------------------------------------------------------------- */

static ls_status run(bench *b)
{
    ls_dataset *data, *val;
    lsi_model model;

    LS_TRY(lsi_datasets_open(b->rt->config, &data, &val));
    LS_TRY(lsi_model_build(b->rt->config, data, &model));
    LS_TRY(step_clock_open(b->rt->device, b->cpu_time, b->rt->affinity.threads));
    b->opened = lsi_clock_seconds();
    ls_status status = ls_trainer_create(b->rt, model.graph, model.loss, data, &b->trainer);
    b->created = lsi_clock_seconds();
    if (status == LS_OK) {
        status = measure(b);
    }
    if (status == LS_OK && b->rt->job->rank == 0) {
        print_results(b);
    }
    step_floor_close(&b->floor);
    ls_trainer_destroy(&b->trainer);
    step_clock_close();
    ls_graph_destroy(&model.graph);
    lsi_dataset_close(&data);
    return status;
}

typedef struct settings {
    const char *set[MAX_SETS];
    int n;
    char slot[3][64];
} settings;

static void add(settings *s, const char *set)
{
    if (s->n < MAX_SETS) {
        s->set[s->n++] = set;
    }
}

static bool add_model(settings *s, const char *name)
{
    static const char *const gpt[] = {"model.kind=gpt",    "model.layers=12",   "model.heads=12",
                                      "model.width=768",   "model.context=256", "data.kind=synthetic",
                                      "data.samples=1024", "train.lanes=1",     "train.steps=1000000",
                                      "checkpoint.save=false",
                                      "log.level=warn"};
    static const char *const mlp[] = {"model.kind=mlp",    "model.hidden=2048,2048", "data.kind=synthetic",
                                      "data.features=784", "data.samples=4096",      "train.steps=1000000",
                                      "log.level=warn",    "train.lanes=1",         "checkpoint.save=false"};

    if (strcmp(name, "mlp") == 0) {
        for (size_t i = 0; i < sizeof mlp / sizeof mlp[0]; i++) {
            add(s, mlp[i]);
        }
        return true;
    }
    for (size_t i = 0; i < sizeof gpt / sizeof gpt[0]; i++) {
        add(s, gpt[i]);
    }
    add(s, strcmp(name, "gpt2") == 0 ? "model.vocab=50257" : "model.vocab=256");
    return strcmp(name, "gpt2") == 0 || strcmp(name, "bytes") == 0;
}

/* B x T: as many samples in a slot, of so many tokens. A step has one slot for each process. */
static bool add_slot(settings *s, const char *text, bool gpt, int world)
{
    long long samples, tokens = 1;

    if (sscanf(text, "%lldx%lld", &samples, &tokens) < 1) {
        return false;
    }
    snprintf(s->slot[0], sizeof s->slot[0], "train.micro_batch=%lld", samples);
    snprintf(s->slot[1], sizeof s->slot[1], "train.global_batch=%lld", samples * world);
    snprintf(s->slot[2], sizeof s->slot[2], "model.context=%lld", tokens);
    add(s, s->slot[0]);
    add(s, s->slot[1]);
    if (gpt) {
        add(s, s->slot[2]);
    }
    if (world > 1) {
        add(s, "train.lanes=0");
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *model = "gpt2", *slot = NULL, *own[MAX_SETS];
    settings s = {.n = 0};
    bench b = {.n_steps = 7};
    int n_own = 0;
    lsi_config *config = NULL;
    lsi_job *job;
    ls_status status = lsi_job_open("bench_step", &argc, &argv, &job);

    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    for (int i = 1; i < argc && n_own < MAX_SETS / 2; i++) {
        bool more = i + 1 < argc;

        if (strcmp(argv[i], "--steps") == 0 && more) {
            b.n_steps = atoi(argv[++i]);
            b.n_steps = b.n_steps < 1 ? 1 : b.n_steps > STEP_CLOCK_STEPS ? STEP_CLOCK_STEPS : b.n_steps;
        } else if (strcmp(argv[i], "--model") == 0 && more) {
            model = argv[++i];
        } else if (strcmp(argv[i], "--slot") == 0 && more) {
            slot = argv[++i];
        } else if (strcmp(argv[i], "--cpu-time") == 0) {
            b.cpu_time = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            puts("bench_step [--model gpt2|bytes|mlp] [--slot BxT] [--steps N] [--cpu-time] section.key=value...\n"
                 "Times training steps and every op in them against their floors; bench/README.md says more.");
            lsi_job_close(&job);
            return 0;
        } else {
            own[n_own++] = argv[i];
        }
    }
    bool gpt = strcmp(model, "mlp") != 0;
    if (!add_model(&s, model) || !add_slot(&s, slot != NULL ? slot : gpt ? "4x256" : "128", gpt, job->world)) {
        fprintf(stderr, "bench_step: error: --model is one of gpt2, bytes, mlp; --slot like 4x256\n");
        lsi_job_close(&job);
        return ls_status_exit_code(LS_ERR_CONFIG);
    }
    for (int i = 0; i < n_own; i++) {
        add(&s, own[i]);
    }
    status = lsi_job_agree(job, lsi_config_load(NULL, s.set, s.n, &config));
    if (status != LS_OK) {
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &b.rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    return ls_runtime_close(&b.rt, run(&b));
}
