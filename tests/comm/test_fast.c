/* RUN: np=1,2,3,4,8 timeout=120 label=contract cuda */
/* The fast reduction: within rounding of the exact sum, the same on all ranks, and what is not finite stays so. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/random.h"
#include "comm_case.h"

enum { N_MAX = 9 * LSI_BLOCK + 123, LANES = 12, N_SALTS = 4 };

static const ls_dtype wires[] = {LS_F32, LS_BF16, LS_F16};

enum { N_WIRES = 3 };

/* One opened comm with this rank's partial sum. */
typedef struct fast_case {
    comm_case c;
    float *partial, *out;
} fast_case;

static float host[N_MAX];       /* of what is put there or has come out */

static void begin(fast_case *f, const char *transport, int map, size_t piece_bytes, ls_dtype wire)
{
    open_case(&f->c, transport, LANES, map, piece_bytes, true, wire);
    CHECK_OK(f->c.comm->transport->alloc(f->c.comm, N_MAX * sizeof(float), (void **)&f->partial));
    CHECK_OK(f->c.comm->transport->alloc(f->c.comm, N_MAX * sizeof(float), (void **)&f->out));
}

static void end(fast_case *f)
{
    f->c.comm->transport->release(f->c.comm, N_MAX * sizeof(float), f->partial);
    f->c.comm->transport->release(f->c.comm, N_MAX * sizeof(float), f->out);
    close_case(&f->c);
}

static ls_collective *prepare(fast_case *f, int64_t at, int64_t n, float *out, bool gather)
{
    lsi_span share = f->c.share[job->rank];
    ls_collective *collective;

    CHECK_OK(f->c.comm->transport->prepare_reduce(f->c.comm, &(ls_partial){share.lo, share.hi, f->partial + at}, 1, n,
                                                  out + at, gather, &collective));
    return collective;
}

/* Both signs, magnitudes 2^-6 .. 2^2. */
static float value(int rank, int64_t i, int salt)
{
    lsi_random4 r = lsi_random_philox(23, (uint32_t)rank, (uint32_t)i, (uint32_t)salt, 0);

    return ldexpf(1 + lsi_random_unit(r.v[0]), (int)(r.v[1] % 8) - 6) * (r.v[2] % 2 == 0 ? 1.0f : -1.0f);
}

static void fill(fast_case *f, int64_t n, int salt)
{
    CHECK_OK(device->backend->fill(stream, f->out, 0xff, (size_t)n * sizeof(float)));    /* NaN */
    for (int64_t i = 0; i < n; i++) {
        host[i] = value(job->rank, i, salt);
    }
    put(f->partial, host, (size_t)n * sizeof(float));
}

static double exact[N_SALTS][N_MAX];

static void make_exact(void)
{
    for (int salt = 0; salt < N_SALTS; salt++) {
        for (int64_t i = 0; i < N_MAX; i++) {
            for (int r = 0; r < job->world; r++) {
                exact[salt][i] += value(r, i, salt);
            }
        }
    }
}

static double bound(ls_dtype wire)
{
    return wire == LS_F32 ? 4e-7 : wire == LS_BF16 ? 8e-3 : 1e-3;
}

/* Relative L2 distance from the exact sum over what the reduction owes this rank. */
static void check_close(fast_case *f, const float *out, int64_t n, bool gather, int salt, ls_dtype wire)
{
    int64_t start = 0, count = n;
    double error = 0, norm = 0;

    get(host, out, (size_t)n * sizeof(float));
    if (!gather) {
        f->c.comm->transport->chunk(f->c.comm, n, job->rank, &start, &count);
    }
    for (int64_t i = start; i < start + count; i++) {
        double want = exact[salt][i], distance = (double)host[i] - want;

        /* Not only on the whole: an element that is missing or counted twice is off by more than 2^-7. */
        if (!(fabs(distance) <= bound(wire) * 8 * job->world)) {
            fail_msg("rank %d, %s, element %lld of %lld: %.9g instead of %.9g", job->rank, ls_dtype_name(wire),
                     (long long)i, (long long)n, (double)host[i], want);
        }
        error += distance * distance;
        norm += want * want;
    }
    if (count >= 1000 && !(sqrt(error) <= bound(wire) * sqrt(norm))) {
        fail_msg("rank %d, %s, %lld elements: relative distance %.3g", job->rank, ls_dtype_name(wire), (long long)n,
                 sqrt(error / norm));
    }
}

static void check_equal_on_all_ranks(const float *out, int64_t n)
{
    size_t bytes = (size_t)n * sizeof(float);
    char *all = malloc(bytes * (size_t)job->world);

    assert_non_null(all);
    get(host, out, bytes);
    CHECK_OK(lsi_job_all_gather(job, host, bytes, all));
    for (int r = 0; r < job->world; r++) {
        assert_memory_equal(all + (size_t)r * bytes, host, bytes);
    }
    free(all);
}

static void run_sums(const char *transport, int map, size_t piece_bytes, ls_dtype wire)
{
    /* Also such that all chunks are as large: 6 blocks for 2 and 3 ranks, 8 for 2, 4 and 8. */
    static const int64_t sizes[] = {1, 1000, LSI_BLOCK, 3 * LSI_BLOCK + 5, 6 * LSI_BLOCK,
                                    8 * LSI_BLOCK, N_MAX};
    fast_case f;

    begin(&f, transport, map, piece_bytes, wire);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 4; kind++) {
            bool in_place = kind % 2 != 0, gather = kind >= 2;
            float *out = in_place ? f.partial : f.out;
            ls_collective *collective = prepare(&f, 0, sizes[i], out, gather);

            fill(&f, sizes[i], kind);
            launch_and_wait(&f.c, collective);
            check_close(&f, out, sizes[i], gather, kind, wire);
            if (gather) {
                check_equal_on_all_ranks(out, sizes[i]);
            }
        }
    }
    assert_int_equal(f.c.account.live[LSI_MEMORY_COMM], planned_staging(&f.c, N_MAX));
    end(&f);
}

static void test_one_piece(void **state)
{
    (void)state;
    for (int w = 0; w < N_WIRES; w++) {
        run_sums("auto", 0, 0, wires[w]);
    }
}

static void test_many_pieces_and_nodes(void **state)
{
    (void)state;
    const char *transport[MAX_OTHERS];
    int n_transports = others(transport);

    for (int t = 0; t < n_transports; t++) {
        for (int map = 0; map < N_MAPS; map++) {
            for (int w = 0; w < N_WIRES; w++) {
                run_sums(transport[t], map, SMALL_PIECE / (size_t)(w + 1) / 4 * 4, wires[w]);
            }
        }
    }
}

/* Three buckets with odd tails queued behind each other, in place, recorded once and replayed. */
static void test_captured(void **state)
{
    static const int64_t cut[] = {0, 4 * LSI_BLOCK, 8 * LSI_BLOCK, N_MAX};
    ls_recording *recording;
    fast_case f;

    (void)state;
    for (int w = 0; w < N_WIRES; w++) {
        begin(&f, "auto", 1, SMALL_PIECE, wires[w]);
        ls_collective *bucket[3];

        for (int b = 0; b < 3; b++) {
            bucket[b] = prepare(&f, cut[b], cut[b + 1] - cut[b], f.partial, true);
        }
        CHECK_OK(device->backend->capture_begin(stream));
        for (int b = 0; b < 3; b++) {
            CHECK_OK(f.c.comm->transport->launch(bucket[b], stream));
        }
        CHECK_OK(device->backend->capture_end(stream, &recording));
        for (int step = 0; step < 3; step++) {
            fill(&f, N_MAX, step);
            CHECK_OK(device->backend->replay(recording));
            CHECK_OK(device->backend->stream_sync(stream));
            check_close(&f, f.partial, N_MAX, true, step, wires[w]);
        }
        device->backend->recording_destroy(recording);
        end(&f);
    }
}

/* One rank's infinity or NaN, infinities that cancel, and a total beyond the type's range: the sum is not finite there,
 * and finite everywhere else. */
static void test_not_finite(void **state)
{
    static const float planted[][2] = {{INFINITY, 1}, {-INFINITY, 1}, {NAN, 1}, {INFINITY, -INFINITY}, {3e38f, 3e38f}};
    enum { N = 3 * LSI_BLOCK + 5, N_PLANTED = 5, EVERY = 997 };
    fast_case f;

    (void)state;
    for (int w = 0; w < N_WIRES; w++) {
        begin(&f, "auto", 0, 0, wires[w]);
        ls_collective *collective = prepare(&f, 0, N, f.out, true);
        int first = job->world - 1, second = 0;       /* the ranks that hold them */

        fill(&f, N, 0);
        for (int64_t i = 0; i < N; i += EVERY) {
            const float *pair = planted[i / EVERY % N_PLANTED];

            host[i] = job->rank == first ? pair[0] : job->rank == second ? pair[1] : 0;
        }
        put(f.partial, host, N * sizeof(float));
        launch_and_wait(&f.c, collective);
        get(host, f.out, N * sizeof(float));
        for (int64_t i = 0; i < N; i++) {
            bool is_planted = i % EVERY == 0, is_single = first == second && i / EVERY % N_PLANTED == 4;

            assert_int_equal(isfinite(host[i]) != 0, !is_planted || is_single);
        }
        end(&f);
    }
}

/* As many ranks with 30,000 each have a sum that f16 cannot hold; its share per rank can be sent all the same. */
static void test_no_false_overflow(void **state)
{
    enum { N = LSI_BLOCK + 3 };
    fast_case f;

    (void)state;
    for (int w = 0; w < N_WIRES; w++) {
        begin(&f, "auto", 0, 0, wires[w]);
        ls_collective *collective = prepare(&f, 0, N, f.out, true);
        double want = 30000.0 * job->world;

        for (int64_t i = 0; i < N; i++) {
            host[i] = i % 2 == 0 ? 30000 : -30000;
        }
        put(f.partial, host, N * sizeof(float));
        launch_and_wait(&f.c, collective);
        get(host, f.out, N * sizeof(float));
        for (int64_t i = 0; i < N; i++) {
            assert_true(fabs(fabs((double)host[i]) - want) <= bound(wires[w]) * want);
            assert_true((host[i] > 0) == (i % 2 == 0));
        }
        end(&f);
    }
    assert_true(isinf(lsi_half_f16_to_f32(lsi_half_f16_from_f32(4 * 30000.0f))));
}

/* With one process nothing is rounded, whatever the wire and the transport. */
static void test_one_process(void **state)
{
    (void)state;
    static float got[N_MAX];
    const char *transport[1 + MAX_OTHERS] = {"self"};
    int n_transports = job->world == 1 ? 1 + others(transport + 1) : 0;

    for (int t = 0; t < n_transports; t++) {
        fast_case f;

        begin(&f, transport[t], 0, 0, LS_BF16);
        ls_collective *collective = prepare(&f, 0, N_MAX, f.out, true);
        fill(&f, N_MAX, 0);
        launch_and_wait(&f.c, collective);
        get(got, f.out, sizeof got);
        assert_memory_equal(got, host, sizeof got);
        end(&f);
    }
}

static void test_one_partial_each(void **state)
{
    ls_partial partials[2] = {{0, 1, NULL}, {1, 2, NULL}};
    ls_collective *collective;
    fast_case f;

    (void)state;
    const char *transport[MAX_OTHERS];
    int n_transports = job->world > 1 ? others(transport) : 0;

    for (int t = 0; t < n_transports; t++) {
        begin(&f, transport[t], 0, 0, LS_F32);
        CHECK_FAILS(f.c.comm->transport->prepare_reduce(f.c.comm, partials, 2, 1, f.out, true, &collective),
                    LS_ERR_INTERNAL, "2 partial sums; a fast reduction takes one");
        end(&f);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_piece),
        cmocka_unit_test(test_many_pieces_and_nodes),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_no_false_overflow),
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_one_partial_each),
    };

    if (!start_tests("test_fast", argc, argv)) {
        return 1;
    }
    make_exact();
    return end_tests(cmocka_run_group_tests(tests, NULL, NULL));
}
