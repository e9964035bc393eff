#include "checkpoint/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/import.h"
#include "checkpoint/shelf.h"
#include "config/config.h"

/* What the search and the loading hand on to each other. Ranks that cannot see rank 0's files have no checkpoint. */
typedef struct search {
    ls_trainer *trainer;
    ls_runtime *rt;
    const char *dir;                /* checkpoint.dir */
    lsi_checkpoint *checkpoint;     /* NULL where this rank does not see it */
    char *path;
    int64_t expected;               /* step that its name says; -1: any name will do */
    bool everywhere;                /* every rank sees it */
} search;

/* ---- trying one ---------------------------------------------------------------------------------------------- */

typedef struct sight {
    int status;                     /* of opening, then of verifying */
    uint64_t identity;              /* equal where ranks see the same checkpoint */
    char message[LSI_FAILURE_MAX];
} sight;

static uint64_t identify(const lsi_checkpoint *checkpoint)
{
    const lsi_manifest *m = lsi_checkpoint_manifest(checkpoint);
    uint64_t hash = lsi_hash64(&m->state, sizeof m->state);

    for (int f = 0; f < m->n_files; f++) {
        for (int i = 0; i < m->file[f].n_pieces; i++) {
            hash ^= lsi_hash64(m->file[f].piece[i].hash, sizeof m->file[f].piece[i].hash) + (uint64_t)i * 31 + hash / 3;
        }
    }
    return hash;
}

static void note(ls_status status, sight *out)
{
    out->status = (int)status;
    if (status != LS_OK) {
        snprintf(out->message, sizeof out->message, "%s", ls_failure_message());
    }
}

/* A copy under another step's name would be mistaken for that step. */
static ls_status open_sight(search *s)
{
    LS_TRY(lsi_checkpoint_open(s->path, &s->checkpoint));
    int64_t step = lsi_checkpoint_manifest(s->checkpoint)->state.attempted;

    if (s->expected >= 0 && s->expected != step) {
        lsi_checkpoint_close(&s->checkpoint);
        return LS_FAIL(LS_ERR_CHECKPOINT, "%s: holds step %lld", s->path, (long long)step);
    }
    return LS_OK;
}

/* Collective. Ranks that see what rank 0 sees share the work of verifying. The result is rank 0's failure, or that of
 * the lowest rank that found a bad piece, on every rank's record. */
static ls_status try_path(search *s)
{
    lsi_job *job = s->rt->job;
    sight mine = {0}, *all;

    LS_TRY(lsi_runtime_agree(s->rt, lsi_memory_alloc((size_t)job->world * sizeof *all, "checks", (void **)&all)));
    note(open_sight(s), &mine);
    if (mine.status == LS_OK) {
        mine.identity = identify(s->checkpoint);
    }
    ls_status status = lsi_job_all_gather(job, &mine, sizeof mine, all);
    s->everywhere = true;
    for (int r = 0; r < job->world; r++) {
        s->everywhere = s->everywhere && all[r].status == LS_OK && all[r].identity == all[0].identity;
    }
    bool opened = status == LS_OK && all[0].status == LS_OK;
    if (!s->everywhere && job->rank != 0) {
        lsi_checkpoint_close(&s->checkpoint);
    }
    mine = (sight){.status = opened ? (int)LS_OK : all[0].status};
    memcpy(mine.message, all[0].message, sizeof mine.message);
    if (opened && s->checkpoint != NULL) {
        note(lsi_checkpoint_verify(s->checkpoint, s->everywhere ? job->rank : 0, s->everywhere ? job->world : 1,
                                   s->rt->watchdog),
             &mine);
    }
    if (status == LS_OK) {
        status = lsi_job_all_gather(job, &mine, sizeof mine, all);
    }
    for (int r = job->world - 1; r >= 0; r--) {
        if (all[r].status != LS_OK) {
            status = LS_FAIL((ls_status)all[r].status, "%s", all[r].message);
        }
    }
    lsi_memory_free(all);
    if (status != LS_OK) {
        lsi_checkpoint_close(&s->checkpoint);
    }
    return status;
}

/* ---- choosing ------------------------------------------------------------------------------------------------ */

static ls_status share_path(search *s, ls_status mine)
{
    LS_TRY(lsi_runtime_agree(s->rt, mine));
    return lsi_job_broadcast_text(s->rt->job, &s->path, 0);
}

static ls_status try_named(search *s)
{
    LS_TRY(share_path(s, s->rt->job->rank == 0 ? lsi_memory_strdup(s->rt->config->checkpoint.resume, &s->path) : LS_OK));
    return lsi_runtime_agree(s->rt, try_path(s));
}

/* Rank 0 has the list; each name in turn is tried by all. */
static ls_status try_newest(search *s)
{
    bool leads = s->rt->job->rank == 0;
    int64_t *steps = NULL;
    int n = 0;

    ls_status status = lsi_runtime_agree(s->rt, leads ? lsi_folder_list(s->dir, &steps, &n) : LS_OK);
    if (status == LS_OK) {
        status = lsi_job_broadcast(s->rt->job, &n, sizeof n, 0);
    }
    for (int i = 0; status == LS_OK && i < n; i++) {
        lsi_memory_free(s->path);
        s->path = NULL;
        status = share_path(s, leads ? lsi_folder_path(s->dir, steps[i], &s->path) : LS_OK);
        if (status == LS_OK) {
            s->expected = leads ? steps[i] : 0;
            status = lsi_job_broadcast(s->rt->job, &s->expected, sizeof s->expected, 0);
        }
        if (status == LS_OK && try_path(s) == LS_OK) {
            break;
        }
        if (status == LS_OK && leads) {
            lsi_log_warn("not whole, passed over: %s", ls_failure_message());
        }
    }
    if (status == LS_OK && n > 0 && s->checkpoint == NULL && leads) {
        status = LS_FAIL(LS_ERR_CHECKPOINT,
                         "%s: none of the %d checkpoints is whole; checkpoint.resume = never begins afresh and moves "
                         "them aside",
                         s->dir, n);
    }
    lsi_memory_free(steps);
    return lsi_runtime_agree(s->rt, status);
}

/* ---- does it fit? -------------------------------------------------------------------------------------------- */

static ls_status check_arrays(search *s)
{
    const char *names[LSI_STATE_MAX_ARRAYS];
    int n = lsi_state_array_names(s->trainer, names);

    return s->checkpoint != NULL ? lsi_checkpoint_bind(s->checkpoint, s->trainer->params, n, names) : LS_OK;
}

static void compare_data(const search *s, const lsi_manifest *m, lsi_text *refused)
{
    const char *now = s->trainer->data->content != NULL ? s->trainer->data->content : "";

    if (strcmp(m->data, now) != 0) {
        lsi_text_append(refused, "%sthe training data was '%s', now '%s'", refused->length > 0 ? "; " : "", m->data,
                        now);
    }
}

/* Rank 0: keys and data then and now. */
static ls_status check_fit(const search *s)
{
    const lsi_manifest *m = lsi_checkpoint_manifest(s->checkpoint);
    lsi_text refused = {0}, changed = {0};
    lsi_config *then;

    LS_TRY(lsi_config_parse(m->config, &then));
    ls_status status = lsi_config_compare(then, s->rt->loaded, &refused, &changed);
    lsi_config_destroy(&then);
    if (status == LS_OK) {
        compare_data(s, m, &refused);
        status = lsi_text_status(&refused);
    }
    if (status == LS_OK && refused.length > 0) {
        status = LS_FAIL(LS_ERR_CHECKPOINT,
                         "%s does not fit this run: %s; go back, or begin afresh by checkpoint.resume = never", s->path,
                         refused.data);
    }
    if (status == LS_OK && changed.length > 0) {
        lsi_log_warn("%s goes on with other values: %s", s->path, changed.data);
    }
    if (status == LS_OK && strcmp(m->fingerprint, s->rt->fingerprint) != 0) {
        lsi_log_warn("%s was made under another numeric fingerprint, so later bits may differ: '%s', now '%s'", s->path,
                     m->fingerprint, s->rt->fingerprint);
    }
    lsi_text_free(&changed);
    lsi_text_free(&refused);
    return status;
}

/* ---- loading ------------------------------------------------------------------------------------------------- */

/* Collective: rank 0 reads for all. A lsi_state_source. */
static ls_status read_for_all(void *argument, int array, int64_t first, int64_t count, float *out)
{
    search *s = argument;

    if (s->rt->job->rank == 0) {
        LS_TRY(lsi_checkpoint_read(s->checkpoint, array, first, count, out));
    }
    return lsi_job_broadcast(s->rt->job, out, (size_t)count * sizeof *out, 0);
}

static ls_status load(search *s, const ls_step_state *state)
{
    return s->everywhere ? lsi_state_load(s->trainer, lsi_checkpoint_read, s->checkpoint, false, state)
                         : lsi_state_load(s->trainer, read_for_all, s, true, state);
}

/* What all ranks need of the manifest. */
static ls_status share_manifest(search *s, ls_step_state *state, lsi_resume *out)
{
    struct {
        ls_step_state state;
        int64_t best_step, metrics_bytes;
        double best_loss;
        int evaluated;
    } shared = {0};

    if (s->rt->job->rank == 0) {
        const lsi_manifest *m = lsi_checkpoint_manifest(s->checkpoint);

        shared.state = m->state;
        shared.best_step = m->best_step;
        shared.best_loss = m->best_loss;
        shared.metrics_bytes = m->metrics_bytes;
        shared.evaluated = m->evaluated;
    }
    LS_TRY(lsi_job_broadcast(s->rt->job, &shared, sizeof shared, 0));
    *state = shared.state;
    out->step = shared.state.attempted;
    out->best_step = shared.best_step;
    out->best_loss = shared.best_loss;
    out->metrics_bytes = shared.metrics_bytes;
    out->evaluated = shared.evaluated != 0;
    return LS_OK;
}

/* Whether the checkpoint lies in checkpoint.dir, by whatever path it was named. */
static bool is_in_place(const search *s, int64_t step)
{
    char *expected;
    bool same = false;

    if (lsi_folder_path(s->dir, step, &expected) == LS_OK) {
        char *a = realpath(expected, NULL), *b = realpath(s->path, NULL);

        same = a != NULL && b != NULL && strcmp(a, b) == 0;
        free(a);
        free(b);
        lsi_memory_free(expected);
    }
    return same;
}

/* Rank 0. The link `best` leads to what is left, or goes. */
static ls_status move_aside(lsi_checkpoint_place *place, lsi_previous *previous, int64_t after, int64_t best_step)
{
    LS_TRY(lsi_shelf_move_aside(place->dir, previous, after));
    if (place->lock >= 0 && lsi_shelf_link_best(place->dir, best_step) != LS_OK) {
        lsi_log_warn("%s", ls_failure_message());
    }
    return LS_OK;
}

static ls_status load_checkpoint(search *s, lsi_checkpoint_place *place, lsi_previous *previous, lsi_resume *out)
{
    bool leads = s->rt->job->rank == 0;
    ls_step_state state;
    int in_place;

    LS_TRY(lsi_runtime_agree(s->rt, leads ? check_fit(s) : LS_OK));     /* names keys, which say more than shapes */
    LS_TRY(lsi_runtime_agree(s->rt, check_arrays(s)));
    LS_TRY(share_manifest(s, &state, out));
    LS_TRY(lsi_runtime_agree(s->rt, load(s, &state)));
    in_place = leads && is_in_place(s, out->step);
    LS_TRY(lsi_job_broadcast(s->rt->job, &in_place, sizeof in_place, 0));
    out->found = true;
    out->in_place = in_place != 0;
    out->path = s->path;
    s->path = NULL;
    return lsi_runtime_agree(
        s->rt, leads ? move_aside(place, previous, in_place ? out->step : -1, in_place ? out->best_step : 0) : LS_OK);
}

/* Weights of another program. */
static ls_status import(ls_trainer *t)
{
    float *flat;

    LS_TRY(lsi_runtime_agree(t->rt, lsi_memory_alloc((size_t)t->params->n_elements * sizeof *flat, "initial weights",
                                                     (void **)&flat)));
    ls_status status =
        lsi_runtime_agree(t->rt, t->rt->job->rank == 0
                                     ? lsi_import_weights(t->rt->config->model.init_from, t->params, flat)
                                     : LS_OK);
    if (status == LS_OK) {
        status = lsi_job_broadcast(t->rt->job, flat, (size_t)t->params->n_elements * sizeof *flat, 0);
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(t->rt, lsi_trainer_write_weights(t, flat));
    }
    lsi_memory_free(flat);
    return status;
}

static ls_status begin_afresh(search *s, lsi_checkpoint_place *place, lsi_previous *previous)
{
    if (s->rt->config->model.init_from[0] != '\0') {
        LS_TRY(import(s->trainer));
    }
    return lsi_runtime_agree(s->rt, s->rt->job->rank == 0 ? move_aside(place, previous, -1, 0) : LS_OK);
}

ls_status lsi_resume_load(ls_trainer *trainer, lsi_checkpoint_place *place, lsi_previous *previous, lsi_resume *out)
{
    search s = {.trainer = trainer, .rt = trainer->rt, .dir = place->dir, .expected = -1};
    const char *resume = trainer->rt->config->checkpoint.resume;
    ls_status status = LS_OK;

    *out = (lsi_resume){.metrics_bytes = -1};
    if (strcmp(resume, "auto") == 0) {
        status = try_newest(&s);
    } else if (strcmp(resume, "never") != 0) {
        status = try_named(&s);
    }
    int found = s.checkpoint != NULL;
    if (status == LS_OK) {
        status = lsi_job_broadcast(trainer->rt->job, &found, sizeof found, 0);
    }
    if (status == LS_OK) {
        status = found ? load_checkpoint(&s, place, previous, out) : begin_afresh(&s, place, previous);
    }
    lsi_checkpoint_close(&s.checkpoint);
    lsi_memory_free(s.path);
    return status;
}

void lsi_resume_free(lsi_resume *resume)
{
    lsi_memory_free(resume->path);
    *resume = (lsi_resume){0};
}
