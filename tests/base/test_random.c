/* RUN: */
#include "support/test.h"

#include "base/random.h"

/* From kat_vectors of the authors' Random123: counter, key, result. */
static void philox_gives_the_published_numbers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], result[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const uint32_t *c = vectors[i].counter, *k = vectors[i].key;
        lsi_random4 r = lsi_random_philox((uint64_t)k[1] << 32 | k[0], c[0], c[1], c[2], c[3]);
        assert_memory_equal(r.v, vectors[i].result, sizeof r.v);
    }
}

static void units_are_in_range_and_uniform(void **state)
{
    (void)state;
    enum { N = 200000 };
    double sum = 0, squares = 0;

    assert_true(lsi_random_unit(0) == 0.0f);
    assert_true(lsi_random_unit(UINT32_MAX) == 1.0f - 0x1p-24f);
    for (uint32_t i = 0; i < N / 4; i++) {
        lsi_random4 r = lsi_random_philox(lsi_random_key(1, 2), i, 0, 0, 0);
        for (int j = 0; j < 4; j++) {
            double u = (double)lsi_random_unit(r.v[j]);
            sum += u;
            squares += u * u;
        }
    }
    /* Six standard errors. */
    assert_true(sum / N > 0.5 - 0.0039 && sum / N < 0.5 + 0.0039);
    assert_true(squares / N > 1.0 / 3 - 0.004 && squares / N < 1.0 / 3 + 0.004);
}

static void keys_of_neighbours_are_unrelated(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 64; seed++) {
        for (uint64_t name = 0; name < 64; name++) {
            uint64_t key = lsi_random_key(seed, name);
            int by_seed = __builtin_popcountll(key ^ lsi_random_key(seed + 1, name));
            int by_name = __builtin_popcountll(key ^ lsi_random_key(seed, name + 1));
            assert_true(by_seed > 5 && by_seed < 59 && by_name > 5 && by_name < 59);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(units_are_in_range_and_uniform),
        cmocka_unit_test(keys_of_neighbours_are_unrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
