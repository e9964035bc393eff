/* RUN: */
#include "support/test.h"

#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/random.h"

/* NULL reason: accepted with this value; else part of the reason. */
typedef struct real_case {
    const char *text, *reason;
    double value;
} real_case;

static void check_reason(const char *text, const char *got, const char *expected)
{
    if ((got == NULL) != (expected == NULL) || (got != NULL && strstr(got, expected) == NULL)) {
        fail_msg("'%s': %s, expected %s", text, got ? got : "accepted", expected ? expected : "accepted");
    }
}

static void check_reals(const char *(*reader)(const char *, double *), const real_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double value = -12345;
        check_reason(cases[i].text, reader(cases[i].text, &value), cases[i].reason);
        double expected = cases[i].reason == NULL ? cases[i].value : -12345;     /* untouched after a failure */
        if (value != expected || signbit(value) != signbit(expected)) {
            fail_msg("'%s' gives %.17g", cases[i].text, value);
        }
    }
}

static const real_case reals[] = {
    {"0", NULL, 0}, {"-0", NULL, -0.0}, {"1", NULL, 1}, {"+1.5", NULL, 1.5}, {".5", NULL, 0.5}, {"5.", NULL, 5},
    {"1e-4", NULL, 1e-4}, {"3E+2", NULL, 300}, {"2^24", NULL, 16777216}, {"2^-3", NULL, 0.125}, {"0e999", NULL, 0},
    {"4.9406564584124654e-324", NULL, 0x1p-1074}, {"1.7976931348623157e308", NULL, 0x1.fffffffffffffp1023},
    {"0,0003", "use a point: 0.0003", 0}, {"-1,5e3", "use a point: -1.5e3", 0}, {"1,2,3", "unexpected ',2,3'", 0},
    {",5", "use a point: .5", 0}, {"1e-4x", "unexpected 'x'", 0}, {"1 ", "unexpected ' '", 0},
    {" 1", "not a number", 0},
    {"", "empty", 0}, {"nan", "not a finite number", 0}, {"-inf", "not a finite number", 0}, {"NaN", "finite", 0},
    {"infinity", "finite", 0}, {"0x10", "unexpected 'x10'", 0}, {"1e", "unexpected 'e'", 0}, {"1e+", "unexpected", 0},
    {"--1", "not a number", 0}, {".", "not a number", 0}, {"e5", "not a number", 0}, {"abc", "not a number", 0},
    {"1e999", "too large", 0}, {"-1e999", "too large", 0}, {"1e-999", "too small", 0}, {"2^2000", "too large", 0},
    {"2^-99999999999999999999", "too small", 0}, {"2^", "unexpected '^'", 0}, {"2^3x", "unexpected 'x'", 0},
};

static void reals_are_read_strictly(void **state)
{
    (void)state;
    check_reals(lsi_number_real, reals, sizeof reals / sizeof reals[0]);
}

static void durations_are_read_strictly(void **state)
{
    (void)state;
    static const real_case cases[] = {
        {"10", NULL, 10}, {"10s", NULL, 10}, {"1.5m", NULL, 90}, {"2h", NULL, 7200}, {"250ms", NULL, 0.25},
        {"1d", "not a duration", 0}, {"", "empty", 0}, {"s", "not a number", 0}, {"1 s", "not a duration", 0},
        {"1,5m", "unexpected ',5m'", 0}, {"1,5", "use a point: 1.5", 0}, {"1e308h", "too large", 0},
    };

    check_reals(lsi_number_duration, cases, sizeof cases / sizeof cases[0]);
}

typedef struct int_case {
    const char *text, *reason;
    int64_t value;
} int_case;

static void check_ints(const char *(*reader)(const char *, int64_t *), const int_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t value = -12345;
        check_reason(cases[i].text, reader(cases[i].text, &value), cases[i].reason);
        assert_int_equal(value, cases[i].reason == NULL ? cases[i].value : -12345);
    }
}

static void integers_are_read_strictly(void **state)
{
    (void)state;
    static const int_case cases[] = {
        {"0", NULL, 0}, {"-17", NULL, -17}, {"+5", NULL, 5}, {"007", NULL, 7}, {"2^24", NULL, 1 << 24},
        {"2^0", NULL, 1},
        {"2^62", NULL, (int64_t)1 << 62}, {"9223372036854775807", NULL, INT64_MAX},
        {"-9223372036854775808", NULL, INT64_MIN}, {"9223372036854775808", "too large", 0},
        {"-9223372036854775809", "too large", 0}, {"99999999999999999999999", "too large", 0}, {"2^63", "too large", 0},
        {"2^99999999999999999999", "too large", 0}, {"", "empty", 0}, {"1.5", "not a whole number", 0},
        {"1e3", "not a whole", 0}, {"0x10", "not a whole", 0}, {" 1", "not a whole", 0}, {"1 ", "not a whole", 0},
        {"-", "not a whole", 0}, {"ten", "not a whole", 0}, {"-2^3", "not a whole", 0}, {"2^-3", "not a whole", 0},
        {"1,000", "not a whole", 0},
    };

    check_ints(lsi_number_int, cases, sizeof cases / sizeof cases[0]);
}

static void sizes_are_read_strictly(void **state)
{
    (void)state;
    static const int_case cases[] = {
        {"512", NULL, 512}, {"64k", NULL, 65536}, {"25M", NULL, 25 << 20}, {"16G", NULL, (int64_t)16 << 30},
        {"2T", NULL, (int64_t)2 << 40}, {"2^20", NULL, 1 << 20}, {"1.5G", "not a size", 0}, {"25m", "not a size", 0},
        {"25MB", "not a size", 0}, {"k", "not a whole", 0}, {"", "empty", 0}, {"9000000T", "too large", 0},
        {"8388607T", NULL, (int64_t)8388607 << 40}, {"8388608T", "too large", 0},
    };

    check_ints(lsi_number_size, cases, sizeof cases / sizeof cases[0]);
}

static void booleans_are_read_strictly(void **state)
{
    (void)state;
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    bool value;

    for (int i = 0; i < 4; i++) {
        value = false;
        assert_null(lsi_number_bool(yes[i], &value));
        assert_true(value);
        assert_null(lsi_number_bool(no[i], &value));
        assert_false(value);
    }
    check_reason("", lsi_number_bool("", &value), "empty");
    check_reason("2", lsi_number_bool("2", &value), "not one of");
    check_reason("true ", lsi_number_bool("true ", &value), "not one of");
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    lsi_text text = {0};

    for (uint32_t i = 0; i < 20000; i++) {
        lsi_random4 r = lsi_random_philox(7, i, 0, 0, 0);
        uint64_t bits = (uint64_t)r.v[0] << 32 | r.v[1];
        double real, back;
        memcpy(&real, &bits, sizeof real);
        real = i % 2 == 0 ? real : (double)(int32_t)r.v[2] / (double)(1 + r.v[3] % 7200);
        if (!isfinite(real)) {
            continue;
        }
        lsi_text_clear(&text);
        lsi_number_append_real(&text, real);
        assert_null(lsi_number_real(text.data, &back));
        assert_true(back == real);
        lsi_text_clear(&text);
        lsi_number_append_duration(&text, real);
        assert_null(lsi_number_duration(text.data, &back));
        assert_true(back == real);

        int64_t size = (int64_t)bits >> r.v[2] % 64, size_back;
        size &= ~(((int64_t)1 << r.v[3] % 50) - 1);
        lsi_text_clear(&text);
        lsi_number_append_size(&text, size);
        assert_null(lsi_number_size(text.data, &size_back));
        assert_int_equal(size, size_back);
    }
    lsi_text_free(&text);
}

static void check_written(const char *(*write)(lsi_text *), const char *expected)
{
    lsi_text text = {0};

    (void)write(&text);
    assert_string_equal(text.data, expected);
    lsi_text_free(&text);
}

#define WRITES(name, call)                          \
    static const char *name(lsi_text *text)         \
    {                                               \
        call;                                       \
        return text->data;                          \
    }
WRITES(thousandth, lsi_number_append_real(text, 1e-3))
WRITES(third, lsi_number_append_real(text, 1.0 / 3))
WRITES(bucket, lsi_number_append_size(text, 25 << 20))
WRITES(no_bytes, lsi_number_append_size(text, 0))
WRITES(ten_minutes, lsi_number_append_duration(text, 600))
WRITES(a_day, lsi_number_append_duration(text, 86400))
WRITES(half_second, lsi_number_append_duration(text, 0.5))
WRITES(half_gib, lsi_number_append_bytes_human(text, 1.5 * (1 << 30)))
WRITES(almost_kib, lsi_number_append_bytes_human(text, 1023))
WRITES(almost_mib, lsi_number_append_bytes_human(text, 1048575))
WRITES(millis, lsi_number_append_seconds_human(text, 0.0123))
WRITES(seconds, lsi_number_append_seconds_human(text, 12.34))
WRITES(a_minute, lsi_number_append_seconds_human(text, 59.96))
WRITES(minutes, lsi_number_append_seconds_human(text, 245))
WRITES(an_hour, lsi_number_append_seconds_human(text, 3599.9))

static void numbers_are_written_for_people(void **state)
{
    (void)state;
    check_written(thousandth, "0.001");
    check_written(third, "0.3333333333333333");
    check_written(bucket, "25M");
    check_written(no_bytes, "0");
    check_written(ten_minutes, "10m");
    check_written(a_day, "24h");
    check_written(half_second, "0.5s");
    check_written(half_gib, "1.5 GiB");
    check_written(almost_kib, "1023 B");
    check_written(almost_mib, "1.0 MiB");
    check_written(millis, "12.3 ms");
    check_written(seconds, "12.3 s");
    check_written(a_minute, "1 min 00 s");
    check_written(minutes, "4 min 05 s");
    check_written(an_hour, "1 h 00 min");
}

/* Where no locale with a comma is installed there is nothing to check against. */
static void the_locale_changes_nothing(void **state)
{
    (void)state;
    static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8"};
    const char *set = NULL;

    for (size_t i = 0; set == NULL && i < sizeof comma / sizeof comma[0]; i++) {
        set = setlocale(LC_ALL, comma[i]);
    }
    if (set == NULL) {
        skip();
    }
    reals_are_read_strictly(NULL);
    what_is_written_is_read_back(NULL);
    numbers_are_written_for_people(NULL);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_are_read_strictly),
        cmocka_unit_test(durations_are_read_strictly),
        cmocka_unit_test(integers_are_read_strictly),
        cmocka_unit_test(sizes_are_read_strictly),
        cmocka_unit_test(booleans_are_read_strictly),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(numbers_are_written_for_people),
        cmocka_unit_test(the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
