/* RUN: */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "data/sampler.h"

/* Fails unless samples first .. first + n - 1 of the run are all of [0, n). */
static void check_permutation(const lsi_sampler *sampler, int64_t first)
{
    unsigned char *seen = calloc(1, (size_t)sampler->n);

    assert_non_null(seen);
    for (int64_t i = 0; i < sampler->n; i++) {
        int64_t index = lsi_sampler_index(sampler, first + i);

        assert_in_range(index, 0, sampler->n - 1);
        assert_int_equal(seen[index], 0);
        seen[index] = 1;
    }
    free(seen);
}

static void every_epoch_is_a_permutation(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 2000; n++) {
        lsi_sampler sampler = {n, (uint64_t)n * 7, true};

        check_permutation(&sampler, 0);
        check_permutation(&sampler, 5 * n);
    }
    lsi_sampler large = {(1 << 20) + 1, UINT64_MAX, true};

    check_permutation(&large, 3 * large.n);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void huge_sets_do_not_repeat(void **state)
{
    enum { DRAWS = 200000 };
    static const int64_t n[] = {(INT64_C(1) << 40) - 1, INT64_C(1) << 40, (INT64_C(1) << 38) + 1};
    int64_t *drawn = malloc(DRAWS * sizeof *drawn);
    (void)state;

    assert_non_null(drawn);
    for (int k = 0; k < 3; k++) {
        lsi_sampler sampler = {n[k], 3, true};
        int upper_half = 0;

        for (int i = 0; i < DRAWS; i++) {
            drawn[i] = lsi_sampler_index(&sampler, n[k] * 2 + (n[k] - DRAWS) + i);
            assert_in_range(drawn[i], 0, n[k] - 1);
            upper_half += drawn[i] >= n[k] / 2;
        }
        qsort(drawn, DRAWS, sizeof *drawn, compare);
        for (int i = 1; i < DRAWS; i++) {
            assert_true(drawn[i - 1] != drawn[i]);
        }
        assert_in_range(upper_half, DRAWS / 2 - 1500, DRAWS / 2 + 1500);
    }
    free(drawn);
}

static int64_t agreements(const lsi_sampler *a, int64_t first_a, const lsi_sampler *b, int64_t first_b)
{
    int64_t n = 0;

    for (int64_t i = 0; i < a->n; i++) {
        n += lsi_sampler_index(a, first_a + i) == lsi_sampler_index(b, first_b + i);
    }
    return n;
}

/* Two unrelated permutations agree in 1 place on average. */
static void epochs_and_seeds_are_unrelated(void **state)
{
    int64_t n = 10000, total = 0;
    (void)state;

    for (uint64_t seed = 0; seed < 20; seed++) {
        lsi_sampler a = {n, seed, true}, b = {n, seed + 1, true}, same = a;

        assert_int_equal(agreements(&a, 0, &same, 0), n);
        total += agreements(&a, 0, &a, n);              /* next epoch */
        total += agreements(&a, 0, &b, 0);              /* next seed */
        total += agreements(&a, n, &b, 0);              /* seed and epoch must not just be added */
    }
    assert_in_range(total, 20, 120);                    /* 60 expected, standard deviation below 8 */
}

/* Chi square over all orders of n samples: each must come equally often. */
static void check_orders(int64_t n, int n_orders, bool by_epoch)
{
    enum { TRIES = 30000, MAX_ORDERS = 120 };
    int count[MAX_ORDERS] = {0};

    for (int t = 0; t < TRIES; t++) {
        lsi_sampler sampler = {n, by_epoch ? 1 : (uint64_t)t, true};
        int64_t order[8], first = by_epoch ? t * n : 0;
        int rank = 0;

        for (int64_t i = 0; i < n; i++) {
            order[i] = lsi_sampler_index(&sampler, first + i);
        }
        for (int64_t i = 0; i < n; i++) {
            int smaller = 0;

            for (int64_t j = i + 1; j < n; j++) {
                smaller += order[j] < order[i];
            }
            rank = rank * (int)(n - i) + smaller;
        }
        count[rank]++;
    }
    double expected = (double)TRIES / n_orders, chi2 = 0, degrees = n_orders - 1;

    for (int i = 0; i < n_orders; i++) {
        chi2 += (count[i] - expected) * (count[i] - expected) / expected;
    }
    /* mean: degrees, variance: 2 degrees; 5 standard deviations */
    if ((chi2 - degrees) * (chi2 - degrees) > 50 * degrees) {
        fail_msg("%d orders of %d samples by %s: chi square %.1f, expected about %.0f", n_orders, (int)n,
                 by_epoch ? "epoch" : "seed", chi2, degrees);
    }
}

static void all_orders_are_equally_likely(void **state)
{
    (void)state;
    for (int by_epoch = 0; by_epoch < 2; by_epoch++) {
        check_orders(2, 2, by_epoch);
        check_orders(3, 6, by_epoch);
        check_orders(4, 24, by_epoch);
        check_orders(5, 120, by_epoch);
    }
}

/* Chi square of (position, sample) over seeds. */
static void positions_are_uniform(void **state)
{
    enum { N = 50, TRIES = 20000 };
    static int count[N][N];
    double expected = (double)TRIES / N, chi2 = 0, degrees = (N - 1) * (N - 1);
    (void)state;

    memset(count, 0, sizeof count);
    for (int t = 0; t < TRIES; t++) {
        lsi_sampler sampler = {N, (uint64_t)t, true};

        for (int i = 0; i < N; i++) {
            count[i][lsi_sampler_index(&sampler, i)]++;
        }
    }
    for (int i = 0; i < N * N; i++) {
        double d = count[i / N][i % N] - expected;

        chi2 += d * d / expected;
    }
    chi2 *= (double)(N - 1) / N;        /* rows and columns are both fixed */
    assert_true((chi2 - degrees) * (chi2 - degrees) < 50 * degrees);
}

static void without_shuffle_it_is_file_order(void **state)
{
    lsi_sampler sampler = {7, 3, false};
    (void)state;

    for (int64_t i = 0; i < 30; i++) {
        assert_int_equal(lsi_sampler_index(&sampler, i), i % 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(huge_sets_do_not_repeat),
        cmocka_unit_test(epochs_and_seeds_are_unrelated),
        cmocka_unit_test(all_orders_are_equally_likely),
        cmocka_unit_test(positions_are_uniform),
        cmocka_unit_test(without_shuffle_it_is_file_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
