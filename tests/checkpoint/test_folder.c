/* RUN: */
/* Names of checkpoints, and the list of them. */
#include "support/test.h"

#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "checkpoint/folder.h"
#include "support/data_file.h"

static void names_and_steps(void **state)
{
    static const int64_t steps[] = {0, 1, 100, 99999999, 100000000, 123456789012, INT64_MAX};
    static const char *const others[] = {"",
                                         "step-",
                                         "step-1",
                                         "step-000000100",
                                         "step-0000010",
                                         "best",
                                         "step-00000100x",
                                         "step-00000100.tmp-7",
                                         "Step-00000100",
                                         "step-+0000100",
                                         "step- 0000100",
                                         "step--0000100",
                                         "step-99999999999999999999"};
    char name[32];
    (void)state;

    lsi_folder_name(100, name);
    assert_string_equal(name, "step-00000100");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        lsi_folder_name(steps[i], name);
        assert_true(lsi_folder_step(name) == steps[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(lsi_folder_step(others[i]), -1);
    }
}

static void newest_first(void **state)
{
    int64_t *steps;
    char *path;
    int n;
    (void)state;

    CHECK_OK(lsi_folder_list(data_file_path("none"), &steps, &n));
    assert_int_equal(n, 0);
    assert_null(steps);
    for (int64_t step = 1; step <= 40; step++) {
        CHECK_OK(lsi_folder_path(data_file_path(""), step * 37 % 41, &path));
        assert_int_equal(mkdir(path, 0777), 0);
        lsi_memory_free(path);
    }
    data_file_write("step-00000100.tmp-7", "", 0);
    data_file_write("best", "", 0);
    CHECK_OK(lsi_folder_list(data_file_path(""), &steps, &n));
    assert_int_equal(n, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(steps[i], 40 - i);
    }
    lsi_memory_free(steps);
    CHECK_FAILS(lsi_folder_list(data_file_path("best"), &steps, &n), LS_ERR_CHECKPOINT, "best: cannot read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_steps),
        cmocka_unit_test_setup_teardown(newest_first, data_file_setup, data_file_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
