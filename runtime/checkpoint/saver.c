#include "checkpoint/saver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"
#include "checkpoint/assemble.h"
#include "checkpoint/copy.h"
#include "checkpoint/folder.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/shelf.h"
#include "checkpoint/writer.h"
#include "config/config.h"

typedef enum phase {
    IDLE,
    WRITING,        /* every rank's thread writes its pieces */
    PUBLISHING      /* rank 0's thread writes the manifest, renames, removes old ones */
} phase;

typedef struct best {
    int64_t step;       /* 0: none */
    double loss;
} best;

struct lsi_saver {
    lsi_saver_options options;
    ls_trainer *trainer;
    ls_runtime *rt;
    const char *dir;
    lsi_copy copy;
    lsi_writer *writer;
    lsi_text config, hf_config;

    phase phase;
    int64_t saved_step;         /* of the newest checkpoint that is there, or was resumed from */
    best best;                  /* the lowest validation loss so far */
    best best_there;            /* the lowest one that has a checkpoint, which a failed save falls back to */

    /* Of the one under way. */
    int64_t step;
    best best_of_save;
    char *partial, *path;       /* its folder before and after the rename */
    ls_step_state state;
    lsi_saver_point point;
    double began, stalled;
    lsi_text manifest;
};

/* ---- opening ------------------------------------------------------------------------------------------------- */

static ls_status prepare(lsi_saver *s)
{
    int vocab = lsi_param_find(s->trainer->params, "wte.weight");

    LS_TRY(lsi_copy_open(s->trainer, s->options.place->shared, &s->copy));
    lsi_config_print(s->rt->loaded, &s->config);
    LS_TRY(lsi_text_status(&s->config));
    if (vocab >= 0) {
        LS_TRY(lsi_hf_config(s->rt->config, s->trainer->params->param[vocab].shape.dim[0], &s->hf_config));
    }
    return lsi_writer_start(&s->writer);
}

ls_status lsi_saver_open(const lsi_saver_options *options, lsi_saver **out)
{
    ls_runtime *rt = options->trainer->rt;
    lsi_saver *s;

    LS_TRY(lsi_runtime_agree(rt, lsi_memory_alloc(sizeof *s, "checkpoints", (void **)&s)));
    s->options = *options;
    s->trainer = options->trainer;
    s->rt = rt;
    s->dir = options->place->dir;
    s->saved_step = options->from->found && options->from->in_place ? options->from->step : 0;
    if (options->from->in_place) {
        s->best = s->best_there = (best){options->from->best_step, options->from->best_loss};
    }
    ls_status status = lsi_runtime_agree(rt, prepare(s));
    if (status != LS_OK) {
        lsi_saver_close(&s);
        return status;
    }
    *out = s;
    return LS_OK;
}

static void forget(lsi_saver *s)
{
    lsi_memory_free(s->partial);
    lsi_memory_free(s->path);
    lsi_text_free(&s->manifest);
    s->partial = s->path = NULL;
    s->phase = IDLE;
    s->trainer->saving = false;
}

void lsi_saver_close(lsi_saver **saver)
{
    lsi_saver *s = *saver;

    if (s == NULL) {
        return;
    }
    lsi_writer_stop(&s->writer);
    forget(s);
    lsi_copy_close(&s->copy);
    lsi_text_free(&s->config);
    lsi_text_free(&s->hf_config);
    lsi_memory_free(s);
    *saver = NULL;
}

int64_t lsi_saver_bytes(const lsi_saver *saver)
{
    int64_t bytes = 0;

    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        bytes += saver->copy.layout.file[f].bytes;
    }
    return bytes;
}

bool lsi_saver_is_due(const lsi_saver *saver, int64_t step)
{
    int64_t every = saver->rt->config->checkpoint.every;

    return every > 0 && step % every == 0;
}

bool lsi_saver_is_best(lsi_saver *saver, int64_t step, double loss)
{
    bool lower = saver->best.step == 0 || loss < saver->best.loss;

    if (strcmp(saver->rt->config->checkpoint.best, "loss") != 0 || !lower) {
        return false;
    }
    saver->best = (best){step, loss};
    return true;
}

/* ---- what the threads do ------------------------------------------------------------------------------------- */

/* Every rank. */
static ls_status write_pieces(void *argument)
{
    lsi_saver *s = argument;

    LS_TRY(lsi_copy_pack(&s->copy));
    if (s->copy.pieces.n == 0) {
        return LS_OK;
    }
    LS_REQUIRE(mkdir(s->partial, 0777) == 0 || errno == EEXIST, LS_ERR_CHECKPOINT, "%s: cannot create the folder: %s",
               s->partial, strerror(errno));
    return lsi_pieces_write(&s->copy.pieces, s->partial);
}

static ls_status write_text(const lsi_saver *s, const char *name, const lsi_text *text)
{
    lsi_text path = {0};

    lsi_text_append(&path, "%s/%s", s->partial, name);
    ls_status status = lsi_text_status(&path);
    if (status == LS_OK) {
        status = lsi_file_replace(path.data, text->data, text->length);
    }
    lsi_text_free(&path);
    return status;
}

/* Rank 0, when all files are on disk. */
static ls_status publish(void *argument)
{
    lsi_saver *s = argument;

    if (s->point.metrics_fd >= 0) {
        LS_REQUIRE(fdatasync(s->point.metrics_fd) == 0 || errno == EINVAL, LS_ERR_CHECKPOINT,
                   "the metrics file: cannot write to disk: %s", strerror(errno));
    }
    if (s->hf_config.length > 0) {
        LS_TRY(write_text(s, "config.json", &s->hf_config));
    }
    LS_TRY(write_text(s, "manifest.json", &s->manifest));
    LS_TRY(lsi_shelf_publish(s->dir, s->step));
    /* It is there; what follows may fail without harm. */
    if (s->best_of_save.step > 0 && lsi_shelf_link_best(s->dir, s->best_of_save.step) != LS_OK) {
        lsi_log_warn("%s", ls_failure_message());
    }
    if (lsi_shelf_retain(s->dir, s->step, s->rt->config->checkpoint.keep, s->best_of_save.step) != LS_OK) {
        lsi_log_warn("%s", ls_failure_message());
    }
    return LS_OK;
}

/* ---- the main thread: from phase to phase --------------------------------------------------------------------- */

typedef struct outcome {
    int status, n_pieces;
    char message[LSI_FAILURE_MAX];
} outcome;

/* Every rank's result so far. */
static ls_status gather_outcomes(lsi_saver *s, ls_status mine, outcome **out)
{
    outcome here = {.status = (int)mine, .n_pieces = s->copy.pieces.n};

    if (mine != LS_OK) {
        snprintf(here.message, sizeof here.message, "%s", ls_failure_message());
    }
    LS_TRY(lsi_memory_alloc((size_t)s->rt->job->world * sizeof **out, "results of all ranks", (void **)out));
    return lsi_job_all_gather(s->rt->job, &here, sizeof here, *out);
}

/* The end of the run: what is there to go on from? A device that failed is the cause, saving is where it showed. */
static ls_status fail_for_good(const lsi_saver *s, const outcome *failed)
{
    ls_status status = failed->status == (int)LS_ERR_DEVICE ? LS_ERR_DEVICE : LS_ERR_CHECKPOINT;

    if (s->saved_step > 0) {
        return LS_FAIL(status, "no checkpoint of step %lld: %s; the newest that is there is of step %lld",
                       (long long)s->step, failed->message, (long long)s->saved_step);
    }
    return LS_FAIL(status, "no checkpoint of step %lld: %s; none of this run is there", (long long)s->step,
                   failed->message);
}

/* Everyone knows of the failure of `rank`. */
static ls_status give_up(lsi_saver *s, const outcome *failed, int rank, bool must)
{
    bool leads = s->rt->job->rank == 0;
    int64_t step = s->step;

    if (leads && lsi_shelf_remove_partial(s->dir, step) != LS_OK) {
        lsi_log_warn("%s", ls_failure_message());
    }
    forget(s);
    if (s->best.step == step) {
        s->best = s->best_there;
    }
    if (must || strcmp(s->rt->config->checkpoint.on_error, "stop") == 0) {
        return lsi_runtime_agree(s->rt, s->rt->job->rank == rank ? fail_for_good(s, failed) : LS_OK);
    }
    if (leads) {
        lsi_log_warn("no checkpoint of step %lld: %s (rank %d); training goes on", (long long)step, failed->message,
                     rank);
    }
    return LS_OK;
}

static void fill_manifest(lsi_saver *s, lsi_manifest *m)
{
    *m = (lsi_manifest){
        .state = s->state,
        .samples = s->state.attempted * s->rt->config->train.global_batch,
        .evaluated = s->point.evaluated,
        .best_step = s->best_of_save.step,
        .best_loss = s->best_of_save.loss,
        .metrics_bytes = s->point.metrics_bytes,
        .config = s->config.data,
        .data = (char *)(uintptr_t)(s->trainer->data->content != NULL ? s->trainer->data->content : ""),
        .fingerprint = s->rt->fingerprint,
        .version = (char *)(uintptr_t)lsi_version(),
        .git = (char *)(uintptr_t)lsi_version_git(),
        .lanes = s->rt->geometry.n_lanes,
    };
}

/* Rank 0: all ranks' pieces, of which there may be `most` each. */
static ls_status write_manifest(lsi_saver *s, const outcome *outcomes, const lsi_piece *gathered, int most)
{
    lsi_manifest manifest;
    lsi_piece *all;
    int n = 0;

    LS_TRY(lsi_memory_alloc(((size_t)most * (size_t)s->rt->job->world + 1) * sizeof *all, "pieces of all ranks",
                            (void **)&all));
    for (int r = 0; r < s->rt->job->world; r++) {
        memcpy(all + n, gathered + (size_t)r * (size_t)most, (size_t)outcomes[r].n_pieces * sizeof *all);
        n += outcomes[r].n_pieces;
    }
    fill_manifest(s, &manifest);
    ls_status status = lsi_assemble_manifest(&manifest, &s->copy.layout, &s->hf_config, all, n, &s->manifest);
    lsi_memory_free(all);
    return status;
}

/* Collective: hands all hashes to rank 0, whose thread goes on. */
static ls_status begin_to_publish(lsi_saver *s, const outcome *outcomes)
{
    lsi_piece *gathered = NULL;
    int most = 0;

    for (int r = 0; r < s->rt->job->world; r++) {
        most = outcomes[r].n_pieces > most ? outcomes[r].n_pieces : most;
    }
    size_t bytes = (size_t)most * sizeof *gathered;
    LS_TRY(lsi_runtime_agree(s->rt, lsi_memory_alloc(bytes * (size_t)(s->rt->job->world + 1), "pieces of all ranks",
                                                     (void **)&gathered)));
    lsi_piece *mine = gathered + (size_t)most * (size_t)s->rt->job->world;
    memcpy(mine, s->copy.pieces.piece, (size_t)s->copy.pieces.n * sizeof *mine);
    ls_status status = lsi_job_all_gather(s->rt->job, mine, bytes, gathered);
    if (status == LS_OK && s->rt->job->rank == 0) {
        status = write_manifest(s, outcomes, gathered, most);
    }
    lsi_memory_free(gathered);
    LS_TRY(lsi_runtime_agree(s->rt, status));
    s->phase = PUBLISHING;
    s->trainer->saving = s->rt->job->rank == 0;
    if (s->rt->job->rank == 0) {
        lsi_writer_begin(s->writer, publish, s);
    }
    return LS_OK;
}

static ls_status complete(lsi_saver *s)
{
    lsi_saved saved = {
        .step = s->step,
        .bytes = lsi_saver_bytes(s),
        .seconds = lsi_clock_seconds() - s->began,
        .stall_seconds = s->stalled,
        .path = s->path,
    };
    ls_status status = LS_OK;

    s->saved_step = s->step;
    s->best_there = s->best_of_save;
    lsi_log_info("step %lld is saved in %s", (long long)saved.step, saved.path);
    if (s->rt->job->rank == 0 && s->options.on_saved != NULL) {
        status = s->options.on_saved(s->options.argument, &saved);
    }
    forget(s);
    return lsi_runtime_agree(s->rt, status);
}

/* Collective: every rank's thread is through with the phase. */
static ls_status advance(lsi_saver *s, bool must)
{
    outcome *outcomes = NULL;
    int failed = 0, world = s->rt->job->world;

    ls_status status = gather_outcomes(s, lsi_writer_finish(s->writer), &outcomes);
    while (status == LS_OK && failed < world && outcomes[failed].status == LS_OK) {
        failed++;
    }
    if (status == LS_OK && failed < world) {
        status = give_up(s, &outcomes[failed], failed, must);
    } else if (status == LS_OK) {
        status = s->phase == WRITING ? begin_to_publish(s, outcomes) : complete(s);
    }
    lsi_memory_free(outcomes);
    return status;
}

ls_status lsi_saver_step(lsi_saver *saver)
{
    lsi_saver *s = saver;

    if (s->phase == IDLE) {
        return LS_OK;
    }
    if (s->trainer->saving) {
        s->trainer->saving = lsi_writer_is_busy(s->writer);
    }
    /* The step that carried this began after the phase did: nobody's word is of the phase before. */
    return s->trainer->last.header[LS_EXCHANGE_SAVING] == 0 ? advance(s, false) : LS_OK;
}

ls_status lsi_saver_finish(lsi_saver *saver)
{
    if (saver->phase != IDLE) {
        lsi_watchdog_enter(saver->rt->watchdog, "waiting for the checkpoint to be on disk");
    }
    while (saver->phase != IDLE) {
        LS_TRY(advance(saver, true));
    }
    return LS_OK;
}

/* ---- beginning ------------------------------------------------------------------------------------------------ */

static ls_status begin(lsi_saver *s, const lsi_saver_point *point)
{
    s->step = s->trainer->n_done;
    s->best_of_save = s->best;
    s->state = s->trainer->last.state;
    s->point = *point;
    LS_TRY(lsi_shelf_partial(s->dir, s->step, &s->partial));
    return lsi_folder_path(s->dir, s->step, &s->path);
}

ls_status lsi_saver_save(lsi_saver *saver, const lsi_saver_point *point)
{
    lsi_saver *s = saver;
    double now = lsi_clock_seconds();

    if (s->trainer->n_done == s->saved_step || s->trainer->n_done == 0 ||
        (s->phase != IDLE && s->trainer->n_done == s->step)) {
        return LS_OK;
    }
    while (s->phase != IDLE) {      /* at most one is under way */
        LS_TRY(advance(s, false));
    }
    s->began = now;
    LS_TRY(lsi_runtime_agree(s->rt, begin(s, point)));
    LS_TRY(lsi_copy_take(&s->copy));
    s->phase = WRITING;
    s->trainer->saving = true;
    lsi_writer_begin(s->writer, write_pieces, s);
    s->stalled = lsi_clock_seconds() - now;
    return LS_OK;
}
