/* RUN: timeout=60 */
/* What kernels can do under the simulator, against plain C. The order of threads and blocks is varied from case to
 * case. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cusim_exec.h"
#include "number.h"
#include "test_exec.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

static void *device(size_t bytes)
{
    void *p;
    OK(cudaMalloc(&p, bytes));
    OK(cudaMemset(p, 0, bytes));
    return p;
}

static void fetch(void *host, const void *memory, size_t bytes)
{
    OK(cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost));
}

static void warp_operations(void **state)
{
    (void)state;
    float *out = device(16 * 32 * sizeof(float)), got[16][32];
    OK(test_warp(out, NULL));
    fetch(got, out, sizeof got);
    for (int t = 0; t < 32; t++) {
        float expected[16] = {5,
                              (float)(t / 8 * 8 + 3),
                              (float)(t < 2 ? t : t - 2),
                              (float)(t % 16 < 12 ? t + 4 : t),
                              (float)(31 - t),
                              11,
                              1,
                              0,
                              496,
                              11,
                              -20,
                              4,
                              (float)(t < 8 ? t ^ 1 : -1),
                              7,
                              1,
                              0};
        for (int k = 0; k < 16; k++)
            if (got[k][t] != expected[k])
                fail_msg("operation %d, lane %d: %g, expected %g", k, t, (double)got[k][t], (double)expected[k]);
    }
    OK(cudaFree(out));
}

static void atomics(void **state)
{
    (void)state;
    int *ints = device(4 * sizeof *ints), i[4];
    unsigned *words = device(4 * sizeof *words), w[4];
    float *floats = device(sizeof *floats), f;
    unsigned long long *longs = device(sizeof *longs), l;
    OK(test_atomic(ints, words, floats, longs, NULL));
    fetch(i, ints, sizeof i);
    fetch(w, words, sizeof w);
    fetch(&f, floats, sizeof f);
    fetch(&l, longs, sizeof l);
    assert_int_equal(i[0], 256);
    assert_int_equal(i[1], 255);
    assert_int_equal(i[2], -255);
    assert_int_equal(i[3], -512);
    assert_int_equal(w[0], 0xffffffffu);
    assert_int_equal(w[1], 0); /* every bit eight times */
    assert_int_equal(w[2], 256 % 10);
    assert_int_equal(w[3], 77);
    assert_true(f == 128.0f);
    assert_true(l == 256ull << 33);
    OK(cudaFree(ints));
    OK(cudaFree(words));
    OK(cudaFree(floats));
    OK(cudaFree(longs));
}

static void types(void **state)
{
    (void)state;
    float *out = device(64 * 8 * sizeof(float)), got[64][8];
    OK(test_types(out, NULL));
    fetch(got, out, sizeof got);
    for (int t = 0; t < 64; t++) {
        float x = 1.0f + (float)t / 64;
        assert_true(got[t][0] == x); /* ten bits suffice */
        assert_true(fabsf(got[t][1] - x) <= x / 256);
        assert_true(got[t][2] == -x);
        assert_true(got[t][3] == 4 * x);
        assert_true(fabsf(got[t][4] - (0.5f + 1 + x)) < 1e-6f);
        assert_true(got[t][5] == x);
        assert_true(got[t][6] == 3);
        assert_true(got[t][7] == 8);
    }
    OK(cudaFree(out));
}

static void tensor_cores(void **state)
{
    (void)state;
    enum { K = 48 };
    uint16_t a[16][K], b[8][K];
    void *da = device(sizeof a), *db = device(sizeof b);
    float *dd = device(16 * 8 * sizeof(float)), d[16][8];
    for (int which = 0; which < 3; which++) {
        uint16_t (*to)(float) = which == 0 ? cusim_to_bf16 : cusim_to_f16;
        float (*from)(uint16_t) = which == 0 ? cusim_from_bf16 : cusim_from_f16;
        for (int k = 0; k < K; k++) {
            for (int i = 0; i < 16; i++)
                a[i][k] = to((float)((i * 7 + k * 13) % 29 - 14) / 8);
            for (int j = 0; j < 8; j++)
                b[j][k] = to((float)((j * 11 + k * 5) % 23 - 11) / 4);
        }
        OK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
        OK(test_tile(which, dd, da, db, K, NULL));
        fetch(d, dd, sizeof d);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                float sum = 0; /* exact: small multiples of 1/32 */
                for (int k = 0; k < K; k++)
                    sum += from(a[i][k]) * from(b[j][k]);
                assert_true(d[i][j] == sum);
            }
    }
    OK(cudaFree(da));
    OK(cudaFree(db));
    OK(cudaFree(dd));
}

static void transposed_load(void **state)
{
    (void)state;
    float *out = device(32 * 4 * sizeof(float)), got[32][4];
    OK(test_transpose(out, NULL));
    fetch(got, out, sizeof got);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane % 4 * 2 + i % 2, column = lane / 4 + i / 2 * 8;
            assert_true(got[lane][i] == (float)(row * 16 + column));
        }
    OK(cudaFree(out));
}

static void every_thread_once(void **state)
{
    (void)state;
    static const int shapes[][6] = {{1, 1, 1, 1, 1, 1}, {3, 2, 2, 8, 4, 2}, {7, 1, 1, 1024, 1, 1}, {2, 5, 1, 33, 3, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int order = CUSIM_FORWARD; order <= CUSIM_SHUFFLED; order++) {
            const int *s = shapes[i];
            int n = s[0] * s[1] * s[2] * s[3] * s[4] * s[5];
            float *out = device((size_t)n * sizeof(float)), *got = malloc((size_t)n * sizeof(float));
            cusim_set_order(order, i);
            OK(test_index(out, s[0], s[1], s[2], s[3], s[4], s[5], NULL));
            fetch(got, out, (size_t)n * sizeof(float));
            for (int k = 0; k < n; k++)
                assert_true(got[k] == 1);
            OK(cudaFree(out));
            free(got);
        }
}

static void refused_launches(void **state)
{
    (void)state;
    float *out = device(64);
    assert_int_equal(test_index(out, 0, 1, 1, 1, 1, 1, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(test_index(out, 1, 1, 1, 1025, 1, 1, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(test_index(out, 1, 65536, 1, 1, 1, 1, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(test_index(out, 1, 1, 1, 1, 1, 65, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    OK(cudaFree(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warp_operations),  cmocka_unit_test(atomics),         cmocka_unit_test(types),
        cmocka_unit_test(tensor_cores),     cmocka_unit_test(transposed_load), cmocka_unit_test(every_thread_once),
        cmocka_unit_test(refused_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
