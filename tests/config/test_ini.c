/* RUN: timeout=60 */
/* The INI reader: what it accepts, what it refuses, and that it names the line. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/ini.h"

/* Everything read, as "section|key|value|comment|line\n"; a section line has key "-". */
typedef struct record {
    char text[65536];
    size_t length;
} record;

static record seen;

static ls_status note(void *user, const lsi_ini_line *line)
{
    record *r = user;

    r->length += (size_t)snprintf(r->text + r->length, sizeof r->text - r->length, "%s|%s|%s|%s|%d\n", line->section,
                                  line->key != NULL ? line->key : "-", line->value != NULL ? line->value : "-",
                                  line->comment, line->number);
    return LS_OK;
}

/* Reads from a heap copy of exact size, so that AddressSanitizer sees a step outside. */
static ls_status read_bytes(const char *bytes, size_t size)
{
    char *copy = malloc(size + 1);

    memcpy(copy, bytes, size);
    copy[size] = '\0';
    seen.length = 0;
    seen.text[0] = '\0';
    ls_status status = lsi_ini_read("x.ini", copy, size, note, &seen);
    free(copy);
    return status;
}

static ls_status read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

static void accepts_all_spellings(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"\n\n", ""},
        {"\xEF\xBB\xBF[a]\nk=1", "a|-|-||1\na|k|1||2\n"},
        {"\xEF\xBB\xBF; only a comment", ""},
        {"[a]\r\nk = 1\r\n\r\n", "a|-|-||1\na|k|1||2\n"},
        {"  [ a ]  ; why\n\t k\t=\t1 \n", "a|-|-||1\na|k|1||2\n"},
        {"; c\n# c\n  ; c\n[a]", "a|-|-||4\n"},
        {"[a]\nk = 1 ; c", "a|-|-||1\na|k|1|c|2\n"},
        {"[a]\nk = 1\t# c ; d \r\n", "a|-|-||1\na|k|1|c ; d|2\n"},
        {"[a]\nk = a;b#c", "a|-|-||1\na|k|a;b#c||2\n"},
        {"[a]\nk = two words here", "a|-|-||1\na|k|two words here||2\n"},
        {"[a]\nk = a=b", "a|-|-||1\na|k|a=b||2\n"},
        {"[a]\nk =", "a|-|-||1\na|k|||2\n"},
        {"[a]\nk = ; c", "a|-|-||1\na|k||c|2\n"},
        {"[a]\nk =;c", "a|-|-||1\na|k|;c||2\n"},
        {"[a]\nk = \"\"", "a|-|-||1\na|k|||2\n"},
        {"[a]\nk = \" a ; b # c \" ; d", "a|-|-||1\na|k| a ; b # c |d|2\n"},
        {"[a]\nk = \"say \"\"x\"\"\"", "a|-|-||1\na|k|say \"x\"||2\n"},
        {"[a]\nk = \"\"\"\"\n", "a|-|-||1\na|k|\"||2\n"},
        {"[a]\nk = a\"b", "a|-|-||1\na|k|a\"b||2\n"},
        {"[a]\nk = a\\b", "a|-|-||1\na|k|a\\b||2\n"},
        {"[a]\nk=1\n[b]\nk=2\n[a]\nj=3", "a|-|-||1\na|k|1||2\nb|-|-||3\nb|k|2||4\na|-|-||5\na|j|3||6\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_OK(read_text(cases[i].text));
        assert_string_equal(seen.text, cases[i].expected);
    }
}

static void refuses_with_the_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"k = 1", "x.ini:1: key 'k' stands before the first [section]"},
        {"[a]\n\nk", "x.ini:3: expected 'key = value'"},
        {"[a\nk = 1", "x.ini:1: section without closing ']'"},
        {"\n[]", "x.ini:2: section without a name"},
        {"[ ]", "x.ini:1: section without a name"},
        {"[a] b", "x.ini:1: unexpected text behind the section: 'b'"},
        {"[a]\n = 1", "x.ini:2: no key before '='"},
        {"[a]\nk = \"x", "x.ini:2: value of 'k' lacks the closing quote"},
        {"[a]\nk = \"x\"\"", "x.ini:2: value of 'k' lacks the closing quote"},
        {"[a]\nk = \"x\" y", "x.ini:2: unexpected text behind the quoted value of 'k': 'y'"},
        {"[a]\nk = \"x\"; y", "x.ini:2: unexpected text behind the quoted value of 'k': '; y'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_FAILS(read_text(cases[i].text), LS_ERR_CONFIG, cases[i].message);
    }
}

static void refuses_nul_bytes(void **state)
{
    static const char utf16[] = "[\0a\0]\0\n\0";

    (void)state;
    CHECK_FAILS(read_bytes("[a]\nk = 1\0", 10), LS_ERR_CONFIG, "x.ini:2: NUL byte");
    CHECK_FAILS(read_bytes(utf16, sizeof utf16 - 1), LS_ERR_CONFIG, "x.ini:1: NUL byte");
    CHECK_FAILS(read_bytes("", 1), LS_ERR_CONFIG, "x.ini:1: NUL byte");
    assert_string_equal(seen.text, "");
}

static void keeps_long_lines_whole(void **state)
{
    enum { LENGTH = 10240 };
    static char text[2 * LENGTH + 64], expected[2 * LENGTH + 64];
    char word[LENGTH + 1];

    (void)state;
    memset(word, 'x', LENGTH);
    word[LENGTH] = '\0';
    snprintf(text, sizeof text, "[a]\nk = %s ; %s\n", word, word);
    snprintf(expected, sizeof expected, "a|-|-||1\na|k|%s|%s|2\n", word, word);
    CHECK_OK(read_text(text));
    assert_string_equal(seen.text, expected);
}

static ls_status stop_at_second(void *user, const lsi_ini_line *line)
{
    int *calls = user;

    LS_REQUIRE(++*calls < 2, LS_ERR_DATA, "stopped in line %d", line->number);
    return LS_OK;
}

static void ends_with_the_first_failure_of_the_caller(void **state)
{
    char text[] = "[a]\nk = 1\nj = 2\n";
    int calls = 0;

    (void)state;
    CHECK_FAILS(lsi_ini_read("x.ini", text, strlen(text), stop_at_second, &calls), LS_ERR_DATA, "stopped in line 2");
    assert_int_equal(calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_all_spellings),
        cmocka_unit_test(refuses_with_the_line),
        cmocka_unit_test(refuses_nul_bytes),
        cmocka_unit_test(keeps_long_lines_whole),
        cmocka_unit_test(ends_with_the_first_failure_of_the_caller),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
