#include "checkpoint/copy.h"

#include "base/memory.h"
#include "train/runtime.h"

static ls_status make_layout(lsi_copy *c)
{
    const char *names[LSI_STATE_MAX_ARRAYS];
    int n = lsi_state_array_names(c->trainer, names);

    return lsi_layout_make(c->trainer->params, n, names, &c->layout);
}

/* Where the folder is not shared: rank 0 writes everything, the others nothing. */
static ls_status make_whole_pieces(lsi_copy *c)
{
    lsi_piece_run everything = {.count = c->trainer->params->n_elements};

    if (c->trainer->rt->job->rank != 0) {
        return lsi_pieces_make(&c->layout, NULL, 0, c->whole, false, &c->pieces);
    }
    for (int a = 0; a < c->layout.n_arrays; a++) {
        LS_TRY(lsi_memory_alloc((size_t)everything.count * sizeof(float), "the state of all processes",
                                (void **)&c->whole[a]));
    }
    return lsi_pieces_make(&c->layout, &everything, 1, c->whole, true, &c->pieces);
}

static ls_status make_own_pieces(lsi_copy *c)
{
    float *array[LSI_STATE_MAX_ARRAYS];
    lsi_piece_run *run;
    int n = lsi_state_n_runs(c->trainer);

    LS_TRY(lsi_memory_alloc((size_t)(n + 1) * sizeof *run, "runs of a checkpoint", (void **)&run));
    for (int i = 0; i < n; i++) {
        const lsi_state_run *held = &lsi_state_runs(c->trainer)[i];

        run[i] = (lsi_piece_run){held->first, held->count};
    }
    for (int a = 0; a < c->layout.n_arrays; a++) {
        array[a] = lsi_state_snapshot_of(c->trainer, a);
    }
    ls_status status = lsi_pieces_make(&c->layout, run, n, array, c->trainer->rt->job->rank == 0, &c->pieces);
    lsi_memory_free(run);
    return status;
}

ls_status lsi_copy_open(ls_trainer *trainer, bool shared, lsi_copy *out)
{
    lsi_copy copy = {.trainer = trainer, .shared = shared};
    ls_status status = make_layout(&copy);

    *out = copy;                /* the pieces lead to the layout where it stays */
    if (status == LS_OK) {
        status = shared ? make_own_pieces(out) : make_whole_pieces(out);
        out->pieces.watchdog = trainer->rt->watchdog;
    }
    if (status != LS_OK) {
        lsi_copy_close(out);
    }
    return status;
}

void lsi_copy_close(lsi_copy *copy)
{
    lsi_pieces_free(&copy->pieces);
    for (int a = 0; a < LSI_STATE_MAX_ARRAYS; a++) {
        lsi_memory_free(copy->whole[a]);
    }
    lsi_layout_free(&copy->layout);
    *copy = (lsi_copy){0};
}

/* Rank 0 gets everything. */
static ls_status collect(lsi_copy *c)
{
    enum { PIECE = 1 << 20 };
    int64_t n = c->trainer->params->n_elements;
    float *scratch = NULL;
    ls_status status = LS_OK;

    if (c->trainer->rt->job->rank != 0) {
        status = lsi_memory_alloc((size_t)(n < PIECE ? n : PIECE) * sizeof *scratch, "state", (void **)&scratch);
    }
    LS_TRY(lsi_runtime_agree(c->trainer->rt, status));
    for (int a = 0; status == LS_OK && a < c->layout.n_arrays; a++) {
        for (int64_t at = 0; status == LS_OK && at < n; at += PIECE) {
            int64_t count = n - at < PIECE ? n - at : PIECE;

            status = lsi_state_read(c->trainer, a, at, count, scratch != NULL ? scratch : c->whole[a] + at);
        }
    }
    lsi_memory_free(scratch);
    return status;
}

ls_status lsi_copy_take(lsi_copy *copy)
{
    return copy->shared ? lsi_state_snapshot(copy->trainer) : collect(copy);
}

ls_status lsi_copy_pack(lsi_copy *copy)
{
    if (copy->shared) {
        LS_TRY(lsi_state_snapshot_wait(copy->trainer));
    }
    lsi_pieces_pack(&copy->pieces);
    return LS_OK;
}
