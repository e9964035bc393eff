/* RUN: timeout=60 */
/* Sums over random parts of the tree against the literal recursion, bit for bit. */
#include "support/test.h"

#include <string.h>

#include "base/random.h"
#include "comm/evaluate.h"
#include "comm/streaming.h"

enum { MAX_LANES = 64, MAX_N = 3000 };

static float lane_data[MAX_LANES][MAX_N], operand_data[MAX_LANES][MAX_N];

/* Magnitudes 2^-24 .. 2^24, both signs, and signed zeros. */
static float value(uint32_t lane, uint32_t i)
{
    lsi_random4 r = lsi_random_philox(7, lane, i, 0, 0);
    uint32_t bits = (r.v[0] & 0x807fffffu) | (103 + r.v[1] % 49) << 23;
    float f;

    if (i % 5 == 0) {
        bits = i % 10 == 0 ? 0x80000000u : r.v[0] & 0x80000000u;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float literal(int lo, int hi, int i)
{
    int half = 1;

    if (hi - lo == 1) {
        return lane_data[lo][i];
    }
    while (half * 2 < hi - lo) {
        half *= 2;
    }
    return literal(lo, lo + half, i) + literal(lo + half, hi, i);
}

/* A random set of nodes that covers [lo, hi). */
static int cut(int lo, int hi, uint32_t *seed, lsi_span *out, int n)
{
    *seed = *seed * 1664525u + 1013904223u;
    if (hi - lo == 1 || *seed >> 30 == 0) {
        out[n] = (lsi_span){lo, hi};
        return n + 1;
    }
    int mid = lsi_tree_mid(lo, hi);
    n = cut(lo, mid, seed, out, n);
    return cut(mid, hi, seed, out, n);
}

static void run_case(int lanes, int n, int in_place, uint32_t *seed)
{
    static float result[MAX_N];
    lsi_span spans[MAX_LANES];
    const float *operands[MAX_LANES];
    uint8_t steps[2 * MAX_LANES];
    int n_operands = cut(0, lanes, seed, spans, 0);
    float *out = in_place >= 0 ? operand_data[in_place % n_operands] : result;

    for (int k = 0; k < n_operands; k++) {
        operands[k] = operand_data[k];
        for (int i = 0; i < n; i++) {
            operand_data[k][i] = literal(spans[k].lo, spans[k].hi, i);
        }
    }
    assert_int_equal(lsi_evaluate_plan((lsi_span){0, lanes}, spans, steps), n_operands);
    lsi_evaluate(steps, 2 * n_operands - 1, operands, (size_t)n, out);
    for (int i = 0; i < n; i++) {
        float want = literal(0, lanes, i);

        assert_memory_equal(&out[i], &want, sizeof want);
    }
}

static void test_same_bits_as_the_recursion(void **state)
{
    static const int sizes[] = {0, 1, 15, 1024, 1025, 2500};
    uint32_t seed = 1;

    (void)state;
    for (uint32_t lane = 0; lane < MAX_LANES; lane++) {
        for (uint32_t i = 0; i < MAX_N; i++) {
            lane_data[lane][i] = value(lane, i);
        }
    }
    for (int lanes = 1; lanes <= MAX_LANES; lanes += lanes < 18 ? 1 : 5) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int in_place = -1; in_place < 3; in_place++) {
                run_case(lanes, sizes[s], in_place, &seed);
            }
        }
    }
}

/* Part of the vector into several places at once, in place, beside it, and past the caches: all the same bits, and
 * nothing outside the part. */
static void test_ranges_into_several(void **state)
{
    enum { LANES = 12, N_OUTS = 3 };
    static float beside[N_OUTS][MAX_N + 16];
    static float before[MAX_N];
    lsi_span spans[MAX_LANES];
    const float *operands[MAX_LANES];
    uint8_t steps[2 * MAX_LANES];
    uint32_t seed = 3;

    (void)state;
    for (int round = 0; round < 200; round++) {
        int n_operands = cut(0, LANES, &seed, spans, 0), first = (int)(seed >> 8) % MAX_N;
        int n = (int)(seed >> 20) % (MAX_N - first), offset = round % 16;
        lsi_evaluate_out outs[N_OUTS] = {{operand_data[n_operands / 2], false}, {beside[1] + offset, false},
                                         {beside[2] + offset, true}};

        for (int k = 0; k < n_operands; k++) {
            operands[k] = operand_data[k];
            for (int i = 0; i < MAX_N; i++) {
                operand_data[k][i] = literal(spans[k].lo, spans[k].hi, i);
            }
        }
        for (int i = 0; i < MAX_N; i++) {
            outs[1].data[i] = outs[2].data[i] = before[i] = outs[0].data[i];
        }
        lsi_evaluate_plan((lsi_span){0, LANES}, spans, steps);
        lsi_evaluate_range(steps, 2 * n_operands - 1, operands, (size_t)first, (size_t)n, outs, N_OUTS);
        for (int o = 0; o < N_OUTS; o++) {
            for (int i = 0; i < MAX_N; i++) {
                float want = i >= first && i < first + n ? literal(0, LANES, i) : before[i];

                assert_memory_equal(&outs[o].data[i], &want, sizeof want);
            }
        }
    }
}

static void test_streaming_copy(void **state)
{
    enum { ROOM = 512, MOST = 300 };
    static unsigned char from[ROOM], to[ROOM], want[ROOM];

    (void)state;
    for (int i = 0; i < ROOM; i++) {
        from[i] = (unsigned char)(i * 7 + 1);
    }
    for (size_t at = 0; at < 70; at++) {
        for (size_t source = 0; source < 70; source += 23) {
            for (size_t n = 0; n < MOST; n += n < 140 ? 1 : 31) {
                memset(to, 0, ROOM);
                memset(want, 0, ROOM);
                memcpy(want + at, from + source, n);
                lsi_streaming_copy(to + at, from + source, n);
                assert_memory_equal(to, want, ROOM);
            }
        }
    }
}

/* The first test can fail: adding from left to right gives other bits. */
static void test_order_matters(void **state)
{
    int differ = 0;

    (void)state;
    for (int i = 0; i < MAX_N; i++) {
        float sum = lane_data[0][i], want = literal(0, 12, i);

        for (int lane = 1; lane < 12; lane++) {
            sum += lane_data[lane][i];
        }
        differ += memcmp(&sum, &want, sizeof sum) != 0;
    }
    assert_true(differ > MAX_N / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_as_the_recursion),
        cmocka_unit_test(test_order_matters),
        cmocka_unit_test(test_ranges_into_several),
        cmocka_unit_test(test_streaming_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
