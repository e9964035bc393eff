#include "loop/tune.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/datasets.h"
#include "models/models.h"
#include "train/gemm_list.h"
#include "train/gemm_time.h"
#include "train/trainer.h"

typedef struct tuner {
    ls_runtime *rt;
    const lsi_gemm_choices *choices;
    const char *path;
    ls_dataset *train, *val;
    lsi_model model;
    lsi_gemm_list list;
    lsi_gemm_timer *timer;
    lsi_tuning tuning;
    double default_seconds, best_seconds; /* of one slot's products */
} tuner;

/* ---- before anything is measured ----------------------------------------------------------------------------------
 */

enum { PLAN_LIMIT = 64 << 20 };

/* FILE and CONFIG in the wrong order must not cost the configuration. */
static ls_status check_target(const char *path)
{
    lsi_tuning old;
    char *text;
    size_t size;

    if (access(path, F_OK) != 0) {
        return LS_OK;
    }
    LS_TRY(lsi_file_read(path, PLAN_LIMIT, LS_ERR_OUTPUT, &text, &size));
    ls_status status = lsi_tuning_parse(path, text, size, &old);
    lsi_memory_free(text);
    LS_REQUIRE(
        status == LS_OK, LS_ERR_USAGE,
        "--tune-gemm FILE CONFIG: %s exists and is no plan that could be replaced; remove it, or name another one",
        path);
    lsi_tuning_free(&old);
    return LS_OK;
}

static ls_status check(const tuner *t)
{
    LS_REQUIRE(t->rt->job->world == 1, LS_ERR_USAGE,
               "--tune-gemm measures one GPU: run it without mpirun; its plan is for any number of processes, whose "
               "products are the same");
    LS_REQUIRE(t->choices != NULL, LS_ERR_USAGE,
               "--tune-gemm: the %s backend makes products in one way, there is nothing to tune; it takes a GPU "
               "(device.backend = cuda)",
               t->rt->backend->name);
    return check_target(t->path);
}

static ls_status open_model(tuner *t)
{
    const ls_config *config = t->rt->config;
    bool tf32 = strcmp(config->precision.compute, "tf32") == 0;
    ls_plan *plan;

    LS_TRY(lsi_config_check_inputs(t->rt->loaded));
    LS_TRY(lsi_datasets_open(config, &t->train, &t->val));
    LS_TRY(lsi_model_build(config, t->train, &t->model));
    LS_TRY(lsi_trainer_compile(config, t->model.graph, t->model.loss, LS_TRAIN, &plan));
    LS_TRY(lsi_gemm_list_add(&t->list, plan, tf32));
    LS_TRY(lsi_trainer_compile(config, t->model.graph, t->model.loss, LS_EVAL, &plan));
    LS_TRY(lsi_gemm_list_add(&t->list, plan, tf32));
    LS_TRY(lsi_gemm_timer_open(t->rt->device, t->list.item, t->list.n, &t->timer));
    LS_TRY(lsi_memory_alloc((size_t)(t->list.n + 1) * sizeof *t->tuning.entry, "plan of matrix products",
                            (void **)&t->tuning.entry));
    LS_TRY(lsi_memory_strdup(t->choices->model(t->rt->device), &t->tuning.device));
    return lsi_memory_strdup(t->choices->library(t->rt->device), &t->tuning.library);
}

/* ---- measuring ------------------------------------------------------------------------------------------------------
 */

/* Of one proposal, made from its numbers as a run will make it. False: it cannot be. */
static ls_status try_proposal(tuner *t, const lsi_gemm_shape *shape, const lsi_gemm_algorithm *proposal, lsi_tuned *out,
                              bool *made)
{
    ls_device *device = t->rt->device;
    lsi_gemm_algorithm algorithm;
    double seconds;

    out->shape = *shape;
    *made = t->choices->settings(proposal, &out->settings) == LS_OK &&
            t->choices->make(device, shape, &out->settings, &algorithm) == LS_OK;
    if (!*made) {
        return LS_OK;
    }
    LS_TRY(t->choices->install(device, shape, &algorithm));
    LS_TRY(lsi_gemm_timer_measure(t->timer, shape, &seconds));
    out->microseconds = seconds * 1e6;
    return LS_OK;
}

static ls_status install_best(tuner *t, const lsi_tuned *best)
{
    lsi_gemm_algorithm algorithm;

    LS_TRY(t->choices->make(t->rt->device, &best->shape, &best->settings, &algorithm));
    return t->choices->install(t->rt->device, &best->shape, &algorithm);
}

static ls_status tune_item(tuner *t, int i)
{
    const lsi_gemm_item *item = &t->list.item[i];
    lsi_gemm_algorithm proposal[LSI_GEMM_MAX_PROPOSALS];
    lsi_tuned best = {0};
    double first = 0;
    int n, n_tried = 0;

    LS_TRY(t->choices->propose(t->rt->device, &item->shape, proposal, &n));
    for (int p = 0; p < n; p++) {
        lsi_tuned tried;
        bool made;

        LS_TRY(try_proposal(t, &item->shape, &proposal[p], &tried, &made));
        if (!made) {
            continue;
        }
        first = n_tried++ == 0 ? tried.microseconds : first;
        best = n_tried == 1 || tried.microseconds < best.microseconds ? tried : best;
    }
    LS_REQUIRE(n_tried > 0, LS_ERR_DEVICE,
               "none of the library's %d algorithms for the product of %s can be written "
               "down",
               n, lsi_gemm_shape_text(&item->shape).text);
    LS_TRY(install_best(t, &best)); /* a product with an epilogue split off is measured with it */
    t->tuning.entry[t->tuning.n++] = best;
    t->default_seconds += first * 1e-6 * (double)item->n_launches;
    t->best_seconds += best.microseconds * 1e-6 * (double)item->n_launches;
    lsi_log_progress("product %d/%d  %s  (%s): best of %d algorithms %.1f us, the library's first %.1f us", i + 1,
                     t->list.n, lsi_gemm_shape_text(&item->shape).text, item->layer, n_tried, best.microseconds, first);
    return LS_OK;
}

static ls_status write_plan(tuner *t)
{
    lsi_text text = {0};

    LS_TRY(lsi_tuning_seal(&t->tuning));
    ls_status status = lsi_tuning_print(&t->tuning, &text);
    if (status == LS_OK) {
        status = lsi_file_replace(t->path, text.data, text.length);
    }
    lsi_text_free(&text);
    LS_TRY(status);
    lsi_log_info(
        "wrote %s: gemm plan %s of %d products on %s with %s; products of a training and an evaluation slot take %.3f "
        "ms, by the library's first choices %.3f ms; a run takes it by device.gemm_plan",
        t->path, t->tuning.hash, t->tuning.n, t->tuning.device, t->tuning.library, t->best_seconds * 1e3,
        t->default_seconds * 1e3);
    return LS_OK;
}

static ls_status tune(tuner *t)
{
    LS_TRY(check(t));
    lsi_watchdog_enter(t->rt->watchdog, "opening the data");
    LS_TRY(open_model(t));
    for (int i = 0; i < t->list.n; i++) {
        lsi_watchdog_enter(t->rt->watchdog, "measuring matrix products");
        LS_TRY(tune_item(t, i));
    }
    return write_plan(t);
}

ls_status lsi_run_tuning(ls_runtime *runtime, const char *path)
{
    tuner t = {.rt = runtime, .path = path, .choices = lsi_gemm_choices_of(runtime->device)};
    ls_status status = lsi_runtime_agree(runtime, tune(&t));

    lsi_gemm_timer_close(&t.timer);
    lsi_gemm_list_free(&t.list);
    lsi_tuning_free(&t.tuning);
    ls_graph_destroy(&t.model.graph);
    lsi_dataset_close(&t.val);
    lsi_dataset_close(&t.train);
    return status;
}
