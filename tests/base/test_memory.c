/* RUN: */
#include "support/test.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

static void blocks_are_zeroed_aligned_and_counted(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1 << 20, (1 << 24) + 3};
    enum { N = sizeof sizes / sizeof sizes[0] };
    void *block[N];
    size_t total = 0;

    for (int round = 0; round < 2; round++) {       /* the second meets used memory */
        total = 0;
        for (int i = 0; i < N; i++) {
            CHECK_OK(lsi_memory_alloc(sizes[i], "a test", &block[i]));
            total += sizes[i];
            assert_non_null(block[i]);
            assert_int_equal((uintptr_t)block[i] % 64, 0);
            for (size_t k = 0; k < sizes[i]; k++) {
                if (((unsigned char *)block[i])[k] != 0) {
                    fail_msg("byte %zu of %zu is not zero", k, sizes[i]);
                }
            }
            memset(block[i], 0xff, sizes[i]);
            assert_int_equal(lsi_memory_live_blocks(), i + 1);
            assert_int_equal(lsi_memory_live_bytes(), total);
        }
        for (int i = 0; i < N; i++) {
            lsi_memory_free(block[i]);
        }
        test_check_no_memory_live();
    }
    lsi_memory_free(NULL);
    test_check_no_memory_live();
}

static void too_much_is_an_error_that_says_for_what(void **state)
{
    (void)state;
    void *block = &block;

    CHECK_FAILS(lsi_memory_alloc(SIZE_MAX, "the moon", &block), LS_ERR_MEMORY, "the moon");
    CHECK_FAILS(lsi_memory_alloc(SIZE_MAX / 2, "the moon", &block), LS_ERR_MEMORY, "the moon");
    assert_ptr_equal(block, &block);
    test_check_no_memory_live();
}

static void resizing_keeps_the_front_and_zeroes_the_rest(void **state)
{
    (void)state;
    void *block = NULL;

    CHECK_OK(lsi_memory_resize(&block, 10, "a test"));
    memcpy(block, "0123456789", 10);
    CHECK_OK(lsi_memory_resize(&block, 1000, "a test"));
    assert_memory_equal(block, "0123456789\0\0\0", 13);
    assert_int_equal(lsi_memory_live_bytes(), 1000);
    CHECK_OK(lsi_memory_resize(&block, 3, "a test"));
    assert_memory_equal(block, "012", 3);
    void *before = block;
    lsi_memory_fail_at(1);
    CHECK_FAILS(lsi_memory_resize(&block, 100, "a test"), LS_ERR_MEMORY, "a test");
    assert_ptr_equal(block, before);
    lsi_memory_free(block);
    test_check_no_memory_live();
}

static void the_hook_fails_exactly_the_kth(void **state)
{
    (void)state;
    for (long k = 0; k <= 6; k++) {
        lsi_memory_fail_at(k);
        for (long i = 1; i <= 6; i++) {
            char *copy = NULL;
            ls_status status = lsi_memory_strdup("text", &copy);
            assert_int_equal(status, i == k ? LS_ERR_MEMORY : LS_OK);
            if (status == LS_OK) {
                assert_string_equal(copy, "text");
                lsi_memory_free(copy);
            }
        }
    }
    lsi_memory_fail_at(0);
    test_check_no_memory_live();
}

static void *churn(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < 2000; i++) {
        void *block;
        if (lsi_memory_alloc(i, "a test", &block) == LS_OK) {
            lsi_memory_free(block);
        }
    }
    return NULL;
}

static void counters_hold_with_several_threads(void **state)
{
    (void)state;
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_counted),
        cmocka_unit_test(too_much_is_an_error_that_says_for_what),
        cmocka_unit_test(resizing_keeps_the_front_and_zeroes_the_rest),
        cmocka_unit_test(the_hook_fails_exactly_the_kth),
        cmocka_unit_test(counters_hold_with_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
