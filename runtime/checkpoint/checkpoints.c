/* The public side of checkpoints and stopping, for programs with a loop of their own. */
#include <lockstep/checkpoint.h>

#include <stddef.h>

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/saver.h"
#include "job/stop.h"

struct ls_checkpoints {
    lsi_runtime_child child;
    ls_trainer *trainer;
    lsi_checkpoint_place place;
    lsi_resume from;
    lsi_saver *saver; /* NULL under checkpoint.save = false */
    int stop;         /* why the run ends early; LSI_STOP_NONE: it does not */
};

static void release(ls_checkpoints *c)
{
    lsi_runtime_disown(c->trainer->rt, &c->child);
    lsi_saver_close(&c->saver);
    lsi_resume_free(&c->from);
    lsi_place_close(&c->place);
    lsi_memory_free(c);
}

static void release_child(lsi_runtime_child *child)
{
    release((ls_checkpoints *)(void *)((char *)child - offsetof(ls_checkpoints, child)));
}

static ls_status open_all(ls_checkpoints *c)
{
    bool saves = c->trainer->rt->config->checkpoint.save;
    lsi_previous previous = {0};

    LS_TRY(lsi_place_open(c->trainer->rt, saves, &c->place));
    ls_status status = lsi_resume_load(c->trainer, &c->place, &previous, &c->from);
    lsi_previous_free(&previous);
    LS_TRY(status);
    if (c->from.found) {
        lsi_log_info("going on from %s", c->from.path);
    }
    lsi_saver_options options = {.trainer = c->trainer, .place = &c->place, .from = &c->from};
    return saves ? lsi_saver_open(&options, &c->saver) : LS_OK;
}

ls_status ls_checkpoints_open(ls_trainer *trainer, ls_checkpoints **out, int64_t *step)
{
    ls_checkpoints *c;

    LS_TRY(lsi_runtime_agree(trainer->rt, lsi_memory_alloc(sizeof *c, "checkpoints", (void **)&c)));
    c->trainer = trainer;
    c->place.lock = -1;
    ls_status status = open_all(c);
    if (status != LS_OK) {
        release(c);
        return status;
    }
    c->child.release = release_child;
    lsi_runtime_adopt(trainer->rt, &c->child);
    *step = c->from.step;
    *out = c;
    return LS_OK;
}

static ls_status save(ls_checkpoints *c)
{
    lsi_saver_point point = {.evaluated = true, .metrics_bytes = -1, .metrics_fd = -1};

    LS_TRY(ls_trainer_settle(c->trainer, NULL));
    return lsi_saver_save(c->saver, &point);
}

ls_status ls_checkpoints_step(ls_checkpoints *checkpoints, bool *stop)
{
    ls_checkpoints *c = checkpoints;
    ls_trainer *t = c->trainer;

    LS_TRY(lsi_trainer_collect(t));
    c->stop = lsi_trainer_stop_reason(t);
    *stop = c->stop != LSI_STOP_NONE;
    if (c->saver == NULL) {
        return LS_OK;
    }
    LS_TRY(lsi_saver_step(c->saver));
    return lsi_saver_is_due(c->saver, t->n_done) && !*stop ? save(c) : LS_OK;
}

ls_status ls_checkpoints_close(ls_checkpoints **checkpoints)
{
    ls_checkpoints *c = *checkpoints;
    ls_status status = LS_OK;

    if (c == NULL) {
        return LS_OK;
    }
    *checkpoints = NULL;
    int reason = c->stop;
    ls_runtime *rt = c->trainer->rt;
    bool saved = c->saver != NULL;
    if (saved) {
        status = save(c);
    }
    if (saved && status == LS_OK) {
        status = lsi_saver_finish(c->saver);
    }
    release(c);
    LS_TRY(status);
    return reason != LSI_STOP_NONE ? lsi_runtime_stopped(rt, reason, saved) : LS_OK;
}
