/* RUN: */
#include "support/test.h"

#include "base/hash.h"

/* The values of the XXH3 specification for the empty input, most significant byte first. */
static void the_empty_input_has_the_published_hashes(void **state)
{
    (void)state;
    unsigned char hash[16];
    char hex[33];

    assert_true(lsi_hash64("", 0) == 0x2d06800538d394c2u);
    lsi_hash128("", 0, hash);
    lsi_hash128_hex(hash, hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void one_bit_changes_the_hash(void **state)
{
    (void)state;
    unsigned char data[300] = {0}, first[16], other[16];
    uint64_t first64 = lsi_hash64(data, sizeof data);

    lsi_hash128(data, sizeof data, first);
    for (size_t i = 0; i < sizeof data * 8; i++) {
        data[i / 8] ^= (unsigned char)(1 << i % 8);
        lsi_hash128(data, sizeof data, other);
        assert_memory_not_equal(first, other, 16);
        assert_true(lsi_hash64(data, sizeof data) != first64);
        data[i / 8] = 0;
    }
}

static void a_text_is_its_bytes_without_the_end(void **state)
{
    (void)state;
    assert_true(lsi_hash_text("h.0.attn.c_attn.weight") == lsi_hash64("h.0.attn.c_attn.weight", 22));
    assert_true(lsi_hash_text("a") != lsi_hash_text("b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_empty_input_has_the_published_hashes),
        cmocka_unit_test(one_bit_changes_the_hash),
        cmocka_unit_test(a_text_is_its_bytes_without_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
