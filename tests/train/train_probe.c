/* train_probe [--dump FILE] [--mask A|B] [--in-flight N] [--snapshots] [--evaluate] [--leave-out WAIT]
 *             [--plant NAME STEP] section.key=value...
 *
 * Trains what the settings say through the real runtime and trainer, for tests that need what the trainer program does
 * not offer: the gradient of the last step (FILE: loss f64, counted f64, n i64, n gradients f32), targets masked by a
 * coin per sample and position (A and B are complementary), two steps in flight, a snapshot of the state after every
 * step, an evaluation on the training data at the end, a step with one wait left out, and a violation planted into one
 * (probe_plants.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/datasets.h"
#include "models/models.h"
#include "train/probe_plants.h"
#include "train/trainer.h"

typedef struct probe {
    const char *dump;
    char mask;                  /* 0, 'A' or 'B' */
    bool snapshots, evaluates;
    lsi_step_hooks hooks;
    const probe_plant *plant;   /* NULL: none */
    int64_t plant_step;         /* from 1 */
    const char **sets;
    int n_sets;
    int64_t seed;
} probe;

/* ---- masked targets -------------------------------------------------------------------------------------------- */

typedef struct masked {
    ls_dataset head;
    const ls_dataset *inner;
    char mask;
} masked;

static void masked_close(ls_dataset *dataset)
{
    (void)dataset;
}

static ls_status masked_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const masked *m = (const masked *)dataset;
    int32_t *target = targets;

    LS_TRY(m->inner->ops->read(m->inner, index, input, targets));
    for (int64_t i = 0; i < dataset->target_count; i++) {
        bool heads = lsi_random_philox(7, (uint32_t)index, (uint32_t)i, 0, 0).v[0] & 1;

        if (heads != (m->mask == 'A')) {
            target[i] = LS_TARGET_IGNORED;
        }
    }
    return LS_OK;
}

static const ls_dataset_ops masked_ops = {sizeof masked_ops, "masked", masked_close, masked_read};

/* ---- snapshots --------------------------------------------------------------------------------------------------- */

/* The snapshot taken last, while the step after it is queued: what is in it says whether its update waited. */
static ls_status add_snapshot(ls_trainer *t, uint64_t *hash)
{
    int64_t n_owned = 0;

    LS_TRY(lsi_state_snapshot_wait(t));
    for (int i = 0; i < lsi_state_n_runs(t); i++) {
        n_owned += lsi_state_runs(t)[i].count;
    }
    for (int a = 0; a < lsi_state_n_arrays(t); a++) {
        uint64_t words[2] = {*hash, lsi_hash64(lsi_state_snapshot_of(t, a), (size_t)n_owned * sizeof(float))};

        *hash = lsi_hash64(words, sizeof words);
    }
    return LS_OK;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

/* Collective; rank 0 writes. */
static ls_status write_dump(const probe *p, ls_trainer *t)
{
    int64_t n = t->params->n_elements;
    double head[2] = {t->last.state.loss, (double)t->last.state.counted};
    float *gradients;
    FILE *file;

    LS_TRY(lsi_memory_alloc((size_t)n * sizeof *gradients, "gradients", (void **)&gradients));
    LS_TRY(lsi_trainer_read_gradients(t, gradients));
    if (t->rt->job->rank != 0) {
        lsi_memory_free(gradients);
        return LS_OK;
    }
    file = fopen(p->dump, "wb");
    LS_REQUIRE(file != NULL, LS_ERR_OUTPUT, "cannot open %s", p->dump);
    size_t written = fwrite(head, sizeof head, 1, file) + fwrite(&n, sizeof n, 1, file) +
                     fwrite(gradients, sizeof *gradients, (size_t)n, file);
    LS_REQUIRE(fclose(file) == 0 && written == 2 + (size_t)n, LS_ERR_OUTPUT, "cannot write %s", p->dump);
    lsi_memory_free(gradients);
    return LS_OK;
}

static ls_status evaluate(const probe *p, ls_trainer *t)
{
    ls_evaluation evaluation;

    if (!p->evaluates) {
        return LS_OK;
    }
    LS_TRY(ls_trainer_evaluate(t, t->data, 0, &evaluation));
    if (t->rt->job->rank == 0) {
        printf("evaluation %.17g\n", evaluation.loss);
    }
    return LS_OK;
}

static ls_status train(const probe *p, ls_runtime *rt, ls_trainer *t)
{
    ls_step_info info;
    ls_slot *slot;
    char hash[33];
    uint64_t snapshots = 0;

    if (p->hooks.left_out == LSI_WAIT_FULL) {
        /* A copy that comes before the loader is ordered after all, by the flag it sets: let the loader come first. */
        usleep(300000);
    }
    while (t->n_queued < t->end_step) {
        bool planted = p->plant != NULL && t->n_queued + 1 == p->plant_step;

        LS_TRY(ls_trainer_begin(t));
        if (planted && p->plant->in_step != NULL) {
            LS_TRY(p->plant->in_step(t));
        }
        while (ls_trainer_next_slot(t, &slot)) {
            if (planted && p->plant->before_slot != NULL) {
                LS_TRY(p->plant->before_slot(t));
            }
            LS_TRY(ls_trainer_forward(t, slot));
            LS_TRY(ls_trainer_backward(t, slot));
        }
        LS_TRY(ls_trainer_end(t, &info));
        if (p->snapshots && t->n_queued - t->first_step > 1) {
            LS_TRY(add_snapshot(t, &snapshots));
        }
        if (p->snapshots) {
            LS_TRY(ls_trainer_settle(t, &info));
            LS_TRY(lsi_state_snapshot(t));
        }
    }
    if (p->snapshots) {
        LS_TRY(add_snapshot(t, &snapshots));
    }
    LS_TRY(ls_trainer_settle(t, &info));
    LS_TRY(evaluate(p, t));
    LS_TRY(lsi_trainer_weights_hash(t, hash));
    if (rt->job->rank == 0) {
        printf("loss %.17g weights %s snapshots %016llx\n", info.loss, hash, (unsigned long long)snapshots);
        fflush(stdout);
    }
    return p->dump != NULL ? write_dump(p, t) : LS_OK;
}

static ls_status run(const probe *p, ls_runtime *rt)
{
    ls_dataset *data, *val;
    lsi_model model;
    ls_trainer *t;
    masked m;
    lsi_trainer_options options = {.evaluates = p->evaluates, .snapshots = p->snapshots, .hooks = &p->hooks};

    LS_TRY(lsi_datasets_open(rt->config, &data, &val));
    m = (masked){.head = *data, .inner = data, .mask = p->mask};
    m.head.ops = &masked_ops;
    LS_TRY(lsi_model_build(rt->config, data, &model));
    LS_TRY(lsi_trainer_create(rt, model.graph, model.loss, p->mask != 0 ? &m.head : data, &options, &t));
    ls_status status = train(p, rt, t);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&model.graph);
    lsi_dataset_close(&val);
    lsi_dataset_close(&data);
    return status;
}

static const probe_plant *find_plant(const char *name)
{
    const probe_plant *plant = probe_plant_find(name);

    if (plant == NULL) {
        fprintf(stderr, "train_probe: nothing to plant is called '%s'\n", name);
        exit(2);
    }
    return plant;
}

static lsi_step_wait find_wait(const char *name)
{
#define ROW(wait, text)                 \
    if (strcmp(name, #wait) == 0) {     \
        return LSI_WAIT_##wait;         \
    }
    LSI_STEP_WAITS(ROW)
#undef ROW
    fprintf(stderr, "train_probe: no wait '%s'\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    const char *sets[64];
    probe p = {.hooks = {.steps_in_flight = 1}, .sets = sets};
    lsi_config *config = NULL;
    lsi_job *job;
    ls_runtime *rt;
    ls_status status = lsi_job_open("train_probe", &argc, &argv, &job);

    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dump") == 0) {
            p.dump = argv[++i];
        } else if (strcmp(argv[i], "--mask") == 0) {
            p.mask = argv[++i][0];
        } else if (strcmp(argv[i], "--in-flight") == 0) {
            p.hooks.steps_in_flight = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--snapshots") == 0) {
            p.snapshots = true;
        } else if (strcmp(argv[i], "--evaluate") == 0) {
            p.evaluates = true;
        } else if (strcmp(argv[i], "--leave-out") == 0) {
            p.hooks.left_out = find_wait(argv[++i]);
        } else if (strcmp(argv[i], "--plant") == 0) {
            p.plant = find_plant(argv[++i]);
            p.plant_step = atoll(argv[++i]);
        } else {
            sets[p.n_sets++] = argv[i];
        }
    }
    status = lsi_job_agree(job, lsi_config_load(NULL, sets, p.n_sets, &config));
    if (status != LS_OK) {
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = run(&p, rt);
    int code = ls_runtime_close(&rt, status);
    if (code == 0 && lsi_memory_live_blocks() != 0) {
        fprintf(stderr, "train_probe: %zu blocks of memory are still alive\n", lsi_memory_live_blocks());
        code = 11;
    }
    return code;
}
