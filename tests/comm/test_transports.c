/* RUN: np=1,2,3,4,8 timeout=120 label=contract cuda */
/* Reductions against the literal recursive sum, bit for bit, with pretended nodes, in place and not, captured and not;
 * exchange and broadcast. By every transport that is possible. */
#include <stdlib.h>

#include "base/random.h"
#include "comm_case.h"

enum { N_MAX = 9 * LSI_BLOCK + 123 };

/* A comm with the partial sums of this rank. */
typedef struct setting {
    comm_case c;
    int n_roots;
    lsi_span root[LSI_TREE_MAX_ROOTS];
    float *partial[LSI_TREE_MAX_ROOTS];
    float *fresh[LSI_TREE_MAX_ROOTS];       /* what the partials are before a reduction: it may overwrite one */
    float *out;
} setting;

/* ---- data ---------------------------------------------------------------------------------------------------- */

/* Magnitudes 2^-24 .. 2^24, both signs, and signed zeros (in some places all lanes hold -0). */
static float value(int lane, int64_t i, int salt)
{
    lsi_random4 r = lsi_random_philox(11, (uint32_t)lane, (uint32_t)i, (uint32_t)salt, 0);
    uint32_t bits = (r.v[0] & 0x807fffffu) | (103 + r.v[1] % 49) << 23;
    float f;

    if (i % 7 == 3) {
        bits = i % 14 == 3 ? 0x80000000u : r.v[0] & 0x80000000u;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The definition. `room` holds n elements for each level of the tree below. */
static void literal_sum(int lo, int hi, int64_t n, int salt, float *out, float *room)
{
    int half = 1;

    if (hi - lo == 1) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = value(lo, i, salt);
        }
        return;
    }
    while (half * 2 < hi - lo) {
        half *= 2;
    }
    literal_sum(lo, lo + half, n, salt, out, room + n);
    literal_sum(lo + half, hi, n, salt, room, room + n);
    for (int64_t i = 0; i < n; i++) {
        out[i] = out[i] + room[i];
    }
}

static void make_sum(int lo, int hi, int64_t n, int salt, float *out)
{
    float *room = malloc(((size_t)n + 1) * 8 * sizeof *room);

    assert_non_null(room);
    literal_sum(lo, hi, n, salt, out, room);
    free(room);
}

/* ---- setting ------------------------------------------------------------------------------------------------- */

static void open_comm(setting *s, const char *transport, int lanes, int map, size_t piece_bytes)
{
    memset(s, 0, sizeof *s);
    open_case(&s->c, transport, lanes, map, piece_bytes, false, LS_F32);
    s->n_roots = lsi_tree_roots(lanes, s->c.share[job->rank].lo, s->c.share[job->rank].hi, s->root);
    for (int i = 0; i <= s->n_roots; i++) {
        float **memory = i < s->n_roots ? &s->partial[i] : &s->out;

        CHECK_OK(s->c.comm->transport->alloc(s->c.comm, N_MAX * sizeof(float), (void **)memory));
    }
    for (int i = 0; i < s->n_roots; i++) {
        s->fresh[i] = malloc(N_MAX * sizeof(float));
        assert_non_null(s->fresh[i]);
    }
}

static void close_comm(setting *s)
{
    for (int i = 0; i <= s->n_roots; i++) {
        s->c.comm->transport->release(s->c.comm, N_MAX * sizeof(float), i < s->n_roots ? s->partial[i] : s->out);
        free(s->fresh[i]);
    }
    close_case(&s->c);
}

static ls_collective *prepare(setting *s, int64_t at, int64_t n, bool in_place, bool gather)
{
    ls_partial partials[LSI_TREE_MAX_ROOTS];
    ls_collective *collective;

    for (int i = 0; i < s->n_roots; i++) {
        partials[i] = (ls_partial){s->root[i].lo, s->root[i].hi, s->partial[i] + at};
    }
    CHECK_OK(s->c.comm->transport->prepare_reduce(s->c.comm, partials, s->n_roots, n,
                                                  (in_place && s->n_roots > 0 ? s->partial[0] : s->out) + at, gather,
                                                  &collective));
    return collective;
}

static void make_partials(setting *s, int64_t n, int salt)
{
    for (int i = 0; i < s->n_roots; i++) {
        make_sum(s->root[i].lo, s->root[i].hi, n, salt, s->fresh[i]);
    }
}

static void fill_partials(setting *s, int64_t n)
{
    CHECK_OK(device->backend->fill(stream, s->out, 0xff, (size_t)n * sizeof(float)));
    for (int i = 0; i < s->n_roots; i++) {
        put(s->partial[i], s->fresh[i], (size_t)n * sizeof(float));
    }
    CHECK_OK(device->backend->stream_sync(stream));
}

static void check_total(const setting *s, int64_t at, int64_t n, bool in_place, bool gather, const float *want)
{
    static float out[N_MAX];
    int64_t start = 0, count = n;

    get(out, in_place && s->n_roots > 0 ? s->partial[0] : s->out, (size_t)(at + n) * sizeof(float));
    if (!gather) {
        s->c.comm->transport->chunk(s->c.comm, n, job->rank, &start, &count);
    }
    if (memcmp(out + at + start, want + at + start, (size_t)count * sizeof(float)) != 0) {
        for (int64_t i = at + start; i < at + start + count; i++) {
            if (memcmp(&out[i], &want[i], sizeof(float)) != 0) {
                fail_msg("rank %d, %d lanes, element %lld of %lld: %a instead of %a", job->rank, s->c.comm->n_lanes,
                         (long long)i, (long long)n, (double)out[i], (double)want[i]);
            }
        }
    }
}

/* ---- reductions ---------------------------------------------------------------------------------------------- */

static void run_reductions(const char *transport, int lanes, int map, size_t piece_bytes)
{
    /* Also such that all chunks are as large: 6 blocks for 2 and 3 ranks, 8 for 2, 4 and 8. */
    static const int64_t sizes[] = {1, 1000, LSI_BLOCK, 3 * LSI_BLOCK + 5, 6 * LSI_BLOCK,
                                    8 * LSI_BLOCK, N_MAX};
    static float want[N_MAX];
    setting s;

    open_comm(&s, transport, lanes, map, piece_bytes);
    make_sum(0, lanes, N_MAX, 0, want);
    make_partials(&s, N_MAX, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 4; kind++) {
            bool in_place = kind % 2 != 0, gather = kind >= 2;
            ls_collective *collective = prepare(&s, 0, sizes[i], in_place, gather);

            fill_partials(&s, sizes[i]);
            launch_and_wait(&s.c, collective);
            check_total(&s, 0, sizes[i], in_place, gather, want);
        }
    }
    assert_int_equal(s.c.account.live[LSI_MEMORY_COMM], planned_staging(&s.c, N_MAX));
    close_comm(&s);
}

static void test_one_piece(void **state)
{
    static const int lanes[] = {1, 2, 3, 5, 8, 12, 13, 16, 37};

    (void)state;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        run_reductions("auto", lanes[i], 0, 0);
    }
}

static void test_many_pieces_and_nodes(void **state)
{
    static const int lanes[] = {1, 3, 8, 13};
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);

    (void)state;
    for (int t = 0; t < n_transports; t++) {
        for (int map = 0; map < N_MAPS; map++) {
            for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
                run_reductions(transport[t], lanes[i], map, SMALL_PIECE / (i % 2 + 1));
            }
        }
    }
}

/* Three buckets with odd tails queued behind each other, in place, then the same recorded once and replayed. */
static void run_captured_steps(const char *transport)
{
    static const int64_t cut[] = {0, 4 * LSI_BLOCK, 8 * LSI_BLOCK, N_MAX};
    static float want[N_MAX];
    ls_collective *bucket[3];
    ls_recording *recording;
    setting s;

    open_comm(&s, transport, 12, 1, SMALL_PIECE);
    for (int b = 0; b < 3; b++) {
        bucket[b] = prepare(&s, cut[b], cut[b + 1] - cut[b], true, true);
    }
    CHECK_OK(device->backend->capture_begin(stream));
    for (int b = 0; b < 3; b++) {
        CHECK_OK(s.c.comm->transport->launch(bucket[b], stream));
    }
    CHECK_OK(device->backend->capture_end(stream, &recording));
    for (int step = 0; step < 4; step++) {
        make_sum(0, 12, N_MAX, step, want);
        make_partials(&s, N_MAX, step);
        fill_partials(&s, N_MAX);
        if (step == 0) {
            for (int b = 0; b < 3; b++) {
                CHECK_OK(s.c.comm->transport->launch(bucket[b], stream));
            }
        } else {
            CHECK_OK(device->backend->replay(recording));
        }
        CHECK_OK(device->backend->stream_sync(stream));
        check_total(&s, 0, N_MAX, true, true, want);
    }
    device->backend->recording_destroy(recording);
    close_comm(&s);
}

static void test_captured_steps(void **state)
{
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);

    (void)state;
    run_captured_steps("auto");
    for (int t = 0; t < n_transports; t++) {
        run_captured_steps(transport[t]);
    }
}

/* Vectors that do not fit a cache, which transports may treat in a way of their own: reduced to everybody, and reduced to
 * their owners and gathered. Small whole numbers, whose sums are exact in any order. */
static void run_large(const char *transport)
{
    enum { N = 5 * 1000 * 1000 + 3, BYTES = N * sizeof(float), LANES = 3 };
    ls_collective *whole, *chunks, *rest;
    ls_partial partials[LSI_TREE_MAX_ROOTS];
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    float *host = malloc(BYTES), *out;
    comm_case c;

    assert_non_null(host);
    open_case(&c, transport, LANES, 0, 0, false, LS_F32);
    int n_roots = lsi_tree_roots(LANES, c.share[job->rank].lo, c.share[job->rank].hi, roots);
    CHECK_OK(c.comm->transport->alloc(c.comm, BYTES, (void **)&out));
    for (int k = 0; k < n_roots; k++) {
        partials[k] = (ls_partial){.lo = roots[k].lo, .hi = roots[k].hi};
        CHECK_OK(c.comm->transport->alloc(c.comm, BYTES, (void **)&partials[k].data));
        for (int64_t i = 0; i < N; i++) {
            host[i] = 0;
            for (int lane = roots[k].lo; lane < roots[k].hi; lane++) {
                host[i] += (float)((i + lane * 100) % 1000);
            }
        }
        put(partials[k].data, host, BYTES);
    }
    CHECK_OK(c.comm->transport->prepare_reduce(c.comm, partials, n_roots, N, out, true, &whole));
    CHECK_OK(c.comm->transport->prepare_reduce(c.comm, partials, n_roots, N, out, false, &chunks));
    CHECK_OK(c.comm->transport->prepare_gather(c.comm, out, N, sizeof(float), &rest));
    for (int way = 0; way < 2; way++) {
        CHECK_OK(device->backend->fill(stream, out, 0xff, BYTES));
        CHECK_OK(c.comm->transport->launch(way == 0 ? whole : chunks, stream));
        if (way == 1) {
            CHECK_OK(c.comm->transport->launch(rest, stream));
        }
        CHECK_OK(device->backend->stream_sync(stream));
        get(host, out, BYTES);
        for (int64_t i = 0; i < N; i++) {
            if (host[i] != (float)(i % 1000 + (i + 100) % 1000 + (i + 200) % 1000)) {
                fail_msg("%s, way %d: element %lld is %g", transport, way, (long long)i, (double)host[i]);
            }
        }
    }
    for (int k = 0; k < n_roots; k++) {
        c.comm->transport->release(c.comm, BYTES, partials[k].data);
    }
    c.comm->transport->release(c.comm, BYTES, out);
    close_case(&c);
    free(host);
}

static void test_large_vectors(void **state)
{
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);

    (void)state;
    /* More ranks would tell nothing more, and a simulated GPU takes its time. */
    for (int t = 0; t < n_transports && job->world <= 3 && device->backend->host_memory; t++) {
        run_large(transport[t]);
    }
}

/* The test can fail: what the ranks hold, added up rank by rank, has other bits. */
static void test_plain_sum_differs(void **state)
{
    enum { N = 4096 };
    static float mine[N], all[MAX_WORLD * N], want[N], lane[N];
    lsi_span share[MAX_WORLD];

    (void)state;
    CHECK_OK(lsi_shares(12, job->world, job->node, share));
    for (int l = share[job->rank].lo; l < share[job->rank].hi; l++) {
        make_sum(l, l + 1, N, 0, lane);
        for (int i = 0; i < N; i++) {
            mine[i] += lane[i];
        }
    }
    CHECK_OK(lsi_job_all_gather(job, mine, sizeof mine, all));
    for (int r = 1; r < job->world; r++) {
        for (int i = 0; i < N; i++) {
            all[i] += all[r * N + i];
        }
    }
    make_sum(0, 12, N, 0, want);
    assert_memory_not_equal(all, want, sizeof want);
}

static void test_wrong_partials_are_refused(void **state)
{
    setting s;
    ls_collective *collective;
    ls_partial partial = {0, 1, NULL};

    (void)state;
    open_comm(&s, "auto", 64, 0, 0);
    CHECK_FAILS(s.c.comm->transport->prepare_reduce(s.c.comm, &partial, 2, 1, s.out, true, &collective),
                LS_ERR_INTERNAL, NULL);
    CHECK_FAILS(s.c.comm->transport->prepare_reduce(s.c.comm, &partial, s.n_roots, 1, s.out, true, &collective),
                LS_ERR_INTERNAL, NULL);
    close_comm(&s);
}

/* ---- exchange, broadcast ------------------------------------------------------------------------------------- */

static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)(rank * 37 + (int)(i % 251) + 1);
}

static void run_exchanges(const char *transport)
{
    enum { N = 100003 };
    static const size_t sizes[] = {1, 8, 1000, N};
    static unsigned char all[MAX_WORLD * N];
    unsigned char *memory;
    setting s;

    open_comm(&s, transport, 16, 0, 0);
    CHECK_OK(s.c.comm->transport->alloc(s.c.comm, (MAX_WORLD + 1) * N, (void **)&memory));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            size_t bytes = sizes[k];
            unsigned char *from = in_place ? memory + (size_t)job->rank * bytes : memory + MAX_WORLD * N;
            ls_collective *collective;

            memset(all, 0, sizeof all);
            put(memory, all, sizeof all);
            for (size_t i = 0; i < bytes; i++) {
                all[i] = byte_of(job->rank, i);
            }
            put(from, all, bytes);
            CHECK_OK(s.c.comm->transport->prepare_exchange(s.c.comm, from, memory, bytes, &collective));
            launch_and_wait(&s.c, collective);
            get(all, memory, sizeof all);
            for (int r = 0; r < job->world; r++) {
                for (size_t i = 0; i < bytes; i++) {
                    assert_int_equal(all[(size_t)r * bytes + i], byte_of(r, i));
                }
            }
        }
    }
    s.c.comm->transport->release(s.c.comm, (MAX_WORLD + 1) * N, memory);
    close_comm(&s);
}

static void test_exchange(void **state)
{
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);

    (void)state;
    run_exchanges("auto");
    for (int t = 0; t < n_transports; t++) {
        run_exchanges(transport[t]);
    }
}

static void run_broadcasts(const char *transport)
{
    enum { N = 5 * SMALL_PIECE + 3 };
    static const size_t sizes[] = {0, 1, SMALL_PIECE, N};
    static unsigned char data[N];
    void *memory;
    setting s;

    open_comm(&s, transport, 16, 0, SMALL_PIECE);
    CHECK_OK(s.c.comm->transport->alloc(s.c.comm, N, &memory));
    for (int root = 0; root < job->world; root++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            ls_collective *collective;

            for (size_t i = 0; i < sizes[k]; i++) {
                data[i] = job->rank == root ? byte_of(root, i) : 0;
            }
            put(memory, data, sizes[k]);
            CHECK_OK(s.c.comm->transport->prepare_broadcast(s.c.comm, memory, sizes[k], root, &collective));
            launch_and_wait(&s.c, collective);
            get(data, memory, sizes[k]);
            for (size_t i = 0; i < sizes[k]; i++) {
                assert_int_equal(data[i], byte_of(root, i));
            }
        }
    }
    s.c.comm->transport->release(s.c.comm, N, memory);
    close_comm(&s);
}

static void test_broadcast(void **state)
{
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);

    (void)state;
    run_broadcasts("auto");
    for (int t = 0; t < n_transports; t++) {
        run_broadcasts(transport[t]);
    }
}

/* ---- choosing, ending ---------------------------------------------------------------------------------------- */

static void test_choices(void **state)
{
    setting s;
    ls_comm *comm;

    (void)state;
    open_comm(&s, "auto", 16, 0, 0);
    assert_string_equal(s.c.comm->transport->name, job->world == 1 ? "self" : has_nccl ? "nccl" : device->backend->host_memory ? "shm" : "mpi");
    s.c.options.transport = "pigeon";
    CHECK_FAILS(lsi_comm_open(&s.c.options, &comm), LS_ERR_CONFIG, "comm.transport is 'pigeon'; choices");
    s.c.options.transport = "nccl";
    if (!has_nccl) {
        CHECK_FAILS(lsi_comm_open(&s.c.options, &comm), LS_ERR_CONFIG,
                    !lsi_nccl_is_built()            ? "is not in this build"
                    : device->backend->host_memory ? "this run is on the cpu backend"
                                                   : "ranks 0 and 4 both use the GPU at");
    }
    s.c.options.transport = "self";
    if (job->world > 1) {
        CHECK_FAILS(lsi_comm_open(&s.c.options, &comm), LS_ERR_CONFIG, "comm.transport = self is for one process");
    }
    s.c.options.transport = "mpi";
    s.c.job.communicator = NULL;
    CHECK_FAILS(lsi_comm_open(&s.c.options, &comm), LS_ERR_CONFIG,
                has_mpi() ? "needs a job started with MPI" : "is not in this build");
    close_comm(&s);
}

/* After an abort launches complete without data, on this rank alone. */
static void test_abort(void **state)
{
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);
    float out[16];
    setting s;

    (void)state;
    for (int t = 0; t < n_transports; t++) {
        open_comm(&s, transport[t], 16, 0, 0);
        ls_collective *collective = prepare(&s, 0, N_MAX, false, true);
        s.c.comm->transport->abort(s.c.comm);
        fill_partials(&s, 16);
        launch_and_wait(&s.c, collective);
        get(out, s.out, sizeof out);
        for (int i = 0; i < 16; i++) {
            assert_true(out[i] != out[i]);      /* as it was filled: NaN */
        }
        close_comm(&s);
    }
}

static void test_no_memory(void **state)
{
    setting s;
    ls_comm *comm = NULL;
    long failures = 0;

    (void)state;
    if (!has_mpi()) {
        return;
    }
    open_comm(&s, "mpi", 16, 1, 0);
    CHECK_OK(s.c.comm->transport->launch(prepare(&s, 0, 1, false, true), stream));
    CHECK_OK(device->backend->stream_sync(stream));     /* its thread runs and has freed what it was started with */
    size_t before = lsi_memory_live_blocks();
    for (bool opened = false; !opened; failures++) {
        lsi_memory_fail_at(failures + 1);
        opened = lsi_comm_open(&s.c.options, &comm) == LS_OK;
        lsi_memory_fail_at(0);
        if (!opened) {
            assert_int_equal(lsi_memory_live_blocks(), before);
        }
    }
    assert_true(failures > 4);
    comm->transport->close(comm);
    close_comm(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_piece),
        cmocka_unit_test(test_many_pieces_and_nodes),
        cmocka_unit_test(test_captured_steps),
        cmocka_unit_test(test_large_vectors),
        cmocka_unit_test(test_plain_sum_differs),
        cmocka_unit_test(test_wrong_partials_are_refused),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_no_memory),
    };

    return start_tests("test_transports", argc, argv) ? end_tests(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
