/* RUN: */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/datasets.h"
#include "support/data_file.h"

/* Fails unless the windows are `bytes` in order: every byte but the first a target exactly once, the rest ignored. */
static void check_windows(const ls_dataset *data, const unsigned char *bytes, int64_t n, int64_t context)
{
    int32_t *input = malloc((size_t)context * sizeof *input), *targets = malloc((size_t)context * sizeof *targets);
    int64_t seen = 0;

    assert_true(input != NULL && targets != NULL);
    assert_int_equal(data->input_dtype, LS_I32);
    assert_int_equal(data->input_shape.dim[0], context);
    assert_int_equal(data->target_count, context);
    for (int64_t k = 0; k < data->n_samples; k++) {
        CHECK_OK(data->ops->read(data, k, input, targets));
        for (int64_t i = 0; i < context; i++) {
            int64_t at = k * context + i;
            bool inside = at + 1 < n;

            assert_int_equal(input[i], inside ? bytes[at] : 0);
            assert_int_equal(targets[i], inside ? bytes[at + 1] : LS_TARGET_IGNORED);
            seen += inside;
        }
        assert_int_not_equal(targets[0], LS_TARGET_IGNORED);        /* no window is all padding */
    }
    assert_int_equal(seen, n - 1);
    free(input);
    free(targets);
}

static void every_byte_is_a_target_once(void **state)
{
    unsigned char bytes[70];
    (void)state;

    for (int i = 0; i < 70; i++) {
        bytes[i] = (unsigned char)(255 - i * 41);
    }
    for (int64_t n = 2; n <= 70; n++) {
        const char *path = n % 2 ? data_file_write("t", bytes, (size_t)n) : data_file_write_gzip("t", bytes, (size_t)n);

        for (int64_t context = 1; context <= 80; context += n % 5 + 1) {
            ls_dataset *data;

            CHECK_OK(lsi_dataset_text(path, context, 0, &data));
            assert_int_equal(data->n_classes, 256);
            check_windows(data, bytes, n, context);
            lsi_dataset_close(&data);
        }
    }
}

static void bytes_above_a_smaller_vocabulary(void **state)
{
    int32_t input[4], targets[4];
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_text(data_file_write("t", "abcdabcdz", 9), 4, 'e', &data));
    assert_int_equal(data->n_classes, 'e');
    CHECK_OK(data->ops->read(data, 0, input, targets));
    CHECK_FAILS(data->ops->read(data, 1, input, targets), LS_ERR_DATA,
                "/t: token id 122 at byte 8 is not below the vocabulary of 101");
    lsi_dataset_close(&data);
}

static void files_that_are_no_text(void **state)
{
    ls_dataset *data;
    (void)state;

    CHECK_FAILS(lsi_dataset_text(data_file_write("t", "", 0), 4, 0, &data), LS_ERR_DATA, "/t: holds 0 bytes");
    CHECK_FAILS(lsi_dataset_text(data_file_write("t", "a", 1), 4, 0, &data), LS_ERR_DATA, "/t: holds 1 bytes");
    CHECK_FAILS(lsi_dataset_text(data_file_path("none"), 4, 0, &data), LS_ERR_DATA, "/none: cannot open: No such");
    assert_int_equal(mkdir(data_file_path("folder"), 0700), 0);
    CHECK_FAILS(lsi_dataset_text(data_file_path("folder"), 4, 0, &data), LS_ERR_DATA, "/folder: is a directory");
    CHECK_FAILS(lsi_dataset_text(data_file_write("t", "\x1f\x8b\x08 not really", 14), 4, 0, &data), LS_ERR_DATA,
                "/t: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_byte_is_a_target_once, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(bytes_above_a_smaller_vocabulary, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(files_that_are_no_text, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
