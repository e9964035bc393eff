/* Weights, moments and gradients between the device and host memory, for start-up, checkpoints and hashes. */
#include "train/trainer.h"

#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/pool.h"
#include "train/precision.h"

enum { PIECE = 1 << 20 }; /* elements that pass through host memory at a time */

static ls_status upload(ls_trainer *t, void *device_memory, const void *host, size_t bytes)
{
    LS_TRY(t->backend->copy(t->compute, device_memory, host, bytes));
    return t->backend->stream_sync(t->compute);
}

static ls_status download(ls_trainer *t, void *host, const void *device_memory, size_t bytes)
{
    LS_TRY(t->backend->copy(t->compute, host, device_memory, bytes));
    return t->backend->stream_sync(t->compute);
}

/* ---- where elements are held --------------------------------------------------------------------------------- */

int lsi_trainer_held(const ls_trainer *trainer, const lsi_state_run **out)
{
    *out = trainer->sizes.sharded ? trainer->run : &trainer->everything;
    return trainer->sizes.sharded ? trainer->n_runs : 1;
}

/* ---- loading ------------------------------------------------------------------------------------------------- */

typedef struct loading {
    lsi_state_source source;
    void *argument;
    bool everywhere;
    float *piece;
    uint16_t *rounded;
} loading;

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void round_to(ls_dtype type, const float *in, int64_t n, uint16_t *out)
{
    if (type == LS_F16) {
        lsi_half_f16_narrow(in, n, out);
    } else {
        lsi_half_bf16_narrow(in, n, out);
    }
}

/* Into the layers' copy of all weights, in the compute type. */
static ls_status store_layer_weights(ls_trainer *t, const loading *l, int64_t at, int64_t n)
{
    ls_dtype type = lsi_precision_compute(t->rt->config);
    size_t bytes = ls_dtype_bytes(type);
    const void *from = l->piece;

    if (type != LS_F32) {
        round_to(type, l->piece, n, l->rounded);
        from = l->rounded;
    }
    return upload(t, (char *)t->layer_weights.data + (size_t)at * bytes, from, (size_t)n * bytes);
}

/* What this rank holds of elements [at, at + n) of an array; they are in l->piece, or asked for here. */
static ls_status store_held(ls_trainer *t, const loading *l, int array, int64_t at, int64_t n, bool there)
{
    const lsi_state_run *held;
    int n_held = lsi_trainer_held(t, &held);

    for (int i = 0; i < n_held; i++) {
        const lsi_state_run *run = &held[i];
        int64_t from = run->first > at ? run->first : at, to = min(run->first + run->count, at + n);
        const float *values = there ? l->piece + (from - at) : l->piece;

        if (from >= to) {
            continue;
        }
        if (!there) {
            LS_TRY(l->source(l->argument, array, from, to - from, l->piece));
        }
        LS_TRY(upload(t, run->array[array] + (from - run->first), values, (size_t)(to - from) * sizeof(float)));
    }
    return LS_OK;
}

/* Elements [at, at + n) of one array. Where masters are not the layers' weights themselves they are held like moments.
 */
static ls_status load_piece(ls_trainer *t, const loading *l, int array, int64_t at, int64_t n)
{
    bool all = array == LSI_STATE_WEIGHTS || l->everywhere;

    if (all) {
        LS_TRY(l->source(l->argument, array, at, n, l->piece));
    }
    if (array == LSI_STATE_WEIGHTS) {
        LS_TRY(store_layer_weights(t, l, at, n));
    }
    return array != LSI_STATE_WEIGHTS || t->sizes.mixed ? store_held(t, l, array, at, n, all) : LS_OK;
}

static ls_status load(ls_trainer *t, lsi_state_source source, void *argument, bool everywhere)
{
    loading l = {.source = source, .argument = argument, .everywhere = everywhere};
    size_t elements = (size_t)min(PIECE, t->sizes.n_elements);
    ls_status status = LS_OK;

    LS_TRY(lsi_memory_alloc(elements * (sizeof *l.piece + sizeof *l.rounded), "state to load", (void **)&l.piece));
    l.rounded = (uint16_t *)(void *)(l.piece + elements);
    for (int a = 0; status == LS_OK && a < lsi_state_n_arrays(t); a++) {
        for (int64_t at = 0; status == LS_OK && at < t->sizes.n_elements; at += PIECE) {
            status = load_piece(t, &l, a, at, min(PIECE, t->sizes.n_elements - at));
            lsi_watchdog_tick(t->rt->watchdog);
        }
    }
    lsi_memory_free(l.piece);
    return status;
}

ls_status lsi_state_load(ls_trainer *trainer, lsi_state_source source, void *argument, bool everywhere,
                         const ls_step_state *state)
{
    LS_TRY(load(trainer, source, argument, everywhere));
    LS_TRY(upload(trainer, trainer->state.data, state, sizeof *state));
    return lsi_trainer_continue(trainer, state);
}

/* Weights from one flat array; moments 0. */
static ls_status from_array(void *argument, int array, int64_t first, int64_t count, float *out)
{
    const float *weights = argument;

    for (int64_t i = 0; i < count; i++) {
        out[i] = array == LSI_STATE_WEIGHTS ? weights[first + i] : 0.0f;
    }
    return LS_OK;
}

ls_status lsi_trainer_write_weights(ls_trainer *trainer, const float *host)
{
    return load(trainer, from_array, (void *)(uintptr_t)host, false);
}

/* Initial values, made by as many threads as compute: one would take longer than several steps. */
typedef struct initial {
    const lsi_param_table *params;
    uint64_t seed;
    lsi_pool *pool;
    int64_t first, count;       /* of the piece being made */
    float *out;
} initial;

enum { INIT_BLOCK = 16384 };

static void init_block(void *argument, int64_t block)
{
    const initial *in = argument;
    int64_t at = block * INIT_BLOCK;

    lsi_param_init(in->params, in->seed, in->first + at, min(INIT_BLOCK, in->count - at), in->out + at);
}

/* A lsi_state_source. Moments begin at 0. */
static ls_status from_initial(void *argument, int array, int64_t first, int64_t count, float *out)
{
    initial *in = argument;

    if (array != LSI_STATE_WEIGHTS) {
        memset(out, 0, (size_t)count * sizeof *out);
        return LS_OK;
    }
    in->first = first;
    in->count = count;
    in->out = out;
    lsi_pool_run(in->pool, 0, (count + INIT_BLOCK - 1) / INIT_BLOCK, init_block, in);
    return LS_OK;
}

ls_status lsi_trainer_init_weights(ls_trainer *trainer)
{
    initial in = {.params = trainer->params, .seed = (uint64_t)trainer->rt->config->train.seed};

    LS_TRY(lsi_pool_create(trainer->rt->affinity.threads, &in.pool));
    ls_status status = load(trainer, from_initial, &in, false);
    lsi_pool_destroy(&in.pool);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

int lsi_state_n_arrays(const ls_trainer *trainer)
{
    return 1 + trainer->sizes.moments;
}

const char *lsi_state_array_name(const ls_trainer *trainer, int array)
{
    static const char *const adam[] = {"", "exp_avg", "exp_avg_sq"}, *const sgd[] = {"", "momentum"};

    return trainer->sizes.moments == 2 ? adam[array] : sgd[array];
}

int lsi_state_array_names(const ls_trainer *trainer, const char *out[LSI_STATE_MAX_ARRAYS])
{
    int n = lsi_state_n_arrays(trainer);

    for (int a = 0; a < n; a++) {
        out[a] = lsi_state_array_name(trainer, a);
    }
    return n;
}

const lsi_param_table *lsi_state_params(const ls_trainer *trainer)
{
    return trainer->params;
}

int lsi_state_n_runs(const ls_trainer *trainer)
{
    return trainer->n_runs;
}

const lsi_state_run *lsi_state_runs(const ls_trainer *trainer)
{
    return trainer->run;
}

/* Collective. Every rank tells all others what it owns of elements [first, first + count), which `host` begins with. */
static ls_status share_chunks(ls_trainer *t, int64_t first, int64_t count, float *host)
{
    int64_t bucket_bytes = t->rt->config->comm.bucket_bytes;

    for (int i = 0; i < t->sizes.n_buckets; i++) {
        for (int rank = 0; rank < t->rt->geometry.world; rank++) {
            int64_t from, n;

            lsi_exchange_owned(t->rt->comm, t->sizes.n_elements, bucket_bytes, i, rank, &from, &n);
            int64_t to = min(from + n, first + count);
            from = from > first ? from : first;
            if (from < to) {
                LS_TRY(lsi_job_broadcast(t->rt->job, host + (from - first), (size_t)(to - from) * sizeof(float), rank));
            }
        }
    }
    return LS_OK;
}

/* All elements of an array, where this rank holds them; NULL where they are shared out. */
static const float *whole_array(const ls_trainer *t, int array)
{
    if (array == LSI_STATE_WEIGHTS && !t->sizes.mixed) {
        return t->layer_weights.data;
    }
    return t->sizes.sharded ? NULL : t->everything.array[array];
}

ls_status lsi_state_read(ls_trainer *trainer, int array, int64_t first, int64_t count, float *host)
{
    ls_trainer *t = trainer;
    const float *whole = whole_array(t, array);

    if (whole != NULL) {
        return download(t, host, whole + first, (size_t)count * sizeof(float));
    }
    for (int i = 0; i < t->n_runs; i++) {
        const lsi_state_run *run = &t->run[i];
        int64_t from = run->first > first ? run->first : first, to = min(run->first + run->count, first + count);

        if (from < to) {
            LS_TRY(download(t, host + (from - first), run->array[array] + (from - run->first),
                            (size_t)(to - from) * sizeof(float)));
        }
    }
    return share_chunks(t, first, count, host);
}

/* A lsi_param_reader. */
static ls_status read_masters(void *argument, int64_t first, int64_t count, float *host)
{
    return lsi_state_read(argument, LSI_STATE_WEIGHTS, first, count, host);
}

ls_status lsi_trainer_read_weights(ls_trainer *trainer, float *host)
{
    return read_masters(trainer, 0, trainer->sizes.n_elements, host);
}

ls_status lsi_trainer_read_gradients(ls_trainer *trainer, float *host)
{
    const float *total = lsi_trainer_total(trainer);
    int64_t n = trainer->sizes.n_elements;

    LS_TRY(download(trainer, host, total, (size_t)n * sizeof(float)));
    if (trainer->sizes.sharded) {
        LS_TRY(share_chunks(trainer, 0, n, host));
    }
    for (int64_t i = 0; i < n; i++) {
        host[i] = (float)((double)host[i] * trainer->last.state.unscale);
    }
    return LS_OK;
}

ls_status lsi_trainer_weights_hash(ls_trainer *trainer, char out[33])
{
    return lsi_param_hash(trainer->params, read_masters, trainer, out);
}

ls_status ls_trainer_weights_hash(ls_trainer *trainer, char out[33])
{
    return lsi_trainer_weights_hash(trainer, out);
}
