/* RUN: */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static void appending_equals_concatenation(void **state)
{
    (void)state;
    lsi_text text = {0};
    static char expected[20000];
    size_t n = 0;

    for (int i = 0; i < 300; i++) {
        char piece[128];
        int length = snprintf(piece, sizeof piece, "%*d|", i % 97, i);
        memcpy(expected + n, piece, (size_t)length);
        n += (size_t)length;
        if (i % 2 == 0) {
            lsi_text_append(&text, "%*d|", i % 97, i);
        } else {
            lsi_text_append_bytes(&text, piece, (size_t)length);
        }
        assert_int_equal(text.length, n);
        assert_int_equal(text.data[n], '\0');
    }
    CHECK_OK(lsi_text_status(&text));
    assert_memory_equal(text.data, expected, n);
    lsi_text_clear(&text);
    assert_string_equal(text.data, "");
    lsi_text_append(&text, "%s", "again");
    assert_string_equal(text.data, "again");
    lsi_text_free(&text);
    assert_null(text.data);
    test_check_no_memory_live();
}

static void nothing_appended_is_an_empty_text(void **state)
{
    (void)state;
    lsi_text text = {0};

    CHECK_OK(lsi_text_status(&text));
    lsi_text_append_bytes(&text, NULL, 0);
    assert_string_equal(text.data, "");
    lsi_text_free(&text);
    test_check_no_memory_live();
}

static void the_first_failure_stays_and_the_text_is_readable(void **state)
{
    (void)state;
    for (long k = 1; k <= 4; k++) {
        lsi_text text = {0};
        lsi_memory_fail_at(k);
        for (int i = 0; i < 2000; i++) {
            lsi_text_append(&text, "0123456789");
        }
        CHECK_FAILS(lsi_text_status(&text), LS_ERR_MEMORY, "out of memory");
        assert_int_equal(strlen(text.data), text.length);
        assert_int_equal(text.length % 10, 0);
        lsi_text_free(&text);
        test_check_no_memory_live();
    }
}

static void a_text_without_end_is_an_error(void **state)
{
    (void)state;
    lsi_text text = {0};
    char piece[4096];

    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < (65 << 20) / 4096; i++) {
        lsi_text_append_bytes(&text, piece, sizeof piece);
    }
    CHECK_FAILS(lsi_text_status(&text), LS_ERR_INTERNAL, "grew beyond");
    lsi_text_free(&text);
}

static void the_nearest_name_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {"steps", "epochs", "global_batch", "micro_batch", "lanes", "seed", "lr"};
    enum { N = sizeof names / sizeof names[0] };
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"step", "steps"}, {"globalbatch", "global_batch"}, {"micro_bathc", "micro_batch"}, {"lane", "lanes"},
        {"sed", "seed"}, {"learning_rate", NULL}, {"zz", NULL}, {"", NULL}, {"lr", "lr"}, {"r", "lr"},
        {"a_word_of_more_than_sixty_four_characters_that_nobody_would_type_here", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *nearest = lsi_text_nearest(cases[i].word, names, N);
        if ((nearest == NULL) != (cases[i].nearest == NULL) || (nearest && strcmp(nearest, cases[i].nearest) != 0)) {
            fail_msg("'%s' gives %s", cases[i].word, nearest ? nearest : "nothing");
        }
    }
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(lsi_text_nearest(names[i], names, N), names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_equals_concatenation),
        cmocka_unit_test(nothing_appended_is_an_empty_text),
        cmocka_unit_test(the_first_failure_stays_and_the_text_is_readable),
        cmocka_unit_test(a_text_without_end_is_an_error),
        cmocka_unit_test(the_nearest_name_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
