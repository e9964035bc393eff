/* bench_ops [--json FILE] [--types f32,f16,bf16] [--only OP] [--tiny] section.key=value...
 *
 * Times every op on the device that device.backend names, at the shapes of GPT-2 124M (a slot of 16 x 1024 tokens), and
 * beside them a copy of memory: an op that moves memory can be no faster. Launches are recorded and replayed, so that
 * the host's launches are not in the time, and go round as many sets of buffers as no cache holds; the times are the
 * device's own stamps. Prints a line for each op and type, and writes the same to FILE. --tiny: small shapes and few
 * launches, whose times mean nothing, for a test of the program itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "median.h"
#include "ops_cases.h"
#include "train/runtime.h"

enum { MAX_SETS = 16, MAX_VIEWS = 16, N_REPLAYS = 5, MIN_LAUNCHES = 20, MAX_LAUNCHES = 2000, MAX_NAME = 64 };
enum { STAMP_BEGIN = 1, STAMP_END = 2 };

static const ops_shape gpt2 = {.samples = 16,
                               .context = 1024,
                               .width = 768,
                               .heads = 12,
                               .vocab = 50257,
                               .padded_vocab = 50304,
                               .parameters = 124475904,
                               .square = 8192};
static const ops_shape tiny = {.samples = 2,
                               .context = 64,
                               .width = 64,
                               .heads = 2,
                               .vocab = 250,
                               .padded_vocab = 256,
                               .parameters = 40000,
                               .square = 64};

typedef struct bench {
    ls_device *device;
    const ls_backend *backend;
    ls_stream *stream;
    const ops_shape *shape;
    bool is_tiny;
    size_t working_set; /* bytes that one round through the sets touches, at the least, if memory allows */
    size_t copy_bytes;
    ls_step_state *state;   /* device memory */
    unsigned char *pattern; /* host memory: what views are filled with, in turn */
    size_t pattern_bytes;
    double copy_rate; /* bytes per second, read and written */
    const char *types, *only;
    FILE *json;
    int n_rows;
} bench;

/* One set of an op's views, in device memory. */
typedef struct op_set {
    _Alignas(16) unsigned char arguments[LS_OP_MAX_ARGUMENTS];
    void *memory[MAX_VIEWS];
} op_set;

/* What is timed: queues launch number i. */
typedef struct work {
    const ls_op *op; /* NULL: the copy */
    op_set *sets;
    int n_sets;
    void *from, *to;
} work;

static size_t view_bytes(const ls_view *view)
{
    return (size_t)view->count * ls_dtype_bytes(view->dtype);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Values that every op can take: positive numbers below 1, indices below the vocabulary. */
static void fill_pattern(bench *b, ls_dtype dtype)
{
    int64_t n = (int64_t)(b->pattern_bytes / ls_dtype_bytes(dtype));
    ls_view view = ls_view_make(b->pattern, n, dtype);

    for (int64_t i = 0; i < n; i++) {
        float value = 0.05F + 0.9F * (float)((uint32_t)i * 2654435761U >> 8) * 0x1p-24F;

        if (dtype == LS_I32) {
            ((int32_t *)b->pattern)[i] = (int32_t)((uint64_t)i * 7919 % (uint64_t)b->shape->vocab);
        } else if (dtype == LS_F64) {
            ((double *)b->pattern)[i] = (double)value;
        } else {
            ls_view_store(&view, i, 1, &value);
        }
    }
}

static ls_status allocate_view(bench *b, ls_view *view, void **out)
{
    size_t bytes = view_bytes(view);

    *out = NULL;
    if (bytes == 0) {
        return LS_OK;
    }
    LS_TRY(b->backend->alloc(b->device, LS_MEM_DEVICE, bytes, out));
    view->data = *out;
    fill_pattern(b, view->dtype);
    for (size_t at = 0; at < bytes; at += b->pattern_bytes) {
        size_t left = bytes - at;

        LS_TRY(b->backend->copy(b->stream, (char *)*out + at, b->pattern,
                                left < b->pattern_bytes ? left : b->pattern_bytes));
    }
    return b->backend->stream_sync(b->stream);
}

static ls_status make_set(bench *b, const ops_case *c, ls_dtype dtype, op_set *set)
{
    ls_view *views = (ls_view *)(void *)set->arguments;

    memset(set, 0, sizeof *set);
    c->make(b->shape, dtype, set->arguments);
    for (int i = 0; i < ops_n_views(c->op); i++) {
        LS_TRY(allocate_view(b, &views[i], &set->memory[i]));
    }
    if (c->op->state_access != LS_STATE_NONE) {
        memcpy(set->arguments + c->op->state_offset, &b->state, sizeof b->state);
    }
    return LS_OK;
}

static void free_set(bench *b, const ops_case *c, op_set *set)
{
    const ls_view *views = (const ls_view *)(const void *)set->arguments;

    for (int i = 0; i < ops_n_views(c->op); i++) {
        if (set->memory[i] != NULL) {
            b->backend->release(b->device, LS_MEM_DEVICE, view_bytes(&views[i]), set->memory[i]);
        }
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static ls_status queue(bench *b, const work *w, int i)
{
    if (w->op == NULL) {
        return b->backend->copy(b->stream, w->to, w->from, b->copy_bytes);
    }
    return ls_op_launch(b->stream, w->op, w->sets[i % w->n_sets].arguments);
}

static ls_status record(bench *b, const work *w, int n_launches, ls_recording **out)
{
    LS_TRY(b->backend->capture_begin(b->stream));
    LS_TRY(b->backend->stamp(b->stream, STAMP_BEGIN));
    for (int i = 0; i < n_launches; i++) {
        LS_TRY(queue(b, w, i));
    }
    LS_TRY(b->backend->stamp(b->stream, STAMP_END));
    return b->backend->capture_end(b->stream, out);
}

/* Between the two newest stamps. */
static ls_status elapsed(bench *b, double *seconds)
{
    uint64_t newest = b->backend->stamp_count(b->device);
    const ls_stamp *ring = b->backend->stamps(b->device);
    const ls_stamp *end = &ring[newest % LS_STAMP_RING], *begin = &ring[(newest - 1) % LS_STAMP_RING];

    LS_REQUIRE(end->id == STAMP_END && begin->id == STAMP_BEGIN && end->sequence == newest &&
                   begin->sequence == newest - 1,
               LS_ERR_INTERNAL, "bench_ops: the newest stamps are not those of the recording");
    *seconds = (double)(end->nanoseconds - begin->nanoseconds) * 1e-9;
    return LS_OK;
}

/* Seconds of one launch: the median of some replays, behind one that warms up. */
static ls_status time_launches(bench *b, const work *w, int n_launches, double *seconds)
{
    double times[N_REPLAYS];
    ls_recording *recording = NULL;
    ls_status status;

    LS_TRY(record(b, w, n_launches, &recording));
    for (int i = -1; i < N_REPLAYS; i++) {
        double time;

        LS_TRY_GOTO(status, out, b->backend->replay(recording));
        LS_TRY_GOTO(status, out, b->backend->stream_sync(b->stream));
        LS_TRY_GOTO(status, out, elapsed(b, &time));
        if (i >= 0) {
            times[i] = time / n_launches;
        }
    }
    *seconds = bench_median(times, N_REPLAYS);
    status = LS_OK;
out:
    b->backend->recording_destroy(recording);
    return status;
}

/* So many launches that a recording takes some ten milliseconds: the device's clock may tick coarsely. */
static ls_status time_work(bench *b, const work *w, double *seconds)
{
    const double wanted = 0.01;

    for (int i = 0; i < w->n_sets; i++) { /* eagerly first: libraries load, plans are made */
        LS_TRY(queue(b, w, i));
    }
    LS_TRY(b->backend->stream_sync(b->stream));
    if (b->is_tiny) {
        return time_launches(b, w, w->n_sets, seconds);
    }
    LS_TRY(time_launches(b, w, MIN_LAUNCHES, seconds));
    if (*seconds * MIN_LAUNCHES < wanted) {
        double n = *seconds > 0 ? wanted / *seconds : MAX_LAUNCHES;

        LS_TRY(time_launches(b, w, n < MAX_LAUNCHES ? (int)n + 1 : MAX_LAUNCHES, seconds));
    }
    return LS_OK;
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

static double bytes_moved(const ops_case *c, const void *arguments)
{
    const ls_view *views = arguments;
    double bytes = 0;

    if (c->bytes != NULL) {
        return c->bytes(arguments);
    }
    for (int i = 0; i < ops_n_views(c->op); i++) {
        bool accumulated = i >= c->op->n_in + c->op->n_out && (c->overwritten >> i & 1) == 0;

        bytes += (double)view_bytes(&views[i]) * (accumulated ? 2 : 1);
    }
    return bytes;
}

static double flops(const ops_case *c, const void *arguments)
{
    return c->op->flops != NULL ? c->op->flops(arguments) : 0;
}

static void row(bench *b, const char *name, const char *dtype, double bytes, double flop_count, double seconds)
{
    double rate = seconds > 0 ? bytes / seconds : 0, share = b->copy_rate > 0 ? rate / b->copy_rate : 0;
    double speed = seconds > 0 ? flop_count / seconds : 0;

    printf("%-24s %-5s %10.3f MB %12.2f us %9.1f GB/s %6.3f of copy", name, dtype, bytes * 1e-6, seconds * 1e6,
           rate * 1e-9, share);
    if (flop_count > 0) {
        printf(" %8.2f TFLOP/s", speed * 1e-12);
    }
    printf("\n");
    fflush(stdout);
    if (b->json != NULL) {
        fprintf(b->json,
                "%s\n  {\"op\": \"%s\", \"dtype\": \"%s\", \"bytes\": %.0f, \"flops\": %.0f, \"seconds\": %.9g, "
                "\"bytes_per_second\": %.9g, \"share_of_copy\": %.6g, \"flops_per_second\": %.9g}",
                b->n_rows > 0 ? "," : "", name, dtype, bytes, flop_count, seconds, rate, share, speed);
    }
    b->n_rows++;
}

static ls_status measure_sets(bench *b, const ops_case *c, ls_dtype dtype, op_set *sets, int *n_sets)
{
    char name[MAX_NAME];
    double seconds, bytes;
    int wanted = 1;

    for (*n_sets = 0; *n_sets < wanted; (*n_sets)++) {
        op_set *set = &sets[*n_sets];

        ls_status status = make_set(b, c, dtype, set);
        if (status != LS_OK) {
            (*n_sets)++;
            return status;
        }
        bytes = bytes_moved(c, set->arguments);
        wanted = bytes * MAX_SETS > (double)b->working_set ? (int)((double)b->working_set / (bytes + 1)) + 1 : MAX_SETS;
    }
    LS_TRY(time_work(b, &(work){.op = c->op, .sets = sets, .n_sets = *n_sets}, &seconds));
    snprintf(name, sizeof name, "%s%s%s", c->op->name, c->what[0] != '\0' ? " " : "", c->what);
    row(b, name, c->f32_only ? "f32" : ls_dtype_name(dtype), bytes, flops(c, sets[0].arguments), seconds);
    return LS_OK;
}

static ls_status measure_case(bench *b, const ops_case *c, ls_dtype dtype)
{
    op_set *sets;
    int n_sets;

    LS_TRY(lsi_memory_alloc(MAX_SETS * sizeof *sets, "sets of an op's views", (void **)&sets));
    ls_status status = measure_sets(b, c, dtype, sets, &n_sets);
    for (int i = 0; i < n_sets; i++) {
        free_set(b, c, &sets[i]);
    }
    lsi_memory_free(sets);
    return status;
}

static ls_status measure_copy(bench *b)
{
    work w = {.n_sets = 1};
    double seconds;

    LS_TRY(b->backend->alloc(b->device, LS_MEM_DEVICE, b->copy_bytes, &w.from));
    LS_TRY(b->backend->alloc(b->device, LS_MEM_DEVICE, b->copy_bytes, &w.to));
    LS_TRY(b->backend->fill(b->stream, w.from, 1, b->copy_bytes));
    LS_TRY(b->backend->fill(b->stream, w.to, 2, b->copy_bytes));
    LS_TRY(time_work(b, &w, &seconds));
    b->copy_rate = seconds > 0 ? 2.0 * (double)b->copy_bytes / seconds : 0;
    row(b, "copy", "u8", 2.0 * (double)b->copy_bytes, 0, seconds);
    b->backend->release(b->device, LS_MEM_DEVICE, b->copy_bytes, w.to);
    b->backend->release(b->device, LS_MEM_DEVICE, b->copy_bytes, w.from);
    return LS_OK;
}

/* Whether `word` is one of a list with commas. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ','), at = at == NULL ? NULL : at + 1) {
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static ls_status measure_all(bench *b)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16};
    int n;
    const ops_case *cases = ops_cases(&n);

    LS_TRY(ops_cases_check());
    LS_TRY(measure_copy(b));
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < 3; d++) {
            bool wanted = has_word(b->types, ls_dtype_name(dtypes[d])) && (d == 0 || !cases[i].f32_only);

            if (wanted && (b->only == NULL || strcmp(b->only, cases[i].op->name) == 0)) {
                LS_TRY(measure_case(b, &cases[i], dtypes[d]));
            }
        }
    }
    return LS_OK;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static ls_status open_bench(bench *b, ls_runtime *rt)
{
    ls_step_state state = {
        .beta1_power = 0.9, .beta2_power = 0.999, .unscale = 1, .clip_factor = 1, .loss_scale = 1, .counted = 1};

    b->device = rt->device;
    b->backend = rt->backend;
    b->shape = b->is_tiny ? &tiny : &gpt2;
    b->working_set = b->is_tiny ? 1 << 16 : (size_t)512 << 20;
    b->copy_bytes = b->is_tiny ? 1 << 16 : (size_t)256 << 20;
    b->pattern_bytes = b->is_tiny ? 1 << 12 : 1 << 20;
    LS_TRY(lsi_memory_alloc(b->pattern_bytes, "pattern", (void **)&b->pattern));
    LS_TRY(b->backend->stream_create(b->device, "ops", 0, &b->stream));
    LS_TRY(b->backend->alloc(b->device, LS_MEM_DEVICE, sizeof state, (void **)&b->state));
    LS_TRY(b->backend->copy(b->stream, b->state, &state, sizeof state));
    return b->backend->stream_sync(b->stream);
}

static void close_bench(bench *b)
{
    if (b->state != NULL) {
        b->backend->release(b->device, LS_MEM_DEVICE, sizeof *b->state, b->state);
    }
    if (b->stream != NULL) {
        b->backend->stream_destroy(b->stream);
    }
    lsi_memory_free(b->pattern);
}

static ls_status run(ls_runtime *rt, bench *b, const char *path)
{
    if (path != NULL) {
        b->json = fopen(path, "w");
        LS_REQUIRE(b->json != NULL, LS_ERR_OUTPUT, "%s: cannot be written", path);
        fprintf(b->json, "{\"device\": \"%s\", \"tiny\": %s, \"rows\": [", rt->backend->describe(rt->device),
                b->is_tiny ? "true" : "false");
    }
    printf("%s\n", rt->backend->describe(rt->device));
    ls_status status = open_bench(b, rt);
    if (status == LS_OK) {
        status = measure_all(b);
    }
    close_bench(b);
    if (b->json != NULL) {
        fprintf(b->json, "\n], \"complete\": %s}\n", status == LS_OK ? "true" : "false");
        bool written = ferror(b->json) == 0;
        written = fclose(b->json) == 0 && written;
        LS_REQUIRE(written || status != LS_OK, LS_ERR_OUTPUT, "%s: cannot be written", path);
    }
    return status;
}

int main(int argc, char **argv)
{
    enum { MAX_SETTINGS = 64 };
    const char *sets[MAX_SETTINGS] = {"model.kind=mlp", "data.kind=synthetic", "train.steps=1", "log.level=warn"},
               *path = NULL;
    int n_sets = 4;
    bench b = {.types = "f32,f16,bf16"};
    lsi_config *config = NULL;
    lsi_job *job;
    ls_runtime *rt;
    ls_status status = lsi_job_open("bench_ops", &argc, &argv, &job);

    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    for (int i = 1; i < argc && n_sets < MAX_SETTINGS; i++) {
        bool more = i + 1 < argc;

        if (strcmp(argv[i], "--tiny") == 0) {
            b.is_tiny = true;
        } else if (strcmp(argv[i], "--json") == 0 && more) {
            path = argv[++i];
        } else if (strcmp(argv[i], "--types") == 0 && more) {
            b.types = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && more) {
            b.only = argv[++i];
        } else {
            sets[n_sets++] = argv[i];
        }
    }
    status = lsi_job_agree(job, lsi_config_load(NULL, sets, n_sets, &config));
    if (status != LS_OK) {
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    return ls_runtime_close(&rt, run(rt, &b, path));
}
