#include "checkpoint/compare.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/compare_lines.h"
#include "checkpoint/compare_state.h"
#include "checkpoint/folder.h"

/* A run's folder, or one checkpoint. */
typedef struct side {
    const char *path;
    char *metrics, *checkpoints; /* paths inside a run's folder; both NULL for a checkpoint */
    bool has_metrics;
    int n;         /* checkpoints; a checkpoint's own step is its only one */
    int64_t *step; /* newest first */
} side;

typedef struct comparison {
    side side[2];
    lsi_text *out;
    int64_t n_steps, n_evaluations, n_checkpoints; /* compared and equal */
    int64_t last_equal;                            /* step of the last equal checkpoint, -1: none yet */
    bool parted;                                   /* two checkpoints differ: later ones have nothing to tell */
    bool differ;                                   /* anything does */
} comparison;

/* ---- the two sides ----------------------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

static ls_status open_checkpoint_side(side *s)
{
    lsi_manifest manifest;

    LS_TRY(lsi_manifest_read(s->path, &manifest));
    int64_t step = manifest.state.attempted;
    lsi_manifest_free(&manifest);
    LS_TRY(lsi_memory_alloc(sizeof *s->step, "a step", (void **)&s->step));
    s->step[0] = step;
    s->n = 1;
    return LS_OK;
}

static ls_status open_side(const char *path, side *s)
{
    char *manifest;

    s->path = path;
    LS_TRY(lsi_file_join(path, "manifest.json", &manifest));
    bool is_checkpoint = exists(manifest);
    lsi_memory_free(manifest);
    if (is_checkpoint) {
        return open_checkpoint_side(s);
    }
    LS_TRY(lsi_file_join(path, "metrics.jsonl", &s->metrics));
    LS_TRY(lsi_file_join(path, "checkpoints", &s->checkpoints));
    s->has_metrics = exists(s->metrics);
    LS_REQUIRE(s->has_metrics || exists(s->checkpoints), LS_ERR_USAGE,
               "%s: is neither a run's folder (metrics.jsonl, checkpoints/) nor a checkpoint (manifest.json)", path);
    return lsi_folder_list(s->checkpoints, &s->step, &s->n);
}

static void close_side(side *s)
{
    lsi_memory_free(s->metrics);
    lsi_memory_free(s->checkpoints);
    lsi_memory_free(s->step);
}

/* ---- lines ---------------------------------------------------------------------------------------------------------
 */

static void report_only(const comparison *c, const char *event, const lsi_compare_lines *lines)
{
    for (int i = 0; i < 2; i++) {
        if (lines->n_only[i] > 0) {
            lsi_text_append(c->out, "not compared: %lld '%s' lines, from step %lld on, that only %s has\n",
                            (long long)lines->n_only[i], event, (long long)lines->first_only[i], c->side[i].path);
        }
    }
}

static ls_status compare_event(comparison *c, const char *event, int64_t *n_equal)
{
    const char *const path[2] = {c->side[0].metrics, c->side[1].metrics};
    lsi_compare_lines lines;
    lsi_text difference = {0};
    ls_status status = lsi_compare_lines_of(event, path, &difference, &lines);

    if (status == LS_OK && lines.differ) {
        c->differ = true;
        lsi_text_append(c->out, "'%s' lines: ", event);
        if (lines.n_equal > 0) {
            lsi_text_append(c->out, "equal up to step %lld, ", (long long)lines.last_equal);
        }
        lsi_text_append(c->out, "different at step %lld: %s\n", (long long)lines.step, difference.data);
    }
    lsi_text_free(&difference);
    LS_TRY(status);
    *n_equal = lines.n_equal;
    report_only(c, event, &lines);
    return LS_OK;
}

static ls_status compare_metrics(comparison *c)
{
    bool both_runs = c->side[0].metrics != NULL && c->side[1].metrics != NULL;

    for (int i = 0; both_runs && i < 2; i++) {
        if (!c->side[i].has_metrics) {
            lsi_text_append(c->out, "not compared: metrics, which %s lacks\n", c->side[i].metrics);
            both_runs = false;
        }
    }
    if (!both_runs) {
        return LS_OK;
    }
    LS_TRY(compare_event(c, "step", &c->n_steps));
    return compare_event(c, "eval", &c->n_evaluations);
}

/* ---- checkpoints ---------------------------------------------------------------------------------------------------
 */

/* Opens one whole checkpoint; NULL, and a line that says why, when it is torn. */
static ls_status open_one(comparison *c, int which, int64_t step, lsi_checkpoint **out)
{
    const side *s = &c->side[which];
    char *path = NULL;

    *out = NULL;
    LS_TRY(s->checkpoints != NULL ? lsi_folder_path(s->checkpoints, step, &path) : lsi_memory_strdup(s->path, &path));
    ls_status status = lsi_checkpoint_open(path, out);
    lsi_memory_free(path);
    if (status == LS_OK) {
        status = lsi_checkpoint_verify(*out, 0, 1, NULL);
    }
    if (status != LS_OK) {
        lsi_checkpoint_close(out);
    }
    if (status == LS_ERR_CHECKPOINT) {
        lsi_text_append(c->out, "not compared: %s\n", ls_failure_message());
        return LS_OK;
    }
    return status;
}

static ls_status compare_opened(comparison *c, int64_t step, const lsi_checkpoint *a, const lsi_checkpoint *b)
{
    lsi_text difference = {0};
    ls_status status = lsi_compare_state(a, b, &difference);

    if (status == LS_OK && difference.length == 0) {
        c->n_checkpoints++;
        c->last_equal = step;
    } else if (status == LS_OK) {
        c->differ = c->parted = true;
        lsi_text_append(c->out, "checkpoints: ");
        if (c->last_equal >= 0) {
            lsi_text_append(c->out, "equal at step %lld, ", (long long)c->last_equal);
        }
        lsi_text_append(c->out, "different at step %lld in %s\n", (long long)step, difference.data);
    }
    lsi_text_free(&difference);
    return status;
}

static ls_status compare_pair(comparison *c, int64_t step, int64_t other_step)
{
    lsi_checkpoint *a = NULL, *b = NULL;
    ls_status status = open_one(c, 0, step, &a);

    if (status == LS_OK) {
        status = open_one(c, 1, other_step, &b);
    }
    if (status == LS_OK && a != NULL && b != NULL) {
        status = compare_opened(c, step, a, b);
    }
    lsi_checkpoint_close(&b);
    lsi_checkpoint_close(&a);
    return status;
}

/* Both lists from the oldest on. */
static ls_status compare_common(comparison *c)
{
    const side *a = &c->side[0], *b = &c->side[1];
    int i = a->n - 1, k = b->n - 1, n_common = 0;

    while (i >= 0 && k >= 0 && !c->parted) {
        if (a->step[i] == b->step[k]) {
            n_common++;
            LS_TRY(compare_pair(c, a->step[i--], b->step[k--]));
        } else if (a->step[i] < b->step[k]) {
            i--;
        } else {
            k--;
        }
    }
    if (n_common == 0) {
        lsi_text_append(c->out, "not compared: checkpoints; %s has %d, %s has %d, none of the same step\n", a->path,
                        a->n, b->path, b->n);
    }
    return LS_OK;
}

static ls_status compare_checkpoints(comparison *c)
{
    const side *a = &c->side[0], *b = &c->side[1];

    c->last_equal = -1;
    if (a->checkpoints != NULL || b->checkpoints != NULL) {
        return compare_common(c);
    }
    /* Two checkpoints are compared whatever their steps are: that is what was asked for. */
    if (a->step[0] != b->step[0]) {
        lsi_text_append(c->out, "checkpoints of different steps: %lld and %lld\n", (long long)a->step[0],
                        (long long)b->step[0]);
    }
    return compare_pair(c, a->step[0], b->step[0]);
}

ls_status lsi_compare_runs(const char *a, const char *b, lsi_text *out, bool *equal)
{
    comparison c = {.out = out};
    ls_status status = open_side(a, &c.side[0]);

    *equal = false;
    if (status == LS_OK) {
        status = open_side(b, &c.side[1]);
    }
    if (status == LS_OK) {
        status = compare_metrics(&c);
    }
    if (status == LS_OK) {
        status = compare_checkpoints(&c);
    }
    if (status == LS_OK) {
        *equal = !c.differ && c.n_steps + c.n_evaluations + c.n_checkpoints > 0;
        lsi_text_append(out, "%s: %lld steps, %lld evaluations and %lld checkpoints are equal\n",
                        c.differ ? "different"
                        : *equal ? "equal"
                                 : "nothing in common",
                        (long long)c.n_steps, (long long)c.n_evaluations, (long long)c.n_checkpoints);
        status = lsi_text_status(out);
    }
    close_side(&c.side[0]);
    close_side(&c.side[1]);
    return status;
}
