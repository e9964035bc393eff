/* RUN: timeout=30 */
/* Plan files: written and read back, one hash for what can change bits, and every damage refused by name. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/tuning.h"

static lsi_tuned entry_of(int64_t m, int epilogue, double microseconds)
{
    lsi_tuned e = {.shape = {.m = m, .n = 16, .k = 24, .trans_b = 1, .factors = LS_BF16, .c = LS_BF16, .bias = 1}};

    e.shape.epilogue = epilogue;
    e.shape.aligned = 1;
    for (int i = 0; i < LSI_GEMM_N_SETTINGS; i++) {
        e.settings.value[i] = 100 * m + i;
    }
    e.microseconds = microseconds;
    return e;
}

static lsi_tuning plan_of(const lsi_tuned *entry, int n)
{
    lsi_tuning t = {.n = n};

    CHECK_OK(lsi_memory_strdup("a \"GPU\", 108 SMs, sm080", &t.device));
    CHECK_OK(lsi_memory_strdup("cuBLASLt 13.0.0", &t.library));
    CHECK_OK(lsi_memory_alloc((size_t)n * sizeof *entry + 1, "entries", (void **)&t.entry));
    memcpy(t.entry, entry, (size_t)n * sizeof *entry);
    CHECK_OK(lsi_tuning_seal(&t));
    return t;
}

static void reads_what_it_writes(void **unused)
{
    const lsi_tuned entry[] = {entry_of(8, LSI_GEMM_PLAIN, 1.25), entry_of(8, LSI_GEMM_GELU, 0.1),
                               entry_of(9, LSI_GEMM_GELU_BWD, 1e6)};
    lsi_text text = {0}, again = {0};
    lsi_tuning t = plan_of(entry, 3), back;

    (void)unused;
    CHECK_OK(lsi_tuning_print(&t, &text));
    CHECK_OK(lsi_tuning_parse("plan", text.data, text.length, &back));
    assert_string_equal(back.device, t.device);
    assert_string_equal(back.library, t.library);
    assert_string_equal(back.hash, t.hash);
    assert_int_equal(back.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(&back.entry[i], &entry[i], sizeof entry[i]);
        assert_ptr_equal(lsi_tuning_find(&back, &entry[i].shape), &back.entry[i]);
    }
    CHECK_OK(lsi_tuning_print(&back, &again));
    assert_string_equal(again.data, text.data);
    lsi_gemm_shape other = entry[0].shape;
    other.tf32 = 1;
    assert_null(lsi_tuning_find(&back, &other));
    lsi_text_free(&again);
    lsi_text_free(&text);
    lsi_tuning_free(&back);
    lsi_tuning_free(&t);
    test_check_no_memory_live();
}

/* Times may differ from tuning to tuning, and change no bit; everything else counts. */
static void hash_is_of_what_changes_bits(void **unused)
{
    lsi_tuned entry = entry_of(8, LSI_GEMM_PLAIN, 1.25);
    lsi_tuning t = plan_of(&entry, 1), slower, other, shape;

    (void)unused;
    entry.microseconds = 2;
    slower = plan_of(&entry, 1);
    assert_string_equal(t.hash, slower.hash);
    for (int i = 0; i < LSI_GEMM_N_SETTINGS; i++) {
        lsi_tuned changed = entry;

        changed.settings.value[i]++;
        other = plan_of(&changed, 1);
        assert_string_not_equal(t.hash, other.hash);
        lsi_tuning_free(&other);
    }
    entry.shape.bias = 0;
    shape = plan_of(&entry, 1);
    assert_string_not_equal(t.hash, shape.hash);
    lsi_tuning_free(&shape);
    lsi_tuning_free(&slower);
    lsi_tuning_free(&t);
}

/* The text with its first `from` replaced by `to`; free() it. */
static char *changed(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = malloc(strlen(text) + strlen(to) + 1);

    assert_non_null(at);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static void refuse(const char *text, const char *part)
{
    lsi_tuning out;

    CHECK_FAILS(lsi_tuning_parse("the/plan", text, strlen(text), &out), LS_ERR_CONFIG, part);
    CHECK_FAILS(LS_ERR_CONFIG, LS_ERR_CONFIG, "the/plan");
    assert_null(out.entry);
}

static void damage_is_refused(void **unused)
{
    static const struct {
        const char *from, *to, *part;
    } cases[] = {
        {"{\"lockstep_gemm_plan\": 1", "[{\"lockstep_gemm_plan\": 1", "not a plan"},
        {"\"lockstep_gemm_plan\": 1", "\"lockstep_gemm_plan\": 2", "format 2; this build reads 1"},
        {"\"lockstep_gemm_plan\": 1", "\"lockstep_gemm_plan\": \"1\"", "not a plan"},
        {"\"lockstep_gemm_plan\"", "\"other\"", "not a plan"},
        {"\"device\"", "\"devices\"", "'device' is no text"},
        {"\"library\": \"cuBLASLt 13.0.0\"", "\"library\": 13", "'library' is no text"},
        {"\"products\": [", "\"products\": 7, \"rest\": [", "'products' is no list"},
        {"\"m\": 8", "\"m\": 0", "product 1: 'm' is no whole number"},
        {"\"m\": 8", "\"m\": 8.5", "product 1: 'm'"},
        {"\"m\": 8", "\"m\": 99999999999999999999", "not a plan"},
        {"\"k\": 24", "\"k\": -1", "'k'"},
        {"\"transpose_a\": false", "\"transpose_a\": 0", "'transpose_a' is neither"},
        {"\"factors\": \"bf16\"", "\"factors\": \"f64\"", "'factors' is none of"},
        {"\"result\": \"bf16\"", "\"result\": 3", "'result' is none of"},
        {"\"epilogue\": \"none\"", "\"epilogue\": \"relu\"", "'epilogue' is none of"},
        {"\"algorithm\": {", "\"algorithm\": 3, \"x\": {", "'algorithm' is no object"},
        {"\"tile\": ", "\"tiles\": ", "'tile' is no whole number"},
        {"\"id\": ", "\"id\": -", "'id' is no whole number of at least 0"},
        {"\"microseconds\": 1.25", "\"microseconds\": \"fast\"", "'microseconds' is no time"},
        {"\"microseconds\": 1.25", "\"microseconds\": -1", "'microseconds' is no time"},
        {"\"m\": 9", "\"m\": 8", "is there twice"},
        {"\"m\": 8", "\"m\": 8, \"m\": 8", "not a plan"},
    };
    const lsi_tuned entry[] = {entry_of(8, LSI_GEMM_PLAIN, 1.25), entry_of(9, LSI_GEMM_PLAIN, 3)};
    lsi_tuning t = plan_of(entry, 2);
    lsi_text text = {0};

    (void)unused;
    CHECK_OK(lsi_tuning_print(&t, &text));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *damaged = changed(text.data, cases[i].from, cases[i].to);

        refuse(damaged, cases[i].part);
        free(damaged);
    }
    for (size_t n = 0; n + 2 < text.length; n += 7) { /* cut anywhere */
        char *cut = strndup(text.data, n);

        refuse(cut, "");
        free(cut);
    }
    lsi_text_free(&text);
    lsi_tuning_free(&t);
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_writes),
        cmocka_unit_test(hash_is_of_what_changes_bits),
        cmocka_unit_test(damage_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
