/* RUN: */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/memory.h"

/* Only stands in messages. */
static const char path[] = "/some/file.gz";

/* Text that shrinks, but not to nothing. */
static unsigned char *make_data(size_t size)
{
    unsigned char *data = malloc(size + 1);
    uint32_t x = 1;

    for (size_t i = 0; i < size; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (unsigned char)"the quick fox "[(x >> 24) % 14];
    }
    return data;
}

/* One gzip member at `out`, which has room; its size. */
static size_t pack(const unsigned char *data, size_t size, int level, unsigned char *out, size_t room)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t packed = room - z.avail_out;
    deflateEnd(&z);
    return packed;
}

static void check_read(const unsigned char *packed, size_t n, size_t limit, const unsigned char *data, size_t size)
{
    unsigned char *back;
    size_t back_size;

    assert_true(lsi_file_is_gzip(packed, n));
    CHECK_OK(lsi_file_inflate(path, packed, n, limit, LS_ERR_DATA, &back, &back_size));
    assert_int_equal(back_size, size);
    assert_memory_equal(back, data, size);
    assert_int_equal(back[size], 0);
    lsi_memory_free(back);
}

static void check_refused(const unsigned char *packed, size_t n, size_t limit, const char *part)
{
    unsigned char *back;
    size_t size;

    CHECK_FAILS(lsi_file_inflate(path, packed, n, limit, LS_ERR_DATA, &back, &size), LS_ERR_DATA, part);
    assert_non_null(strstr(ls_failure_message(), path));
}

static void what_was_packed_comes_back_within_the_limit(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 100, 65536, 3000001};
    unsigned char *packed = malloc(4 << 20);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *data = make_data(sizes[i]);
        for (int level = 0; level <= 9; level += 9) {       /* 0: stored as it is */
            size_t n = pack(data, sizes[i], level, packed, 4 << 20);

            check_read(packed, n, sizes[i], data, sizes[i]);
            check_read(packed, n, SIZE_MAX, data, sizes[i]);
            if (sizes[i] > 0) {
                check_refused(packed, n, sizes[i] - 1, "is larger than");
            }
        }
        free(data);
    }
    free(packed);
    test_check_no_memory_live();
}

static void other_bytes_are_no_gzip(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0x1f, 0x8b, 0x1f};

    assert_false(lsi_file_is_gzip(NULL, 0));
    assert_false(lsi_file_is_gzip(bytes, 1));
    assert_true(lsi_file_is_gzip(bytes, 2));
    assert_false(lsi_file_is_gzip(bytes + 1, 2));
}

static void members_are_concatenated(void **state)
{
    (void)state;
    enum { SIZE = 200000 };
    unsigned char *data = make_data(SIZE), *packed = malloc(2 * SIZE);
    size_t n = 0;

    for (size_t start = 0, length = 0; start < SIZE; start += length, length = length * 2 + 1) {
        length = length < SIZE - start ? length : SIZE - start;
        n += pack(data + start, length, 9, packed + n, 2 * SIZE - n);
    }
    check_read(packed, n, SIZE, data, SIZE);
    packed[n] = 'x';
    check_refused(packed, n + 1, SIZE, "1 bytes that are not gzip behind its gzip data");
    free(packed);
    free(data);
    test_check_no_memory_live();
}

static void every_cut_is_seen(void **state)
{
    (void)state;
    enum { SIZE = 700 };
    unsigned char *data = make_data(SIZE), packed[2048];
    size_t n = pack(data, SIZE, 9, packed, sizeof packed);

    for (size_t cut = 2; cut < n; cut++) {
        check_refused(packed, cut, SIZE, "cut short");
    }
    /* Also behind a whole member. */
    n += pack(data, SIZE, 9, packed + n, sizeof packed - n);
    check_refused(packed, n - 1, 2 * SIZE, "cut short");
    free(data);
    test_check_no_memory_live();
}

static void no_damage_changes_the_bytes_unseen(void **state)
{
    (void)state;
    enum { SIZE = 300 };
    unsigned char *data = make_data(SIZE), packed[1024], *back;
    size_t n = pack(data, SIZE, 9, packed, sizeof packed), back_size, refused = 0;

    for (size_t bit = 16; bit < n * 8; bit++) {     /* the first two bytes say that it is gzip at all */
        packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (lsi_file_inflate(path, packed, n, SIZE, LS_ERR_DATA, &back, &back_size) == LS_OK) {
            assert_int_equal(back_size, SIZE);
            assert_memory_equal(back, data, SIZE);
            lsi_memory_free(back);
        } else {
            refused++;
        }
        packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_true(refused > (n - 10) * 8 / 2);
    free(data);
    test_check_no_memory_live();
}

static void missing_memory_is_an_error_without_a_leak(void **state)
{
    (void)state;
    unsigned char *data = make_data(100000), *packed = malloc(200000), *back;
    size_t n = pack(data, 50000, 9, packed, 200000), size, failures = 0;

    n += pack(data + 50000, 50000, 9, packed + n, 200000 - n);      /* the size guessed is too small */
    for (long k = 1;; k++) {
        lsi_memory_fail_at(k);
        ls_status status = lsi_file_inflate(path, packed, n, SIZE_MAX, LS_ERR_DATA, &back, &size);
        if (status == LS_OK) {
            lsi_memory_free(back);
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        test_check_no_memory_live();
        failures++;
    }
    lsi_memory_fail_at(0);
    assert_true(failures >= 2);
    free(packed);
    free(data);
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_back_within_the_limit),
        cmocka_unit_test(other_bytes_are_no_gzip),
        cmocka_unit_test(members_are_concatenated),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(no_damage_changes_the_bytes_unseen),
        cmocka_unit_test(missing_memory_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
