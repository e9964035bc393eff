#include "train/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

/* Takes the text up to `stop` off *rest. */
static bool take_until(char **rest, char stop, char **out)
{
    char *end = strchr(*rest, stop);

    if (end == NULL) {
        return false;
    }
    *end = '\0';
    *out = *rest;
    *rest = end + 1;
    return true;
}

static ls_status parse_one(const char *text, lsi_fault *out)
{
    char copy[128], *rest = copy, *kind, *rank, *step = NULL;
    lsi_fault fault = {.slot = -1};
    int64_t number = 0;

    LS_REQUIRE(strlen(text) < sizeof copy, LS_ERR_CONFIG, "fault.inject: '%s' is too long", text);
    strcpy(copy, text);
    bool ok = take_until(&rest, '@', &kind) && take_until(&rest, ':', &rank);
    bool has_argument = ok && take_until(&rest, ':', &step);

    step = has_argument ? step : rest;
    ok = ok && lsi_number_int(rank, &number) == NULL && number >= 0 && number < INT32_MAX;
    fault.rank = (int)number;
    ok = ok && lsi_number_int(step, &fault.step) == NULL && fault.step >= 1;
    if (ok && has_argument) {
        fault.in_loss = strcmp(rest, "loss") == 0;
        ok = fault.in_loss || (lsi_number_int(rest, &fault.slot) == NULL && fault.slot >= 0);
    }
    if (ok && strcmp(kind, "inf") == 0) {
        fault.value = INFINITY;
    } else if (ok && strcmp(kind, "nan") == 0) {
        fault.value = NAN;
    } else {
        return LS_FAIL(LS_ERR_CONFIG,
                       "fault.inject: '%s' is not kind@rank:step[:arg] with kind inf or nan, step from 1, arg a "
                       "slot or loss",
                       text);
    }
    *out = fault;
    return LS_OK;
}

ls_status lsi_faults_parse(const char *text, lsi_faults *out)
{
    const char *allowed = getenv("LOCKSTEP_ALLOW_FAULTS");
    char copy[2048], *rest = copy, *item;

    out->n = 0;
    if (text[0] == '\0') {
        return LS_OK;
    }
    LS_REQUIRE(
        allowed != NULL && strcmp(allowed, "1") == 0, LS_ERR_CONFIG,
        "fault.inject is for tests; set LOCKSTEP_ALLOW_FAULTS=1 in the environment of every process to allow it");
    LS_REQUIRE(strlen(text) < sizeof copy, LS_ERR_CONFIG, "fault.inject is longer than %zu characters",
               sizeof copy - 1);
    strcpy(copy, text);
    while ((item = strsep(&rest, ",")) != NULL) {
        item = lsi_text_trim(item);
        LS_REQUIRE(out->n < LSI_FAULT_MAX, LS_ERR_CONFIG, "fault.inject lists more than %d faults", LSI_FAULT_MAX);
        LS_TRY(parse_one(item, &out->fault[out->n]));
        out->n++;
    }
    return LS_OK;
}
