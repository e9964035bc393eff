#include "support/op_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/backend_case.h"
#include "support/op_case_parts.h"

enum { REPEATS = 2, GUARD_BYTES = 256, GUARD_PATTERN = 0xA5 };

/* A view's contents between guard bands, in memory of its own. */
typedef struct guarded {
    unsigned char *memory, *data;
    size_t bytes, memory_bytes;
} guarded;

void *op_case_allocate(size_t bytes)
{
    void *p = calloc(bytes == 0 ? 1 : bytes, 1);
    assert_non_null(p);
    return p;
}

double *op_case_zeros(int64_t n)
{
    return op_case_allocate((size_t)n * sizeof(double));
}

double *op_case_doubles(const float *values, int64_t n)
{
    double *out = op_case_zeros(n);
    for (int64_t i = 0; i < n; i++) {
        out[i] = (double)values[i];
    }
    return out;
}

int op_case_view_index(const op_case *c, const ls_view *view)
{
    ptrdiff_t index = view - (const ls_view *)c->arguments;
    assert_in_range(index, 0, c->n_views - 1);
    return (int)index;
}

size_t op_case_slot_bytes(const op_case_slot *slot)
{
    return (size_t)slot->count * ls_dtype_bytes(slot->dtype);
}

static bool is_input(const op_case *c, int index)
{
    return index < c->op->n_in;
}

static bool is_output(const op_case *c, int index)
{
    return !is_input(c, index) && index < c->op->n_in + c->op->n_out;
}

int op_case_levels(void)
{
    return op_run_levels();
}

void op_case_open(op_case *c, const ls_op *op, void *arguments)
{
    if (!test_backend()->host_memory && op->cuda == NULL) {
        skip();
    }
    memset(c, 0, sizeof *c);
    c->op = op;
    c->arguments = arguments;
    c->n_views = op->n_in + op->n_out + op->n_acc;
    assert_in_range(c->n_views, 1, OP_CASE_MAX_VIEWS);
    for (int i = 0; i < c->n_views; i++) {
        c->views[i].shares = -1;
    }
}

void op_case_close(op_case *c)
{
    for (int i = 0; i < c->n_views; i++) {
        free(c->views[i].initial);
        free(c->views[i].values);
        for (int level = 0; level < OP_RUN_LEVELS_MAX; level++) {
            free(c->views[i].result[level]);
        }
    }
    memset(c, 0, sizeof *c);
}

void *op_case_view(op_case *c, ls_view *view, int64_t count, ls_dtype dtype)
{
    int index = op_case_view_index(c, view);
    op_case_slot *slot = &c->views[index];

    assert_null(slot->initial);
    slot->count = count;
    slot->dtype = dtype;
    slot->initial = op_case_allocate(op_case_slot_bytes(slot));
    if (is_output(c, index)) {
        memset(slot->initial, 0xFF, op_case_slot_bytes(slot));
    }
    return slot->initial;
}

void op_case_fill(op_case *c, ls_view *view, float *values, int64_t count, ls_dtype dtype)
{
    void *initial = op_case_view(c, view, count, dtype);

    if (dtype == LS_F32) {
        memcpy(initial, values, (size_t)count * sizeof *values);
        return;
    }
    assert_true(dtype == LS_F16 || dtype == LS_BF16);
    for (int64_t i = 0; i < count; i++) {
        ((uint16_t *)initial)[i] = op_case_to_half(dtype, values[i]);
        values[i] = op_case_from_half(dtype, ((uint16_t *)initial)[i]);
    }
}

void op_case_copy(op_case *c, ls_view *view, int64_t count, ls_dtype dtype, const void *from)
{
    memcpy(op_case_view(c, view, count, dtype), from, (size_t)count * ls_dtype_bytes(dtype));
}

static void fill_random(const op_case *c, const ls_view *view, float *values, int64_t count, double scale)
{
    uint64_t key = lsi_random_key((uint64_t)count, (uint64_t)op_case_view_index(c, view) + 1);

    for (int64_t i = 0; i < count; i++) {
        lsi_random4 r = lsi_random_philox(key, (uint32_t)(i / 4), 0, 0, 0);
        values[i] = (float)(((double)lsi_random_unit(r.v[i % 4]) * 2.0 - 1.0) * scale);
    }
}

float *op_case_random(op_case *c, ls_view *view, int64_t count, double scale)
{
    float *values = op_case_view(c, view, count, LS_F32);

    fill_random(c, view, values, count, scale);
    return values;
}

const float *op_case_random_as(op_case *c, ls_view *view, int64_t count, double scale, ls_dtype dtype)
{
    if (dtype == LS_F32) {
        return op_case_random(c, view, count, scale);
    }
    float *values = op_case_allocate((size_t)count * sizeof *values);
    fill_random(c, view, values, count, scale);
    op_case_fill(c, view, values, count, dtype);
    c->views[op_case_view_index(c, view)].values = values;
    return values;
}

void op_case_share(op_case *c, ls_view *view, ls_view *with)
{
    op_case_slot *slot = &c->views[op_case_view_index(c, view)];
    int owner = op_case_view_index(c, with);

    assert_null(slot->initial);
    assert_non_null(c->views[owner].initial);
    slot->count = c->views[owner].count;
    slot->dtype = c->views[owner].dtype;
    slot->shares = owner;
}

const void *op_case_result(const op_case *c, const ls_view *view, int level)
{
    const op_case_slot *slot = &c->views[op_case_view_index(c, view)];
    return slot->shares < 0 ? slot->result[level] : c->views[slot->shares].result[level];
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

/* `shift` bytes off the alignment that the backend gives. */
static guarded guarded_make(const void *contents, size_t bytes, size_t shift)
{
    guarded g = {.bytes = bytes, .memory_bytes = (2 * GUARD_BYTES + bytes + shift + 63) / 64 * 64};

    g.memory = aligned_alloc(64, g.memory_bytes);
    assert_non_null(g.memory);
    g.data = g.memory + GUARD_BYTES + shift;
    memset(g.memory, GUARD_PATTERN, g.memory_bytes);
    memcpy(g.data, contents, bytes);
    return g;
}

static bool guarded_is_intact(const guarded *g)
{
    for (const unsigned char *p = g->memory; p < g->memory + g->memory_bytes; p++) {
        if ((p < g->data || p >= g->data + g->bytes) && *p != GUARD_PATTERN) {
            return false;
        }
    }
    return true;
}

/* Whether a view with memory of its own may change: it is no input, or an output shares its memory. */
bool op_case_may_change(const op_case *c, int index)
{
    for (int i = c->op->n_in; i < c->n_views; i++) {
        if (i == index || c->views[i].shares == index) {
            return true;
        }
    }
    return false;
}

/* Keeps the first result of a level, compares later ones with it. */
static void check_view(op_case *c, int index, int level, const guarded *g, const char *what)
{
    op_case_slot *slot = &c->views[index];

    if (!guarded_is_intact(g)) {
        fail_msg("%s: wrote outside of view %d", what, index);
    }
    if (!op_case_may_change(c, index) && memcmp(g->data, slot->initial, g->bytes) != 0) {
        fail_msg("%s: changed input %d", what, index);
    }
    if (slot->result[level] == NULL) {
        slot->result[level] = op_case_allocate(g->bytes);
        memcpy(slot->result[level], g->data, g->bytes);
    } else if (memcmp(slot->result[level], g->data, g->bytes) != 0) {
        fail_msg("%s: view %d has other bits than in the first run", what, index);
    }
}

/* One execution in fresh guarded memory; `check` also looks at what it left. */
static ls_status run_once(op_case *c, int level, int shift, const char *what, bool check)
{
    _Alignas(64) unsigned char arguments[LS_OP_MAX_ARGUMENTS];
    guarded memory[OP_CASE_MAX_VIEWS] = {{0}};
    ls_view *views = (ls_view *)arguments;
    ls_step_state before = c->state;
    op_run_memory given[OP_CASE_MAX_VIEWS];

    assert_in_range(c->op->arguments_bytes, 1, LS_OP_MAX_ARGUMENTS);
    memcpy(arguments, c->arguments, c->op->arguments_bytes);
    for (int i = 0; i < c->n_views; i++) {
        const op_case_slot *slot = &c->views[i];
        if (slot->initial != NULL) {
            memory[i] = guarded_make(slot->initial, op_case_slot_bytes(slot),
                                     (size_t)shift * ls_dtype_bytes(slot->dtype));
        }
        given[i] = (op_run_memory){.memory = memory[i].memory, .bytes = memory[i].memory_bytes};
    }
    for (int i = 0; i < c->n_views; i++) {
        const op_case_slot *slot = &c->views[i];
        const guarded *g = &memory[slot->shares < 0 ? i : slot->shares];
        views[i] = ls_view_make(slot->count == 0 ? NULL : g->data, slot->count, slot->dtype);
    }
    ls_step_state *state = &before;
    if (c->op->state_access != LS_STATE_NONE) {
        memcpy(arguments + c->op->state_offset, &state, sizeof state);
    }

    ls_status status = op_run(c->op, arguments, given, c->n_views);
    if (check) {
        if (status != LS_OK) {
            fail_msg("%s: %s: %s", what, ls_status_text(status), ls_failure_message());
        }
        if (c->op->state_access != LS_STATE_WRITE && memcmp(&before, &c->state, sizeof before) != 0) {
            fail_msg("%s: changed the step's state", what);
        }
        c->state_after[level] = before;
        for (int i = 0; i < c->n_views; i++) {
            if (memory[i].memory != NULL) {
                check_view(c, i, level, &memory[i], what);
            }
        }
    }
    for (int i = 0; i < c->n_views; i++) {
        free(memory[i].memory);
    }
    return status;
}

void op_case_run_levels(op_case *c, int max_threads, int repeats)
{
    for (int n_threads = 1; n_threads <= max_threads; n_threads++) {
        for (int level = 0; level < op_case_levels(); level++) {
            op_run_begin(level, n_threads);
            for (int repeat = 0; repeat < repeats; repeat++) {
                char what[128];
                snprintf(what, sizeof what, "%s, %s, %d threads, run %d", c->op->name, op_run_level_name(level),
                         n_threads, repeat);
                (void)run_once(c, level, c->fixed_alignment ? c->shift : repeat, what, true);
            }
            op_run_end();
        }
    }
}

void op_case_run(op_case *c)
{
    op_case_run_levels(c, op_run_max_threads(), REPEATS);
}

ls_status op_case_try(op_case *c)
{
    op_run_begin(op_case_levels() - 1, 1);
    ls_status status = run_once(c, op_case_levels() - 1, 0, c->op->name, false);
    op_run_end();
    return status;
}
