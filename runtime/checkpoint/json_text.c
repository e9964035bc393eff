#include "checkpoint/json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status lsi_json_text_string(lsi_text *out, const char *what, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;

    json_decref(string);
    LS_REQUIRE(quoted != NULL, LS_ERR_CHECKPOINT, "%s '%.80s' is not UTF-8 text: no file can keep it", what, text);
    lsi_text_append_bytes(out, quoted, strlen(quoted));
    free(quoted);
    return LS_OK;
}

static void append_real(lsi_text *out, double value, int digits)
{
    char buffer[48];
    bool whole = true;

    if (!isfinite(value)) {
        lsi_text_append(out, "%s", isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    for (char *at = buffer; *at != '\0'; at++) {
        if (strchr("0123456789-", *at) == NULL) {
            whole = false;
        }
        if (strchr("0123456789-+e", *at) == NULL) {
            *at = '.'; /* the locale's mark: the program keeps to the C locale, one byte */
        }
    }
    /* -0 would be read as a whole number, which has no sign to lose. */
    lsi_text_append(out, "%s%s", buffer, whole ? ".0" : "");
}

void lsi_json_text_double(lsi_text *out, double value)
{
    append_real(out, value, 17);
}

void lsi_json_text_float(lsi_text *out, float value)
{
    append_real(out, (double)value, 9);
}

bool lsi_json_text_real(const json_t *value, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};

    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    for (size_t i = 0; json_is_string(value) && i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].text, json_string_value(value)) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}
