/* RUN: timeout=120 */
/* Picking GPUs against a second reading that walks everything: the best set by its own words, and a matching as large
 * as there is one. */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/pick.h"

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static lsi_inventory *random_inventory(int n, unsigned *seed)
{
    static const lsi_gpu_link links[] = {LSI_LINK_NVLINK, LSI_LINK_SWITCH, LSI_LINK_BRIDGE, LSI_LINK_SYSTEM};
    lsi_inventory *inventory = calloc(1, sizeof *inventory);

    inventory->gpus = calloc(LSI_GPU_MAX, sizeof *inventory->gpus);
    inventory->n = n;
    for (int a = 0; a < n; a++) {
        inventory->gpus[a].n_processes = next(seed) % 4 == 0;
        for (int b = 0; b < a; b++) {
            inventory->link[a][b] = inventory->link[b][a] = (unsigned char)links[next(seed) % 4];
        }
    }
    return inventory;
}

static void free_inventory(lsi_inventory *inventory)
{
    free(inventory->gpus);
    free(inventory);
}

/* A set as bits; smaller is better: busy ones, the weakest link, all links, places in the ranking. */
static long long weight(const lsi_inventory *inventory, const int *candidates, int m, unsigned set)
{
    long long busy = 0, worst = 0, sum = 0, ranks = 0;

    for (int a = 0; a < m; a++) {
        if ((set >> a & 1) == 0) {
            continue;
        }
        busy += inventory->gpus[candidates[a]].n_processes > 0;
        ranks += a;
        for (int b = 0; b < a; b++) {
            if ((set >> b & 1) != 0) {
                long long link = inventory->link[candidates[a]][candidates[b]];

                worst = link > worst ? link : worst;
                sum += link;
            }
        }
    }
    return ((busy * 100 + worst) * 10000 + sum) * 1000 + ranks;
}

static unsigned bits_of(const int *candidates, int m, const int *picked, int n)
{
    unsigned set = 0;

    for (int i = 0; i < n; i++) {
        for (int c = 0; c < m; c++) {
            set |= (unsigned)(candidates[c] == picked[i]) << c;
        }
    }
    return set;
}

static void the_best_set_is_found(void **state)
{
    unsigned seed = 3;

    (void)state;
    for (int round = 0; round < 400; round++) {
        int m = 2 + (int)(next(&seed) % 7), n = 1 + (int)(next(&seed) % (unsigned)m), candidates[8],
            picked[LSI_GPU_MAX];
        lsi_inventory *inventory = random_inventory(m, &seed);
        long long best = -1;

        for (int i = 0; i < m; i++) {
            candidates[i] = (i + round) % m;
        }
        bool linked = lsi_pick_connected(inventory, candidates, m, n, LSI_LINKS_REQUIRE, picked);
        for (unsigned set = 0; set < 1u << m; set++) {
            long long w = weight(inventory, candidates, m, set);

            if (__builtin_popcount(set) == n && (best < 0 || w < best)) {
                best = w;
            }
        }
        unsigned got = bits_of(candidates, m, picked, n);
        assert_int_equal(__builtin_popcount(got), n);
        if (n > 1) {
            assert_int_equal(weight(inventory, candidates, m, got), best);
        } else {
            assert_int_equal(picked[0], candidates[0]);
        }
        assert_int_equal(linked, n == 1 || best / 10000000 % 100 == LSI_LINK_NVLINK);
        free_inventory(inventory);
    }
}

/* Where walking all sets would take years, the answer is a set all the same, and an NVLink island is found. */
static void large_hosts_have_an_answer(void **state)
{
    enum { M = 48, N = 8 };
    unsigned seed = 5;
    int candidates[M], picked[LSI_GPU_MAX];
    lsi_inventory *inventory = random_inventory(M, &seed);

    (void)state;
    for (int a = 0; a < M; a++) {
        candidates[a] = a;
        inventory->gpus[a].n_processes = 0;
        for (int b = 0; b < M; b++) {
            bool island = a >= 20 && a < 28 && b >= 20 && b < 28;
            inventory->link[a][b] = (unsigned char)(island ? LSI_LINK_NVLINK : LSI_LINK_SYSTEM);
        }
    }
    assert_true(lsi_pick_connected(inventory, candidates, M, N, LSI_LINKS_REQUIRE, picked));
    for (int i = 0; i < N; i++) {
        assert_in_range(picked[i], 20, 27);
        for (int k = 0; k < i; k++) {
            assert_int_not_equal(picked[i], picked[k]);
        }
    }
    free_inventory(inventory);
}

/* Largest number of processes that can have one each, by trying everything. */
static int most_matched(const int *candidates, int m, const uint64_t *sees, int n, int process, unsigned used)
{
    int best = 0;

    if (process == n) {
        return 0;
    }
    best = most_matched(candidates, m, sees, n, process + 1, used);
    for (int c = 0; c < m; c++) {
        if ((used >> c & 1) == 0 && (sees[process] >> candidates[c] & 1) != 0) {
            int more = 1 + most_matched(candidates, m, sees, n, process + 1, used | 1u << c);

            best = more > best ? more : best;
        }
    }
    return best;
}

static void matchings_are_as_large_as_there_are(void **state)
{
    unsigned seed = 11;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        int m = 1 + (int)(next(&seed) % 5), n = 1 + (int)(next(&seed) % 5), candidates[5], out[LSI_GPU_MAX], given = 0;
        uint64_t sees[5];

        for (int c = 0; c < m; c++) {
            candidates[c] = 7 * c;
        }
        for (int i = 0; i < n; i++) {
            sees[i] = 0;
            for (int c = 0; c < m; c++) {
                sees[i] |= (uint64_t)(next(&seed) % 3 == 0) << candidates[c];
            }
        }
        int matched = lsi_pick_matching(candidates, m, sees, n, out);
        assert_int_equal(matched, most_matched(candidates, m, sees, n, 0, 0));
        for (int i = 0; i < n; i++) {
            given += out[i] != LSI_GPU_UNKNOWN;
            assert_true(out[i] == LSI_GPU_UNKNOWN || (sees[i] >> out[i] & 1) != 0);
            for (int k = 0; k < i; k++) {
                assert_true(out[i] == LSI_GPU_UNKNOWN || out[i] != out[k]);
            }
        }
        assert_int_equal(given, matched);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_set_is_found),
        cmocka_unit_test(large_hosts_have_an_answer),
        cmocka_unit_test(matchings_are_as_large_as_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
