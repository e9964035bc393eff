/* bench_allreduce [--sizes 64k,1M,500000000] [--reps N] [--threads N]        under mpirun -np N
 *
 * Times the sum of one f32 vector of every process, all of it to all, in the columns of nccl-tests: by our transports
 * shm and mpi, ordered and fast, and beside them by MPI_Allreduce. The variants of one size take turns, repetition by
 * repetition; times are medians of the slowest process. Every sum is checked once before it is timed.
 *
 * How fast it could be: in shared memory a sum of W vectors reads W and writes W vectors, 8 W bytes an element over all
 * processes. A streaming copy moves 8 bytes an element. So no time is less than W times that of a copy of one vector by
 * all processes together: algbw <= copy bandwidth / W, where both count 4 bytes an element. Messages move more: mpi's
 * sum of the pieces that have arrived is one copy per incoming and per outgoing vector on top.
 *
 * Copy bandwidth and the time of a message between two cores are measured before and after. Where one of them differs
 * by more than a fifth the machine has changed meanwhile: the run says that it is invalid. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "backend/registry.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/random.h"
#include "comm/arena.h"
#include "comm/registry.h"
#include "job/job.h"
#include "median.h"

#ifndef LOCKSTEP_HAVE_MPI
int main(void)
{
    puts("bench_allreduce needs several processes; this build has no MPI");
    return 0;
}
#else
#include <mpi.h>

enum { MAX_SIZES = 32, MAX_REPS = 101, MAX_WORLD = 256, MAX_THREADS = 1024, N_VARIANTS = 5, RAW = 4 };

typedef struct variant {
    const char *name, *transport, *redop;
    bool fast;
} variant;

static const variant variants[N_VARIANTS] = {
    {"shm", "shm", "ordered", false}, {"shm", "shm", "fast", true},   {"mpi", "mpi", "ordered", false},
    {"mpi", "mpi", "fast", true},     {"MPI_Allreduce", NULL, "sum", true},
};

typedef struct bench {
    lsi_job *job;
    ls_device *device;
    ls_stream *stream;
    lsi_arena *arena;               /* for the ping-pong */
    lsi_memory_account account;
    lsi_span share[MAX_WORLD];
    ls_comm *comm[N_VARIANTS];
    float *in[N_VARIANTS], *out[N_VARIANTS], *plain[2];
    int n_reps;
    double copy, ping;              /* bytes per second, seconds; before */
} bench;

/* Of one size. */
typedef struct result {
    double seconds;
    long wrong;
} result;

/* ---- what the machine can do --------------------------------------------------------------------------------- */

static void copy_streaming(float *to, const float *from, size_t n)
{
#ifdef __SSE2__
    for (size_t i = 0; i < n; i += 4) {
        _mm_stream_ps(to + i, _mm_load_ps(from + i));
    }
    _mm_sfence();
#else
    memcpy(to, from, n * sizeof *to);
#endif
}

/* Bytes per second that all processes together copy, each from one array of its own to another. */
static ls_status measure_copy(bench *b, double *out)
{
    enum { BYTES = 128 << 20, REPS = 7 };
    double seconds[REPS];
    void *from, *to;

    LS_TRY(b->device->backend->alloc(b->device, LS_MEM_PINNED, BYTES, &from));
    LS_TRY(b->device->backend->alloc(b->device, LS_MEM_PINNED, BYTES, &to));
    memset(from, 1, BYTES);
    memset(to, 1, BYTES);
    for (int i = 0; i < REPS; i++) {
        LS_TRY(lsi_job_barrier(b->job));
        double start = lsi_clock_seconds();

        copy_streaming(to, from, BYTES / sizeof(float));
        seconds[i] = lsi_clock_seconds() - start;
        LS_TRY(lsi_job_max(b->job, &seconds[i], 1));
    }
    b->device->backend->release(b->device, LS_MEM_PINNED, BYTES, from);
    b->device->backend->release(b->device, LS_MEM_PINNED, BYTES, to);
    *out = (double)BYTES * b->job->world / bench_median(seconds, REPS);
    return LS_OK;
}

/* Seconds for a word to get from rank 0 to rank 1: half a round trip. */
static ls_status measure_ping(bench *b, double *out)
{
    enum { TRIPS = 5000, REPS = 5 };
    _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)b->arena->base[0];
    double seconds[REPS];

    for (int rep = 0; rep < REPS; rep++) {
        if (b->job->rank == 0) {
            atomic_store(word, 0);
        }
        LS_TRY(lsi_job_barrier(b->job));
        double start = lsi_clock_seconds();

        for (uint32_t i = 0; b->job->rank < 2 && i < TRIPS; i++) {
            uint32_t turn = 2 * i + (uint32_t)b->job->rank;

            while (atomic_load_explicit(word, memory_order_acquire) != turn) {
            }
            atomic_store_explicit(word, turn + 1, memory_order_release);
        }
        seconds[rep] = (lsi_clock_seconds() - start) / (2.0 * TRIPS);
        LS_TRY(lsi_job_max(b->job, &seconds[rep], 1));
    }
    *out = bench_median(seconds, REPS);
    return LS_OK;
}

/* ---- one sum ------------------------------------------------------------------------------------------------- */

static float value(int rank, int64_t i)
{
    return lsi_random_unit(lsi_random_philox(7, (uint32_t)rank, (uint32_t)i, 0, 0).v[0]) - 0.5f;
}

/* By the tree over as many lanes as ranks. */
static float tree_sum(int lo, int hi, int64_t i)
{
    int mid = lsi_tree_mid(lo, hi);

    return hi - lo == 1 ? value(lo, i) : tree_sum(lo, mid, i) + tree_sum(mid, hi, i);
}

/* A sample of elements: the ordered sum to the bit, any other to rounding. */
static long count_wrong(const bench *b, const float *out, int64_t n, bool fast)
{
    int64_t step = n > 4096 ? n / 4096 | 1 : 1;
    long wrong = 0;

    for (int64_t i = 0; i < n; i += step) {
        float want = tree_sum(0, b->job->world, i), off = out[i] - want;

        wrong += fast ? !(off * off < 1e-11f * (float)b->job->world) : memcmp(&want, &out[i], sizeof want) != 0;
    }
    return wrong;
}

static ls_status run_times(bench *b, int v, ls_collective *collective, float *in, float *out, int64_t n, int times)
{
    if (v == RAW) {
        for (int i = 0; i < times; i++) {
            MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        return LS_OK;
    }
    for (int i = 0; i < times; i++) {
        LS_TRY(b->comm[v]->transport->launch(collective, b->stream));
    }
    return b->device->backend->stream_sync(b->stream);
}

static ls_status prepare(bench *b, int v, int64_t n, float *out, ls_collective **collective)
{
    lsi_span share = b->share[b->job->rank];

    if (v == RAW) {
        return LS_OK;
    }
    return b->comm[v]->transport->prepare_reduce(b->comm[v], &(ls_partial){share.lo, share.hi, b->in[v]}, 1, n, out,
                                                 true, collective);
}

/* One check, then zeros, whose sums stay what they are however often they are made. */
static ls_status check(bench *b, int v, ls_collective *collective, float *out, int64_t n, long *wrong)
{
    double most;

    for (int64_t i = 0; i < n; i++) {
        b->in[v][i] = value(b->job->rank, i);
    }
    LS_TRY(lsi_job_barrier(b->job));
    LS_TRY(run_times(b, v, collective, b->in[v], out, n, 1));
    most = (double)count_wrong(b, out, n, variants[v].fast);
    LS_TRY(lsi_job_max(b->job, &most, 1));
    *wrong = (long)most;
    LS_TRY(lsi_job_barrier(b->job));
    memset(b->in[v], 0, (size_t)n * sizeof(float));
    memset(out, 0, (size_t)n * sizeof(float));
    return LS_OK;
}

static int times_of(int64_t n)
{
    const int64_t bytes_per_repetition = 64 << 20, most = 300;
    int64_t times = bytes_per_repetition / (n * (int64_t)sizeof(float));

    return (int)(times < 1 ? 1 : times > most ? most : times);
}

static ls_status measure_size(bench *b, int64_t n, bool in_place, result out[N_VARIANTS])
{
    static double seconds[N_VARIANTS][MAX_REPS];
    ls_collective *collective[N_VARIANTS] = {NULL};
    int times = times_of(n);

    for (int v = 0; v < N_VARIANTS; v++) {
        float *to = in_place ? b->in[v] : b->out[v];

        LS_TRY(prepare(b, v, n, to, &collective[v]));
        LS_TRY(check(b, v, collective[v], to, n, &out[v].wrong));
    }
    for (int rep = -1; rep < b->n_reps; rep++) {        /* the first one warms up */
        for (int v = 0; v < N_VARIANTS; v++) {
            LS_TRY(lsi_job_barrier(b->job));
            double start = lsi_clock_seconds();

            LS_TRY(run_times(b, v, collective[v], b->in[v], in_place ? b->in[v] : b->out[v], n, times));
            double one = (lsi_clock_seconds() - start) / times;
            LS_TRY(lsi_job_max(b->job, &one, 1));
            if (rep >= 0) {
                seconds[v][rep] = one;
            }
        }
    }
    for (int v = 0; v < N_VARIANTS; v++) {
        out[v].seconds = bench_median(seconds[v], b->n_reps);
    }
    return LS_OK;
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

/* The lowest ratios over the sizes that each is about. */
typedef struct summary {
    double of_floor, to_mpi, to_allreduce;
} summary;

static double algbw(int64_t n, double seconds)
{
    return (double)n * sizeof(float) / seconds * 1e-9;
}

static void print_columns(int64_t n, int world, double floor_bandwidth, const result *r)
{
    double bandwidth = algbw(n, r->seconds);

    printf(" %11.1f %7.2f %7.2f %6.2f %6ld", r->seconds * 1e6, bandwidth, bandwidth * 2 * (world - 1) / world,
           bandwidth / floor_bandwidth, r->wrong);
}

static void print_size(const bench *b, int64_t n, result r[2][N_VARIANTS])
{
    double floor_bandwidth = b->copy * 1e-9 / b->job->world;

    for (int v = 0; v < N_VARIANTS; v++) {
        printf("%12lld %12lld  float %8s   -1  %-13s", (long long)n * (long long)sizeof(float), (long long)n,
               variants[v].redop, variants[v].name);
        for (int in_place = 0; in_place < 2; in_place++) {
            print_columns(n, b->job->world, floor_bandwidth, &r[in_place][v]);
        }
        printf("\n");
    }
    fflush(stdout);
}

static double lower(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

/* In place, as a training step does it. */
static void note(const bench *b, int64_t n, const result r[N_VARIANTS], summary *s)
{
    const int64_t large = 64000000 / sizeof(float), small = (1 << 20) / sizeof(float);

    if (n >= large) {
        s->of_floor = lower(s->of_floor, algbw(n, r[0].seconds) / (b->copy * 1e-9 / b->job->world));
        s->to_mpi = lower(s->to_mpi, r[2].seconds / r[0].seconds);
    }
    if (n <= small) {
        s->to_allreduce = lower(s->to_allreduce, r[RAW].seconds / r[0].seconds);
    }
}

static bool has_changed(double before, double after)
{
    return after > 1.2 * before || before > 1.2 * after;
}

static ls_status measure_all(bench *b, const int64_t *sizes, int n_sizes)
{
    bool speaks = b->job->rank == 0;
    double copy = 0, ping = 0;
    summary s = {0};

    LS_TRY(measure_copy(b, &b->copy));
    LS_TRY(measure_ping(b, &b->ping));
    if (speaks) {
        printf("# %d processes; medians of %d\n", b->job->world, b->n_reps);
        printf("# before: copy bandwidth %.1f GB/s (4 bytes an element, all processes), core to core %.0f ns\n",
               b->copy * 1e-9, b->ping * 1e9);
        printf("# floor of shm: %d bytes an element over all processes, algbw %.1f GB/s\n", 8 * b->job->world,
               b->copy * 1e-9 / b->job->world);
        printf("#%58s out of place %34s in place\n", "", "");
        printf("#%11s %12s  %5s %8s %4s  %-13s", "size B", "count", "type", "redop", "root", "by");
        for (int i = 0; i < 2; i++) {
            printf(" %11s %7s %7s %6s %6s", "time us", "algbw", "busbw", "/floor", "#wrong");
        }
        printf("\n");
    }
    for (int i = 0; i < n_sizes; i++) {
        result r[2][N_VARIANTS];

        for (int in_place = 0; in_place < 2; in_place++) {
            LS_TRY(measure_size(b, sizes[i], in_place != 0, r[in_place]));
        }
        note(b, sizes[i], r[1], &s);
        if (speaks) {
            print_size(b, sizes[i], r);
        }
    }
    LS_TRY(measure_copy(b, &copy));
    LS_TRY(measure_ping(b, &ping));
    bool valid = !has_changed(b->copy, copy) && !has_changed(b->ping, ping);
    if (speaks) {
        printf("# after: copy bandwidth %.1f GB/s, core to core %.0f ns: the run is %s\n", copy * 1e-9, ping * 1e9,
               valid ? "valid" : "INVALID, the machine has changed");
        if (s.of_floor > 0) {
            printf("# shm ordered in place, from 64 MB on: at least %.2f of its floor and %.2f x mpi ordered\n",
                   s.of_floor, s.to_mpi);
        }
        if (s.to_allreduce > 0) {
            printf("# shm ordered in place, up to 1 MiB: at least %.2f x MPI_Allreduce\n", s.to_allreduce);
        }
    }
    return LS_OK;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

_Noreturn static void give_up(void *argument, ls_status status)
{
    lsi_job_abort(argument, status);
}

/* MPI sums ordinary memory, which its variants share; shm's lies with each comm. */
static bool is_mpi(int v)
{
    return v == RAW || strcmp(variants[v].transport, "mpi") == 0;
}

static ls_status open_variant(bench *b, int v, size_t bytes)
{
    if (v != RAW) {
        LS_TRY(lsi_comm_open(&(lsi_comm_options){.transport = variants[v].transport, .job = b->job,
                                                 .device = b->device, .account = &b->account,
                                                 .n_lanes = b->job->world, .share = b->share,
                                                 .fast = variants[v].fast, .wire = LS_F32, .timeout_seconds = 600,
                                                 .on_failure = give_up, .failure_argument = b->job},
                             &b->comm[v]));
    }
    if (is_mpi(v)) {
        b->in[v] = b->plain[0];
        b->out[v] = b->plain[1];
        return LS_OK;
    }
    LS_TRY(b->comm[v]->transport->alloc(b->comm[v], bytes, (void **)&b->in[v]));
    return b->comm[v]->transport->alloc(b->comm[v], bytes, (void **)&b->out[v]);
}

static void close_variant(bench *b, int v, size_t bytes)
{
    if (!is_mpi(v)) {
        b->comm[v]->transport->release(b->comm[v], bytes, b->in[v]);
        b->comm[v]->transport->release(b->comm[v], bytes, b->out[v]);
    }
    if (v != RAW) {
        b->comm[v]->transport->close(b->comm[v]);
    }
}

static ls_status run(bench *b, const int64_t *sizes, int n_sizes, int n_threads)
{
    const ls_backend *backend;
    int64_t largest = 0;

    LS_REQUIRE(b->job->world > 1 && b->job->world <= MAX_WORLD, LS_ERR_USAGE, "start it under mpirun with 2 to %d",
               MAX_WORLD);
    for (int i = 0; i < n_sizes; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    size_t bytes = (size_t)largest * sizeof(float);
    LS_TRY(lsi_backend_find("cpu", &backend));
    LS_TRY(backend->open(&(ls_device_options){.struct_size = sizeof(ls_device_options), .n_threads = n_threads},
                         &b->device));
    LS_TRY(backend->stream_create(b->device, "comm", 1, &b->stream));
    LS_TRY(lsi_shares(b->job->world, b->job->world, b->job->node, b->share));
    LS_TRY(lsi_arena_open(b->job, b->device, sizeof(uint32_t), 60, &b->arena));
    for (int i = 0; i < 2; i++) {
        LS_TRY(backend->alloc(b->device, LS_MEM_PINNED, bytes, (void **)&b->plain[i]));
    }
    for (int v = 0; v < N_VARIANTS; v++) {
        LS_TRY(open_variant(b, v, bytes));
    }
    LS_TRY(measure_all(b, sizes, n_sizes));
    for (int v = 0; v < N_VARIANTS; v++) {
        close_variant(b, v, bytes);
    }
    for (int i = 0; i < 2; i++) {
        backend->release(b->device, LS_MEM_PINNED, bytes, b->plain[i]);
    }
    lsi_arena_close(&b->arena);
    backend->stream_destroy(b->stream);
    backend->close(b->device);
    return LS_OK;
}

static ls_status parse_sizes(char *list, int64_t *sizes, int *n)
{
    for (char *word = strtok(list, ","); word != NULL; word = strtok(NULL, ",")) {
        int64_t bytes = 0;
        const char *wrong = lsi_number_size(word, &bytes);

        LS_REQUIRE(wrong == NULL && bytes >= (int64_t)sizeof(float) && *n < MAX_SIZES, LS_ERR_USAGE,
                   "--sizes: '%s': %s", word, wrong != NULL ? wrong : "too small, or one too many");
        sizes[(*n)++] = bytes / (int64_t)sizeof(float);
    }
    return LS_OK;
}

typedef struct arguments {
    char *sizes;
    int n_reps, n_threads;
} arguments;

static ls_status parse_number(const char *option, const char *text, int most, int *out)
{
    int64_t value;
    const char *wrong = lsi_number_int(text, &value);

    LS_REQUIRE(wrong == NULL && value >= 1 && value <= most, LS_ERR_USAGE, "%s: '%s' is no number from 1 to %d", option,
               text, most);
    *out = (int)value;
    return LS_OK;
}

static ls_status parse(int argc, char **argv, arguments *out)
{
    for (int i = 1; i < argc; i += 2) {
        bool sizes = strcmp(argv[i], "--sizes") == 0, reps = strcmp(argv[i], "--reps") == 0;

        LS_REQUIRE((sizes || reps || strcmp(argv[i], "--threads") == 0) && i + 1 < argc, LS_ERR_USAGE,
                   "bench_allreduce [--sizes 64k,1M,500000000] [--reps N] [--threads N]");
        if (sizes) {
            out->sizes = argv[i + 1];
        } else {
            LS_TRY(parse_number(argv[i], argv[i + 1], reps ? MAX_REPS : MAX_THREADS,
                                reps ? &out->n_reps : &out->n_threads));
        }
    }
    return LS_OK;
}

int main(int argc, char **argv)
{
    static bench b;
    char usual[] = "64k,256k,1M,4M,16M,64M,256M,500000000";
    arguments chosen = {.sizes = usual, .n_reps = 7, .n_threads = 1};
    int64_t sizes[MAX_SIZES];
    int n_sizes = 0;

    if (lsi_job_open("bench_allreduce", &argc, &argv, &b.job) != LS_OK) {
        return 1;
    }
    ls_status status = parse(argc, argv, &chosen);
    if (status == LS_OK) {
        status = parse_sizes(chosen.sizes, sizes, &n_sizes);
    }
    status = lsi_job_agree(b.job, status);
    if (status == LS_OK) {
        b.n_reps = chosen.n_reps;
        status = run(&b, sizes, n_sizes, chosen.n_threads);
        if (status != LS_OK) {
            lsi_job_abort(b.job, status);
        }
    }
    lsi_job_close(&b.job);
    return ls_status_exit_code(status);
}
#endif
