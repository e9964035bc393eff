/* RUN: timeout=60 */
/* Prompts: bytes and lists of ids in, the same out again; what is neither is refused. */
#include "support/test.h"

#include <string.h>

#include "base/memory.h"
#include "loop/prompt.h"

static void check_read(const char *text, bool bytes, const char *shown, int64_t n_expected, int32_t last)
{
    lsi_text out = {0};
    int32_t *token;
    int64_t n;

    CHECK_OK(lsi_prompt_read(text, bytes, bytes ? 256 : 50257, &token, &n));
    assert_int_equal(n, n_expected);
    assert_int_equal(token[n - 1], last);
    for (int64_t i = 0; i < n; i++) {
        lsi_prompt_append(&out, bytes, i, token[i]);
    }
    CHECK_OK(lsi_text_status(&out));
    assert_string_equal(out.data, shown);
    lsi_text_free(&out);
    lsi_memory_free(token);
    test_check_no_memory_live();
}

static void prompts_are_read_and_shown(void **state)
{
    (void)state;
    check_read("The\xc3\xa9\n \xff", true, "The\xc3\xa9\n \xff", 8, 255);
    check_read("15496 995", true, "15496 995", 9, '5');
    check_read("15496 995", false, "15496 995", 2, 995);
    check_read(" 15496,995, 0,\t50256\n", false, "15496 995 0 50256", 4, 50256);
    check_read("7", false, "7", 1, 7);
}

static void wrong_prompts_are_refused(void **state)
{
    int32_t *token;
    int64_t n;

    (void)state;
    CHECK_FAILS(lsi_prompt_read("Hello", false, 100, &token, &n), LS_ERR_USAGE, "'Hello': not a whole number; this model");
    CHECK_FAILS(lsi_prompt_read("5 1.5", false, 100, &token, &n), LS_ERR_USAGE, "'1.5'");
    CHECK_FAILS(lsi_prompt_read("5 100", false, 100, &token, &n), LS_ERR_USAGE, "id 100 at position 1; the model knows 0 to 99");
    CHECK_FAILS(lsi_prompt_read("-1", false, 100, &token, &n), LS_ERR_USAGE, "id -1");
    CHECK_FAILS(lsi_prompt_read("99999999999", false, 100, &token, &n), LS_ERR_USAGE, "id 99999999999");
    CHECK_FAILS(lsi_prompt_read(" , ", false, 100, &token, &n), LS_ERR_USAGE, "no token");
    CHECK_FAILS(lsi_prompt_read("a\x80", true, 128, &token, &n), LS_ERR_USAGE, "byte 128 at position 1");
    test_check_no_memory_live();
}

static void memory_may_run_out(void **state)
{
    (void)state;
    for (long k = 1; k <= 2; k++) {
        int32_t *token;
        int64_t n;

        lsi_memory_fail_at(k);
        assert_int_equal(lsi_prompt_read("1 2", false, 3, &token, &n), LS_ERR_MEMORY);
        test_check_no_memory_live();
    }
    lsi_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_read_and_shown),
        cmocka_unit_test(wrong_prompts_are_refused),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
