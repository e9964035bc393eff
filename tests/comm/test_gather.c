/* RUN: np=1,2,3,4,8 timeout=120 label=contract cuda */
/* The gather: everybody ends up with every owner's chunk, and nothing else changes. By every transport that is
 * possible. */
#include "base/random.h"
#include "comm_case.h"

enum { N_MAX = 11 * LSI_BLOCK + 77, GUARD = 64, BYTES_MAX = N_MAX * 4 + 2 * GUARD };

static unsigned char byte_at(int owner, int salt, int64_t i)
{
    return (unsigned char)lsi_random_philox(5, (uint32_t)owner, (uint32_t)salt, (uint32_t)i, 0).v[0];
}

/* What `rank` holds, or with rank -1 what everybody must hold in the end: other chunks are garbage of its own. */
static void fill(const comm_case *c, int rank, int salt, int64_t n, size_t size, unsigned char *out)
{
    int64_t start, count;

    memset(out, 0x5a, (size_t)n * size + 2 * GUARD);
    for (int owner = 0; owner < job->world; owner++) {
        c->comm->transport->chunk(c->comm, n, owner, &start, &count);
        for (int64_t i = start * (int64_t)size; i < (start + count) * (int64_t)size; i++) {
            bool is_there = rank < 0 || owner == rank;

            out[GUARD + i] = is_there ? byte_at(owner, salt, i) : (unsigned char)(0xa0 + rank);
        }
    }
}

static void check_same(const unsigned char *got, const unsigned char *want, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n * (int64_t)size + 2 * GUARD; i++) {
        if (got[i] != want[i]) {
            fail_msg("rank %d: byte %lld of %lld x %zu is %02x instead of %02x", job->rank, (long long)i - GUARD,
                     (long long)n, size, got[i], want[i]);
        }
    }
}

static ls_collective *prepare(const comm_case *c, void *data, int64_t n, size_t size)
{
    ls_collective *collective;

    CHECK_OK(c->comm->transport->prepare_gather(c->comm, (unsigned char *)data + GUARD, n, size, &collective));
    return collective;
}

static void run_gathers(const char *transport, int map, size_t piece_bytes, bool fast)
{
    /* Also such that all chunks are as large: 6 blocks for 2 and 3 ranks, 8 for 2, 4 and 8. */
    static const int64_t sizes[] = {1, 1001, LSI_BLOCK, 3 * LSI_BLOCK + 5, 6 * LSI_BLOCK,
                                    8 * LSI_BLOCK, N_MAX};
    static unsigned char want[BYTES_MAX], got[BYTES_MAX];
    void *data;
    comm_case c;

    open_case(&c, transport, 8, map, piece_bytes, fast, fast ? LS_BF16 : LS_F32);
    CHECK_OK(c.comm->transport->alloc(c.comm, BYTES_MAX, &data));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t size = 2; size <= 4; size += 2) {
            ls_collective *collective = prepare(&c, data, sizes[i], size);

            fill(&c, job->rank, (int)i, sizes[i], size, got);
            put(data, got, BYTES_MAX);
            fill(&c, -1, (int)i, sizes[i], size, want);
            for (int again = 0; again < 2; again++) {       /* the second time nothing changes */
                launch_and_wait(&c, collective);
                get(got, data, BYTES_MAX);
                check_same(got, want, sizes[i], size);
            }
        }
    }
    /* A gather needs no staging, but for the way through the host. */
    if (device->backend->host_memory || strcmp(c.comm->transport->name, "mpi") != 0) {
        assert_int_equal(c.account.live[LSI_MEMORY_COMM], planned_staging(&c, 0));
    }
    c.comm->transport->release(c.comm, BYTES_MAX, data);
    close_case(&c);
}

static void test_one_piece(void **state)
{
    (void)state;
    run_gathers("auto", 0, 0, false);
    run_gathers("auto", 1, 0, true);
}

static void test_many_pieces_and_nodes(void **state)
{
    (void)state;
    for (int map = 0; map < N_MAPS; map++) {
        const char *transport[MAX_OTHERS];
        int n_transports = others(transport);

        for (int t = 0; t < n_transports; t++) {
            run_gathers(transport[t], map, SMALL_PIECE / (size_t)(map + 1) / 4 * 4, map % 2 != 0);
        }
    }
}

/* A 16-bit and a 32-bit vector, queued behind each other; recorded once, replayed. */
static void test_captured(void **state)
{
    static unsigned char want[BYTES_MAX], got[BYTES_MAX];
    ls_collective *collective[2];
    ls_recording *recording;
    void *data[2];
    comm_case c;

    (void)state;
    open_case(&c, "auto", 8, 1, SMALL_PIECE, false, LS_F32);
    for (size_t k = 0; k < 2; k++) {
        CHECK_OK(c.comm->transport->alloc(c.comm, BYTES_MAX, &data[k]));
        collective[k] = prepare(&c, data[k], N_MAX - 3 * (int64_t)k, 2 + 2 * k);
    }
    CHECK_OK(device->backend->capture_begin(stream));
    for (size_t k = 0; k < 2; k++) {
        CHECK_OK(c.comm->transport->launch(collective[k], stream));
    }
    CHECK_OK(device->backend->capture_end(stream, &recording));
    for (int step = 0; step < 4; step++) {
        for (size_t k = 0; k < 2; k++) {
            fill(&c, job->rank, step, N_MAX - 3 * (int64_t)k, 2 + 2 * k, got);
            put(data[k], got, BYTES_MAX);
        }
        CHECK_OK(device->backend->replay(recording));
        CHECK_OK(device->backend->stream_sync(stream));
        for (size_t k = 0; k < 2; k++) {
            fill(&c, -1, step, N_MAX - 3 * (int64_t)k, 2 + 2 * k, want);
            get(got, data[k], BYTES_MAX);
            check_same(got, want, N_MAX - 3 * (int64_t)k, 2 + 2 * k);
        }
    }
    device->backend->recording_destroy(recording);
    for (size_t k = 0; k < 2; k++) {
        c.comm->transport->release(c.comm, BYTES_MAX, data[k]);
    }
    close_case(&c);
}

/* A reduction of chunks and a gather leave what a reduction that gathers leaves. */
static void test_reduction_then_gather(void **state)
{
    static float values[N_MAX], got[2][N_MAX];
    ls_partial partials[LSI_TREE_MAX_ROOTS];
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    ls_collective *whole, *chunks, *rest;
    void *out[2], *data;
    comm_case c;

    (void)state;
    for (int map = 0; map < N_MAPS; map++) {
        open_case(&c, "auto", 13, map, SMALL_PIECE, false, LS_F32);
        int n_roots = lsi_tree_roots(13, c.share[job->rank].lo, c.share[job->rank].hi, roots);
        for (int i = 0; i < n_roots; i++) {
            CHECK_OK(c.comm->transport->alloc(c.comm, N_MAX * sizeof(float), &data));
            partials[i] = (ls_partial){roots[i].lo, roots[i].hi, data};
            for (int64_t k = 0; k < N_MAX; k++) {
                lsi_random4 r = lsi_random_philox(3, (uint32_t)roots[i].lo, (uint32_t)k, 0, 0);

                values[k] = lsi_random_unit(r.v[0]) - 0.5f;
            }
            put(data, values, sizeof values);
        }
        for (int i = 0; i < 2; i++) {
            CHECK_OK(c.comm->transport->alloc(c.comm, N_MAX * sizeof(float), &out[i]));
            memset(values, 0xff, sizeof values);
            put(out[i], values, sizeof values);
        }
        CHECK_OK(c.comm->transport->prepare_reduce(c.comm, partials, n_roots, N_MAX, out[0], true, &whole));
        CHECK_OK(c.comm->transport->prepare_reduce(c.comm, partials, n_roots, N_MAX, out[1], false, &chunks));
        CHECK_OK(c.comm->transport->prepare_gather(c.comm, out[1], N_MAX, sizeof(float), &rest));
        CHECK_OK(c.comm->transport->launch(whole, stream));
        CHECK_OK(c.comm->transport->launch(chunks, stream));
        launch_and_wait(&c, rest);
        for (int i = 0; i < 2; i++) {
            get(got[i], out[i], sizeof got[i]);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
        for (int i = 0; i < n_roots + 2; i++) {
            c.comm->transport->release(c.comm, N_MAX * sizeof(float),
                                       i < n_roots ? partials[i].data : out[i - n_roots]);
        }
        close_case(&c);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_piece),
        cmocka_unit_test(test_many_pieces_and_nodes),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_reduction_then_gather),
    };

    return start_tests("test_gather", argc, argv) ? end_tests(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
