/* RUN: */
/* Status codes, the failure record, element types. */
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <lockstep/types.h>

#include "base/failure.h"

static void every_code_has_its_text_and_exit_code(void **state)
{
    (void)state;
    static const int exit_codes[] = {0, 0, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 75};

    assert_int_equal(LS_STATUS_COUNT, sizeof exit_codes / sizeof exit_codes[0]);
    for (int s = 0; s < LS_STATUS_COUNT; s++) {
        assert_true(strlen(ls_status_text((ls_status)s)) > 0);
        assert_int_equal(ls_status_exit_code((ls_status)s), exit_codes[s]);
    }
    assert_int_equal(ls_status_exit_code((ls_status)1000), 11);
    assert_int_equal(ls_status_exit_code((ls_status)-1), 11);
}

static ls_status fails(int value)
{
    return LS_FAIL(LS_ERR_DATA, "value %d", value);
}

static ls_status passes_up(int value, int *after)
{
    LS_REQUIRE(value != 7, LS_ERR_CONFIG, "seven");
    LS_TRY(value == 0 ? LS_OK : fails(value));
    *after = 1;
    return LS_OK;
}

static void macros_return_at_the_first_failure(void **state)
{
    (void)state;
    int after = 0;

    CHECK_FAILS(passes_up(3, &after), LS_ERR_DATA, "value 3");
    assert_int_equal(after, 0);
    CHECK_FAILS(passes_up(7, &after), LS_ERR_CONFIG, "seven");
    CHECK_OK(passes_up(0, &after));
    assert_int_equal(after, 1);
}

static void a_message_may_quote_the_last_one(void **state)
{
    (void)state;
    ls_status status = fails(1);
    errno = EPIPE;
    status = LS_FAIL(status, "because of %s", ls_failure_message());
    assert_int_equal(errno, EPIPE);
    assert_int_equal(status, LS_ERR_DATA);
    assert_string_equal(ls_failure_message(), "because of value 1");
}

static void a_long_message_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[4 * LSI_FAILURE_MAX];

    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'x', (size_t)shift);
        for (size_t i = (size_t)shift; i < sizeof text; i++) {
            text[i] = "\xe2\x82\xac"[(i - (size_t)shift) % 3];   /* the euro sign */
        }
        text[sizeof text - 1] = '\0';
        assert_int_equal(LS_FAIL(LS_ERR_DATA, "%s", text), LS_ERR_DATA);
        size_t n = strlen(ls_failure_message());
        assert_in_range(n, LSI_FAILURE_MAX - 4, LSI_FAILURE_MAX - 1);
        assert_int_equal((n - (size_t)shift) % 3, 0);
        assert_memory_equal(ls_failure_message(), text, n);
    }
}

static void *in_another_thread(void *argument)
{
    lsi_failure *out = argument;

    lsi_failure_take(out);
    if (out->status == LS_OK && fails(2) == LS_ERR_DATA) {
        lsi_failure_take(out);
    }
    return NULL;
}

static void records_belong_to_threads_and_can_be_handed_over(void **state)
{
    (void)state;
    pthread_t thread;
    lsi_failure failure;

    assert_int_equal(fails(1), LS_ERR_DATA);
    assert_int_equal(pthread_create(&thread, NULL, in_another_thread, &failure), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(ls_failure_message(), "value 1");
    assert_int_equal(lsi_failure_adopt(&failure), LS_ERR_DATA);
    assert_string_equal(ls_failure_message(), "value 2");
    lsi_failure back;
    lsi_failure_take(&back);
    assert_int_equal(back.line, failure.line);
    assert_ptr_equal(back.file, failure.file);
}

static void types_have_sizes(void **state)
{
    (void)state;
    assert_int_equal(ls_dtype_bytes(LS_F32), sizeof(float));
    assert_int_equal(ls_dtype_bytes(LS_F64), sizeof(double));
    assert_int_equal(ls_dtype_bytes(LS_I32), sizeof(int32_t));
    assert_int_equal(ls_dtype_bytes(LS_U8), 1);
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        assert_true(ls_dtype_bytes((ls_dtype)d) > 0);
        assert_true(strlen(ls_dtype_name((ls_dtype)d)) > 0);
    }
    ls_shape scalar = {0, {0}}, cube = ls_shape3(3, 1 << 20, 1 << 20), none = ls_shape2(5, 0);
    assert_int_equal(ls_shape_count(&scalar), 1);
    assert_int_equal(ls_shape_count(&cube), (int64_t)3 << 40);
    assert_int_equal(ls_shape_count(&none), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_text_and_exit_code),
        cmocka_unit_test(macros_return_at_the_first_failure),
        cmocka_unit_test(a_message_may_quote_the_last_one),
        cmocka_unit_test(a_long_message_is_cut_at_a_character),
        cmocka_unit_test(records_belong_to_threads_and_can_be_handed_over),
        cmocka_unit_test(types_have_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
