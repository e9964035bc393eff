/* RUN: timeout=60 */
/* metrics.jsonl: exact lines, also for strange texts and numbers, and failures that name the file. */
#include "support/test.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "metrics/jsonl.h"

static char path[256];

static int make_folder(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/m.jsonl", test_folder_make());
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_folder_remove();
    test_check_no_memory_live();
    return 0;
}

static const char *contents(void)
{
    static char text[8192];
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void lines_are_exact(void **state)
{
    static const char *const names[] = {"a", "b\"", "\\"};
    static const int64_t counts[] = {-1, 0, INT64_MAX};
    lsi_jsonl *jsonl;

    (void)state;
    CHECK_OK(lsi_jsonl_open(path, &jsonl));
    lsi_jsonl_begin(jsonl, "start");
    lsi_jsonl_int(jsonl, "least", INT64_MIN);
    lsi_jsonl_bool(jsonl, "yes", true);
    lsi_jsonl_bool(jsonl, "no", false);
    lsi_jsonl_float(jsonl, "third", 1.0f / 3.0f);
    lsi_jsonl_double(jsonl, "third", 1.0 / 3.0);
    lsi_jsonl_double(jsonl, "whole", 2.0);
    lsi_jsonl_double(jsonl, "huge", 1e300);
    lsi_jsonl_strings(jsonl, "names", names, 3);
    lsi_jsonl_strings(jsonl, "none", names, 0);
    lsi_jsonl_ints(jsonl, "counts", counts, 3);
    lsi_jsonl_named_ints(jsonl, "named", names, counts, 3);
    lsi_jsonl_named_ints(jsonl, "nobody", names, counts, 0);
    CHECK_OK(lsi_jsonl_end(jsonl));
    lsi_jsonl_begin(jsonl, "done");
    CHECK_OK(lsi_jsonl_end(jsonl));
    lsi_jsonl_close(&jsonl);
    assert_null(jsonl);
    assert_string_equal(contents(),
                        "{\"event\":\"start\",\"least\":-9223372036854775808,\"yes\":true,\"no\":false,"
                        "\"third\":0.333333343,\"third\":0.33333333333333331,\"whole\":2,"
                        "\"huge\":1.0000000000000001e+300,\"names\":[\"a\",\"b\\\"\",\"\\\\\"],\"none\":[],"
                        "\"counts\":[-1,0,9223372036854775807],"
                        "\"named\":{\"a\":-1,\"b\\\"\":0,\"\\\\\":9223372036854775807},\"nobody\":{}}\n"
                        "{\"event\":\"done\"}\n");
}

static void opening_again_appends(void **state)
{
    lsi_jsonl *jsonl;

    (void)state;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(lsi_jsonl_open(path, &jsonl));
        lsi_jsonl_begin(jsonl, "step");
        lsi_jsonl_int(jsonl, "step", i);
        CHECK_OK(lsi_jsonl_end(jsonl));
        lsi_jsonl_close(&jsonl);
    }
    assert_string_equal(contents(), "{\"event\":\"step\",\"step\":0}\n{\"event\":\"step\",\"step\":1}\n");
}

static void an_unfinished_line_is_dropped(void **state)
{
    lsi_jsonl *jsonl;

    (void)state;
    CHECK_OK(lsi_jsonl_open(path, &jsonl));
    lsi_jsonl_begin(jsonl, "step");
    lsi_jsonl_begin(jsonl, "done");
    CHECK_OK(lsi_jsonl_end(jsonl));
    lsi_jsonl_close(&jsonl);
    assert_string_equal(contents(), "{\"event\":\"done\"}\n");
}

static void non_finite_numbers_are_texts(void **state)
{
    lsi_jsonl *jsonl;

    (void)state;
    CHECK_OK(lsi_jsonl_open(path, &jsonl));
    lsi_jsonl_begin(jsonl, "step");
    lsi_jsonl_float(jsonl, "a", NAN);
    lsi_jsonl_float(jsonl, "b", -NAN);
    lsi_jsonl_float(jsonl, "c", INFINITY);
    lsi_jsonl_double(jsonl, "d", -(double)INFINITY);
    CHECK_OK(lsi_jsonl_end(jsonl));
    lsi_jsonl_close(&jsonl);
    assert_string_equal(contents(), "{\"event\":\"step\",\"a\":\"nan\",\"b\":\"nan\",\"c\":\"inf\",\"d\":\"-inf\"}\n");
}

static void texts_become_valid_utf8(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"a\n\t\x01\x1f\x7f", "a\\u000a\\u0009\\u0001\\u001f\x7f"},
        {"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80", "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\xFFz", "\\ufffdz"},                                      /* never a first byte */
        {"\x80", "\\ufffd"},                                        /* a continuation alone */
        {"\xC3", "\\ufffd"},                                        /* cut short */
        {"\xE2\x82", "\\ufffd\\ufffd"},                             /* cut short */
        {"\xC3\x28", "\\ufffd("},                                   /* no continuation */
        {"\xC0\xAF", "\\ufffd\\ufffd"},                             /* overlong */
        {"\xE0\x80\xAF", "\\ufffd\\ufffd\\ufffd"},                  /* overlong */
        {"\xED\xA0\x80", "\\ufffd\\ufffd\\ufffd"},                  /* surrogate */
        {"\xED\x9F\xBF", "\xED\x9F\xBF"},                           /* right below */
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},                   /* U+10FFFF */
        {"\xF4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},       /* above */
        {"\xF0\x8F\xBF\xBF", "\\ufffd\\ufffd\\ufffd\\ufffd"},       /* overlong */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lsi_jsonl *jsonl;
        char expected[256];

        unlink(path);
        CHECK_OK(lsi_jsonl_open(path, &jsonl));
        lsi_jsonl_begin(jsonl, "warning");
        lsi_jsonl_string(jsonl, "text", cases[i].text);
        CHECK_OK(lsi_jsonl_end(jsonl));
        lsi_jsonl_close(&jsonl);
        snprintf(expected, sizeof expected, "{\"event\":\"warning\",\"text\":\"%s\"}\n", cases[i].expected);
        assert_string_equal(contents(), expected);
    }
}

/* Where the system has such a locale; the numbers are C's in any. */
static void numbers_have_a_point_in_every_locale(void **state)
{
    static const char *const locales[] = {"C", "de_DE.UTF-8", "ps_AF.UTF-8", "fa_IR.UTF-8"};

    (void)state;
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        lsi_jsonl *jsonl;

        if (setlocale(LC_ALL, locales[i]) == NULL) {
            continue;
        }
        unlink(path);
        CHECK_OK(lsi_jsonl_open(path, &jsonl));
        lsi_jsonl_begin(jsonl, "step");
        lsi_jsonl_double(jsonl, "x", -1.5);
        lsi_jsonl_float(jsonl, "y", 0.25f);
        CHECK_OK(lsi_jsonl_end(jsonl));
        lsi_jsonl_close(&jsonl);
        setlocale(LC_ALL, "C");
        assert_string_equal(contents(), "{\"event\":\"step\",\"x\":-1.5,\"y\":0.25}\n");
    }
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    lsi_jsonl *jsonl = NULL;

    (void)state;
    CHECK_FAILS(lsi_jsonl_open("/nonexistent/m.jsonl", &jsonl), LS_ERR_OUTPUT, "/nonexistent/m.jsonl: cannot open");
    CHECK_FAILS(lsi_jsonl_open("/", &jsonl), LS_ERR_OUTPUT, "/: cannot open");
    assert_null(jsonl);
}

static void a_full_disk_is_reported(void **state)
{
    lsi_jsonl *jsonl;

    (void)state;
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    CHECK_OK(lsi_jsonl_open("/dev/full", &jsonl));
    lsi_jsonl_begin(jsonl, "step");
    CHECK_FAILS(lsi_jsonl_end(jsonl), LS_ERR_OUTPUT, "/dev/full: cannot write: No space left on device");
    lsi_jsonl_close(&jsonl);
}

/* The system takes the first bytes of the line only: this is a failure too. */
static void a_short_write_is_reported(void **state)
{
    struct rlimit old, limit;
    lsi_jsonl *jsonl;

    (void)state;
    CHECK_OK(lsi_jsonl_open(path, &jsonl));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 10;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    lsi_jsonl_begin(jsonl, "step");
    ls_status status = lsi_jsonl_end(jsonl);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_FAILS(status, LS_ERR_OUTPUT, "m.jsonl: cannot write: File too large");
    lsi_jsonl_close(&jsonl);
}

static void one_run_at_a_time_writes(void **state)
{
    (void)state;
    lsi_jsonl *first = NULL, *second = NULL;

    CHECK_OK(lsi_jsonl_open(path, &first));
    CHECK_FAILS(lsi_jsonl_open(path, &second), LS_ERR_OUTPUT, "m.jsonl: another run is writing to it");
    assert_null(second);
    lsi_jsonl_close(&first);
    CHECK_OK(lsi_jsonl_open(path, &second));
    lsi_jsonl_close(&second);
}

/* A pipe without a reader neither blocks the opening nor ends the process. */
static void a_pipe_without_a_reader_is_reported(void **state)
{
    (void)state;
    lsi_jsonl *jsonl = NULL;

    assert_int_equal(mkfifo(path, 0666), 0);
    CHECK_FAILS(lsi_jsonl_open(path, &jsonl), LS_ERR_OUTPUT, "m.jsonl: cannot open for writing: nobody reads");
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    CHECK_OK(lsi_jsonl_open(path, &jsonl));
    lsi_jsonl_begin(jsonl, "step");
    CHECK_OK(lsi_jsonl_end(jsonl));
    close(reader);
    lsi_jsonl_begin(jsonl, "step");
    CHECK_FAILS(lsi_jsonl_end(jsonl), LS_ERR_OUTPUT, "m.jsonl: cannot write: Broken pipe");
    lsi_jsonl_close(&jsonl);
}

static void memory_may_run_out_anywhere(void **state)
{
    bool done = false;

    (void)state;
    for (long k = 1; !done; k++) {
        lsi_jsonl *jsonl = NULL;

        lsi_memory_fail_at(k);
        ls_status status = lsi_jsonl_open(path, &jsonl);
        if (status == LS_OK) {
            lsi_jsonl_begin(jsonl, "step");
            lsi_jsonl_string(jsonl, "text", "longer than the first room of a text, so that it grows once or twice");
            status = lsi_jsonl_end(jsonl);
            lsi_jsonl_close(&jsonl);
        }
        lsi_memory_fail_at(0);
        done = status == LS_OK;
        assert_true(done || status == LS_ERR_MEMORY);
        test_check_no_memory_live();
    }
    assert_non_null(strstr(contents(), "once or twice\"}\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_exact, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(opening_again_appends, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_unfinished_line_is_dropped, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(non_finite_numbers_are_texts, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(texts_become_valid_utf8, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(numbers_have_a_point_in_every_locale, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_opened_are_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_full_disk_is_reported, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_short_write_is_reported, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(one_run_at_a_time_writes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_pipe_without_a_reader_is_reported, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
