#include "base/number.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---------------------------------------------------------------------------------------------- */

/* Where reasons that quote the text are built. */
static _Thread_local char reason[96];

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *text)
{
    while (is_digit(*text)) {
        text++;
    }
    return text;
}

/* Reads an integer at the front of `text`; *end is where it ends, `text` itself when there is none. */
static const char *read_int(const char *text, int64_t *out, const char **end)
{
    bool negative = *text == '-';
    const char *p = text + (negative || *text == '+');
    uint64_t limit = (uint64_t)INT64_MAX + negative, value = 0;

    *end = text;
    if (p[0] == '2' && p[1] == '^' && is_digit(p[2]) && p == text) {
        *end = skip_digits(p + 2);
        unsigned long n = strtoul(p + 2, NULL, 10);
        if (n > 62) {
            return "too large";
        }
        *out = (int64_t)1 << n;
        return NULL;
    }
    if (!is_digit(*p)) {
        return *text == '\0' ? "empty" : "not a whole number";
    }
    for (; is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value > (limit - digit) / 10) {
            return "too large";
        }
        value = value * 10 + digit;
    }
    *end = p;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return NULL;
}

const char *lsi_number_int(const char *text, int64_t *out)
{
    const char *end;
    int64_t value = 0;
    const char *why = read_int(text, &value, &end);

    if (why != NULL) {
        return why;
    }
    if (*end != '\0') {
        return "not a whole number";
    }
    *out = value;
    return NULL;
}

const char *lsi_number_size(const char *text, int64_t *out)
{
    static const char units[] = "kMGT";
    const char *end;
    int64_t value = 0;
    const char *why = read_int(text, &value, &end);

    if (why != NULL) {
        return why;
    }
    if (*end != '\0') {
        const char *unit = strchr(units, *end);
        if (unit == NULL || end[1] != '\0') {
            return "not a size: a whole number of bytes, or one with k, M, G or T";
        }
        int64_t factor = (int64_t)1 << (10 * (unit - units + 1));
        if (value > INT64_MAX / factor || value < INT64_MIN / factor) {
            return "too large";
        }
        value *= factor;
    }
    *out = value;
    return NULL;
}

/* The end of a decimal number such as -1.5e-3 at the front of `text`; `text` itself when there is none. strtod alone
 * would take hex, nan, inf and leading blanks. */
static const char *scan_real(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    const char *whole = p;

    p = skip_digits(p);
    ptrdiff_t n_digits = p - whole;
    if (*p == '.') {
        const char *fraction = p + 1;
        p = skip_digits(fraction);
        n_digits += p - fraction;
    }
    if (n_digits == 0) {
        return text;
    }
    if (*p == 'e' || *p == 'E') {
        const char *exponent = p + 1 + (p[1] == '-' || p[1] == '+');
        if (is_digit(*exponent)) {
            p = skip_digits(exponent);
        }
    }
    return p;
}

/* Why a real number does not go on with what stands at `end`. */
static const char *explain_real(const char *text, const char *end)
{
    if (*end == ',') {
        char fixed[40];
        int n = snprintf(fixed, sizeof fixed, "%s", text);
        char *comma = strchr(fixed, ',');
        if (n < (int)sizeof fixed && comma != NULL) {
            *comma = '.';
            if (*scan_real(fixed) == '\0') {
                snprintf(reason, sizeof reason, "use a point: %s", fixed);
                return reason;
            }
        }
    }
    if (end == text) {
        const char *word = text + (*text == '-' || *text == '+');
        if (strncasecmp(word, "nan", 3) == 0 || strncasecmp(word, "inf", 3) == 0) {
            return "not a finite number";
        }
        return *text == '\0' ? "empty" : "not a number";
    }
    snprintf(reason, sizeof reason, "unexpected '%.40s' behind the number", end);
    return reason;
}

/* The number between `text` and `end`, which scan_real accepted. */
static const char *convert_real(const char *text, const char *end, double *out)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    if (c_locale == (locale_t)0) {
        return "not readable: no memory";
    }
    double value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    if (isinf(value)) {
        return "too large";
    }
    if (value == 0) {
        for (const char *p = text; p < end && *p != 'e' && *p != 'E'; p++) {
            if (*p >= '1' && *p <= '9') {
                return "too small";
            }
        }
    }
    *out = value;
    return NULL;
}

static const char *read_real(const char *text, double *out, const char **end)
{
    if (text[0] == '2' && text[1] == '^' && is_digit(text[2 + (text[2] == '-')])) {
        const char *digits = text + 2 + (text[2] == '-');
        unsigned long n = strtoul(digits, NULL, 10);
        *end = skip_digits(digits);
        if (n > 1022) {
            return digits > text + 2 ? "too small" : "too large";
        }
        *out = ldexp(1.0, digits > text + 2 ? -(int)n : (int)n);
        return NULL;
    }
    *end = scan_real(text);
    return *end == text ? explain_real(text, text) : convert_real(text, *end, out);
}

const char *lsi_number_real(const char *text, double *out)
{
    const char *end;
    double value = 0;
    const char *why = read_real(text, &value, &end);

    if (why != NULL) {
        return why;
    }
    if (*end != '\0') {
        return explain_real(text, end);
    }
    *out = value;
    return NULL;
}

const char *lsi_number_duration(const char *text, double *out)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"ms", 1e-3}};
    const char *end;
    double value = 0;
    const char *why = read_real(text, &value, &end);

    if (why != NULL) {
        return why;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) == 0) {
            if (isinf(value * units[i].seconds)) {
                return "too large";
            }
            *out = value * units[i].seconds;
            return NULL;
        }
    }
    return *end == ',' ? explain_real(text, end) : "not a duration: seconds, or a number with ms, s, m or h";
}

const char *lsi_number_bool(const char *text, bool *out)
{
    static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i % 2 == 1;
            return NULL;
        }
    }
    return *text == '\0' ? "empty" : "not one of true, false, yes, no, on, off, 1, 0";
}

/* ---- writing ---------------------------------------------------------------------------------------------- */

/* Prints with printf's `%.*g` or `%.*f` (letter), and a point whatever the locale says. */
static void print_real(char *out, size_t room, char letter, int precision, double value)
{
    char *point = out;

    snprintf(out, room, letter == 'f' ? "%.*f" : "%.*g", precision, value);
    for (char *p = out; *p != '\0'; p++) {
        if (isascii((unsigned char)*p) && (isalnum((unsigned char)*p) || *p == '-' || *p == '+')) {
            *point++ = *p;
        } else if (point == out || point[-1] != '.') {     /* a separator may have several bytes */
            *point++ = '.';
        }
    }
    *point = '\0';
}

void lsi_number_append_real(lsi_text *text, double value)
{
    char digits[64];

    if (value == trunc(value) && fabs(value) < 1e15) {
        print_real(digits, sizeof digits, 'f', 0, value);   /* 10, not 1e+01 */
    } else {
        double back = 0;
        for (int precision = 1; precision <= 17; precision++) {
            print_real(digits, sizeof digits, 'g', precision, value);
            if (lsi_number_real(digits, &back) == NULL && back == value) {
                break;
            }
        }
    }
    lsi_text_append(text, "%s", digits);
}

void lsi_number_append_size(lsi_text *text, int64_t bytes)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;

    while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    lsi_text_append(text, "%lld%s", (long long)bytes, units[unit]);
}

void lsi_number_append_duration(lsi_text *text, double seconds)
{
    double divisor = 1;
    const char *unit = "s";

    /* Only where nothing is lost. */
    if (seconds != 0 && fmod(seconds, 3600) == 0) {
        divisor = 3600;
        unit = "h";
    } else if (seconds != 0 && fmod(seconds, 60) == 0) {
        divisor = 60;
        unit = "m";
    }
    if (seconds / divisor * divisor != seconds) {
        divisor = 1;
        unit = "s";
    }
    lsi_number_append_real(text, seconds / divisor);
    lsi_text_append(text, "%s", unit);
}

void lsi_number_append_bytes_human(lsi_text *text, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    char digits[400];
    int unit = 0;

    /* 1023.95 would be shown as 1024.0. */
    while (unit < 5 && bytes >= (unit == 0 ? 1023.5 : 1023.95)) {
        bytes /= 1024;
        unit++;
    }
    print_real(digits, sizeof digits, 'f', unit == 0 ? 0 : 1, bytes);
    lsi_text_append(text, "%s %s", digits, units[unit]);
}

void lsi_number_append_seconds_human(lsi_text *text, double seconds)
{
    char digits[400];

    if (!(seconds >= 59.95 && seconds < 1e15)) {
        bool millis = seconds < 0.09995;
        print_real(digits, sizeof digits, 'f', 1, millis ? seconds * 1e3 : seconds);
        lsi_text_append(text, "%s %s", digits, millis ? "ms" : "s");
        return;
    }
    long long whole = llround(seconds);
    if (whole < 3600) {
        lsi_text_append(text, "%lld min %02lld s", whole / 60, whole % 60);
    } else {
        whole = llround(seconds / 60);
        lsi_text_append(text, "%lld h %02lld min", whole / 60, whole % 60);
    }
}
