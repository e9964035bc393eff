/* RUN: */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/datasets.h"
#include "support/data_file.h"

static const int64_t image_dims[3] = {5, 2, 3}, label_dims[1] = {5};
static const unsigned char label_values[5] = {3, 0, 9, 2, 4};
static unsigned char pixels[30];

static void fill_pixels(void)
{
    for (int i = 0; i < 30; i++) {
        pixels[i] = (unsigned char)(i * 67 + 13);
    }
    pixels[7] = 255;
    pixels[8] = 0;
}

static const char *write_images(const char *name, bool gzip)
{
    fill_pixels();
    return data_file_write_idx(name, gzip, 3, image_dims, pixels);
}

static const char *write_labels(const char *name, bool gzip)
{
    return data_file_write_idx(name, gzip, 1, label_dims, label_values);
}

static void check_samples(const ls_dataset *data)
{
    float input[6];
    int32_t target;

    assert_int_equal(data->n_samples, 5);
    assert_int_equal(data->input_dtype, LS_F32);
    assert_int_equal(data->input_shape.rank, 1);
    assert_int_equal(data->input_shape.dim[0], 6);
    assert_int_equal(data->target_count, 1);
    assert_non_null(strstr(data->description, "5 samples of 6 pixels"));
    for (int64_t i = 0; i < 5; i++) {
        CHECK_OK(data->ops->read(data, i, input, &target));
        assert_int_equal(target, label_values[i]);
        for (int64_t j = 0; j < 6; j++) {
            assert_true(input[j] == (float)pixels[i * 6 + j] / 255.0f);
        }
    }
}

static void plain_and_gzip_give_the_same(void **state)
{
    (void)state;
    for (int gzip = 0; gzip < 4; gzip++) {
        ls_dataset *data;

        CHECK_OK(lsi_dataset_idx(write_images("x", gzip & 1), write_labels("y", gzip & 2), 0, &data));
        assert_int_equal(data->n_classes, 10);      /* 1 + the largest label */
        check_samples(data);
        lsi_dataset_close(&data);
        assert_null(data);
    }
}

static void given_classes_win(void **state)
{
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_idx(write_images("x", false), write_labels("y", false), 12, &data));
    assert_int_equal(data->n_classes, 12);
    lsi_dataset_close(&data);
    CHECK_FAILS(lsi_dataset_idx(data_file_path("x"), data_file_path("y"), 9, &data), LS_ERR_DATA,
                "/y: label 9 of sample 2 is not below the number of classes, 9");
}

static void labels_must_be_named(void **state)
{
    ls_dataset *data;
    (void)state;

    CHECK_FAILS(lsi_dataset_idx(write_images("pictures", false), "", 0, &data), LS_ERR_DATA,
                "/pictures: has no 'images-idx3' in its name");
    assert_non_null(strstr(ls_failure_message(), "set data.labels"));
}

static void any_rank_of_images_is_flattened(void **state)
{
    static const int64_t dims[5] = {5, 1, 3, 1, 2};
    ls_dataset *data;
    float value;
    int32_t target;
    (void)state;

    fill_pixels();
    CHECK_OK(lsi_dataset_idx(data_file_write_idx("x", false, 5, dims, pixels), write_labels("y", false), 0, &data));
    check_samples(data);
    lsi_dataset_close(&data);
    CHECK_OK(lsi_dataset_idx(data_file_write_idx("x", false, 1, dims, pixels), data_file_path("y"), 0, &data));
    assert_int_equal(data->input_shape.dim[0], 1);
    CHECK_OK(data->ops->read(data, 4, &value, &target));
    assert_true(value == (float)pixels[4] / 255.0f);
    lsi_dataset_close(&data);
}

static void files_that_cannot_be_read(void **state)
{
    ls_dataset *data;
    const char *labels = write_labels("y", false);
    (void)state;

    CHECK_FAILS(lsi_dataset_idx(data_file_path("none"), labels, 0, &data), LS_ERR_DATA, "/none: cannot open: No such");
    assert_int_equal(mkdir(data_file_path("folder"), 0700), 0);
    CHECK_FAILS(lsi_dataset_idx(data_file_path("folder"), labels, 0, &data), LS_ERR_DATA, "/folder: is a directory");
    CHECK_FAILS(lsi_dataset_idx(write_images("x", false), data_file_path("folder"), 0, &data), LS_ERR_DATA,
                "/folder: is a directory");
    if (geteuid() == 0) {
        assert_int_equal(seteuid(65534), 0);
    } else {
        assert_int_equal(chmod(data_file_path("x"), 0), 0);
    }
    ls_status status = lsi_dataset_idx(data_file_path("x"), labels, 0, &data);

    assert_int_equal(seteuid(getuid()), 0);
    CHECK_FAILS(status, LS_ERR_DATA, "/x: cannot open: Permission denied");
}

/* Writes `size` bytes of the image file with one byte changed, and expects the message. */
static void check_damage(size_t size, size_t at, unsigned char byte, const char *message)
{
    unsigned char file[64] = {0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 3};
    ls_dataset *data;

    if (at < sizeof file) {
        file[at] = byte;
    }
    CHECK_FAILS(lsi_dataset_idx(data_file_write("x", file, size), data_file_path("y"), 0, &data), LS_ERR_DATA, message);
    if (size > 1) {
        CHECK_FAILS(lsi_dataset_idx(data_file_write_gzip("x", file, size), data_file_path("y"), 0, &data), LS_ERR_DATA,
                    message);
    }
}

static void damaged_images(void **state)
{
    const size_t whole = 16 + 30, nowhere = 99;
    (void)state;

    write_labels("y", false);
    check_damage(0, nowhere, 0, "/x: empty, expected IDX images");
    check_damage(3, nowhere, 0, "/x: truncated: 3 bytes, expected IDX images");
    check_damage(9, nowhere, 0, "/x: truncated: 9 bytes, expected at least 16 of header");
    check_damage(whole - 1, nowhere, 0, "/x: truncated: 45 bytes, expected 46 for 5 images of 6 bytes");
    check_damage(whole + 1, nowhere, 0, "/x: too long: 47 bytes, expected 46 for 5 images of 6 bytes");
    check_damage(whole, 1, 7, "/x: not an IDX file: begins with 00070803");
    check_damage(whole, 3, 0, "/x: not an IDX file: begins with 00000800");
    check_damage(whole, 2, 0x0d, "/x: IDX element type 0x0d, expected 0x08");
    check_damage(whole, 7, 0, "/x: holds no images");
    check_damage(whole, 15, 0, "/x: dimension 2 of the images is 0");
    check_damage(whole, 4, 255, "/x: truncated: 46 bytes, expected 25669140526 for 4278190085 images of 6 bytes");
}

static void huge_dimensions_do_not_overflow(void **state)
{
    unsigned char file[4 + 4 * 4] = {0, 0, 8, 4};
    ls_dataset *data;
    (void)state;

    memset(file + 4, 0xff, 16);
    CHECK_FAILS(lsi_dataset_idx(data_file_write("x", file, sizeof file), "y", 0, &data), LS_ERR_DATA,
                "/x: one of the images has more than 2147483647 elements by the header's dimensions");
}

static void cut_gzip(void **state)
{
    unsigned char file[4096];
    ls_dataset *data;
    const char *path = write_images("x", true);
    FILE *stream = fopen(path, "rb");
    (void)state;

    assert_non_null(stream);
    size_t size = fread(file, 1, sizeof file, stream);

    fclose(stream);
    write_labels("y", false);
    for (size_t cut = 2; cut < size; cut++) {
        CHECK_FAILS(lsi_dataset_idx(data_file_write("x", file, cut), data_file_path("y"), 0, &data), LS_ERR_DATA,
                    "/x: ");
    }
}

static void images_and_labels_disagree(void **state)
{
    static const int64_t six[1] = {6}, pairs[2] = {5, 2};
    static const unsigned char values[10] = {0};
    ls_dataset *data;
    (void)state;

    write_images("x", false);
    CHECK_FAILS(lsi_dataset_idx(data_file_path("x"), data_file_write_idx("y", false, 1, six, values), 0, &data),
                LS_ERR_DATA, "/x holds 5 images, but ");
    assert_non_null(strstr(ls_failure_message(), "/y holds 6 labels"));
    CHECK_FAILS(lsi_dataset_idx(data_file_path("x"), data_file_write_idx("y", false, 2, pairs, values), 0, &data),
                LS_ERR_DATA, "/y: 2 bytes for each sample, expected one label");
    CHECK_FAILS(lsi_dataset_idx(data_file_path("x"), data_file_write("y", "labels\n", 7), 0, &data), LS_ERR_DATA,
                "/y: not an IDX file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_and_gzip_give_the_same, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(given_classes_win, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(labels_must_be_named, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(any_rank_of_images_is_flattened, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_read, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(damaged_images, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(huge_dimensions_do_not_overflow, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(cut_gzip, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(images_and_labels_disagree, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
