/* RUN: */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/datasets.h"
#include "support/data_file.h"

static ls_config make_config(const char *model, const char *kind)
{
    ls_config config = {0};

    config.model.kind = model;
    config.model.context = 10;
    config.data.kind = kind;
    config.data.train = config.data.labels = config.data.val = config.data.val_labels = "";
    config.data.samples = 100;
    config.data.features = 4;
    config.data.classes = 3;
    config.train.global_batch = 8;
    config.train.seed = 1;
    return config;
}

/* n images of one pixel, the pixel being the number of the image; labels i % classes. */
static void write_idx(const char *images, const char *labels, int64_t n, int classes)
{
    unsigned char pixel[256], label[256];
    int64_t dims[3] = {n, 1, 1};

    for (int64_t i = 0; i < n; i++) {
        pixel[i] = (unsigned char)i;
        label[i] = (unsigned char)(i % classes);
    }
    data_file_write_idx(images, false, 3, dims, pixel);
    data_file_write_idx(labels, false, 1, dims, label);
}

static void write_bytes(const char *name, size_t n)
{
    unsigned char *bytes = malloc(n);

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (unsigned char)(i / 10);
    }
    data_file_write(name, bytes, n);
    free(bytes);
}

static void close_both(ls_dataset **train, ls_dataset **val)
{
    lsi_dataset_close(train);
    lsi_dataset_close(val);
    test_check_no_memory_live();
}

static void every_kind_opens(void **state)
{
    static const uint32_t ids[101] = {1, 2, 3};
    ls_dataset *train, *val;
    (void)state;

    ls_config config = make_config("mlp", "synthetic");

    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    assert_string_equal(train->ops->name, "synthetic");
    assert_null(val);
    close_both(&train, &val);

    write_idx("images-idx3", "labels-idx1", 50, 7);
    config = make_config("mlp", "idx");
    config.data.train = data_file_path("images-idx3");
    config.data.labels = data_file_path("labels-idx1");
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    assert_string_equal(train->ops->name, "idx");
    assert_int_equal(train->n_classes, 7);
    close_both(&train, &val);

    write_bytes("text", 101);
    config = make_config("gpt", "text");
    config.data.train = data_file_path("text");
    config.model.vocab = 200;
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    assert_string_equal(train->ops->name, "text");
    assert_int_equal(train->n_samples, 10);
    assert_int_equal(train->n_classes, 200);
    close_both(&train, &val);

    config = make_config("gpt", "tokens");
    config.data.train = data_file_write_shard("tokens", 2, 101, ids);
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    assert_string_equal(train->ops->name, "tokens");
    assert_int_equal(train->n_classes, 50257);
    close_both(&train, &val);
}

static void held_out_windows_are_the_last(void **state)
{
    ls_config config = make_config("gpt", "text");
    ls_dataset *train, *val;
    int32_t input[10], targets[10];
    (void)state;

    write_bytes("text", 1001);
    config.data.train = data_file_path("text");
    config.data.val_fraction = 0.071;
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    assert_int_equal(train->n_samples, 92);     /* of 100; 7.1 are rounded up */
    assert_int_equal(val->n_samples, 8);
    CHECK_OK(train->ops->read(train, 91, input, targets));
    assert_int_equal(input[0], 91);
    CHECK_OK(val->ops->read(val, 0, input, targets));
    assert_int_equal(input[0], 92);
    close_both(&train, &val);

    config = make_config("mlp", "synthetic");
    for (int percent = 1; percent <= 90; percent++) {
        config.data.val_fraction = percent / 100.0;
        CHECK_OK(lsi_datasets_open(&config, &train, &val));
        assert_int_equal(val->n_samples, percent);
        assert_int_equal(train->n_samples, 100 - percent);
        close_both(&train, &val);
    }
}

static void held_out_images_do_not_follow_the_seed(void **state)
{
    ls_config config = make_config("mlp", "idx");
    float chosen[2][20];
    (void)state;

    write_idx("x", "y", 200, 10);
    config.data.train = data_file_path("x");
    config.data.labels = data_file_path("y");
    config.data.val_fraction = 0.1;
    for (int seed = 0; seed < 2; seed++) {
        ls_dataset *train, *val;
        int32_t target;

        config.train.seed = seed;
        CHECK_OK(lsi_datasets_open(&config, &train, &val));
        assert_int_equal(train->n_samples, 180);
        assert_int_equal(val->n_samples, 20);
        for (int i = 0; i < 20; i++) {
            CHECK_OK(val->ops->read(val, i, &chosen[seed][i], &target));
            assert_int_equal(target, lroundf(chosen[seed][i] * 255) % 10);
        }
        close_both(&train, &val);
    }
    assert_memory_equal(chosen[0], chosen[1], sizeof chosen[0]);
    assert_true(chosen[0][0] < 179.0f / 255);       /* not simply the last */
}

static void validation_files_have_the_classes_of_train(void **state)
{
    ls_config config = make_config("mlp", "idx");
    ls_dataset *train, *val;
    int64_t pairs[2] = {9, 2};
    unsigned char pixels[18] = {0};
    (void)state;

    write_idx("a-images-idx3", "a-labels-idx1", 50, 7);
    write_idx("b-images-idx3", "b-labels-idx1", 9, 5);
    config.data.train = data_file_path("a-images-idx3");
    config.data.labels = data_file_path("a-labels-idx1");
    config.data.val = data_file_path("b-images-idx3");
    config.data.val_labels = data_file_path("b-labels-idx1");
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    assert_int_equal(val->n_samples, 9);
    assert_int_equal(val->n_classes, 7);
    close_both(&train, &val);

    write_idx("b-images-idx3", "b-labels-idx1", 9, 8);
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA, "data.val: ");
    assert_non_null(strstr(ls_failure_message(), "b-labels-idx1: label 7 of sample 7 is not below the number"));

    write_idx("c", "d", 9, 8);
    config.data.val = data_file_path("c");
    config.data.val_labels = "";
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA,
                "set data.labels (data.val_labels for data.val)");
    config.data.val_labels = data_file_path("d");
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA, "/d: label 7 of sample 7");

    write_idx("c", "d", 9, 7);
    data_file_write_idx("c", false, 2, pairs, pixels);
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA,
                "/c: samples of 2 inputs, but those of data.train");

    config = make_config("gpt", "text");
    write_bytes("train", 101);
    config.data.train = data_file_path("train");
    config.data.val = data_file_write("val", "0123456789abc", 13);
    config.model.vocab = 98;
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    int32_t input[10], targets[10];

    CHECK_OK(val->ops->read(val, 0, input, targets));
    CHECK_FAILS(val->ops->read(val, 1, input, targets), LS_ERR_DATA, "/val: token id 98 at byte 11");
    close_both(&train, &val);
}

static void errors_name_the_keys(void **state)
{
    ls_config config = make_config("gpt", "text");
    ls_dataset *train, *val;
    (void)state;

    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_CONFIG,
                "data.train is not set; data.kind = text needs it");
    config.data.train = data_file_path("none");
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA, "data.train: /");
    assert_non_null(strstr(ls_failure_message(), "/none: cannot open: No such file"));

    write_bytes("text", 101);
    config.data.train = data_file_path("text");
    config.data.val = data_file_path("none");
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA, "data.val: /");

    config.data.val = "";
    config.data.val_fraction = 0.1;
    config.train.global_batch = 10;
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA,
                "/text gives 9 samples to train on besides data.val_fraction, less than train.global_batch = 10");
    config.data.val_fraction = 0;
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    close_both(&train, &val);
    config.train.global_batch = 11;
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA,
                "/text gives 10 samples to train on, less than train.global_batch = 11");

    write_bytes("text", 9);
    config.data.val_fraction = 0.5;
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA,
                "data.val_fraction = 0.5 takes all 1 samples and leaves none to train on");

    config = make_config("mlp", "synthetic");
    config.train.global_batch = 101;
    CHECK_FAILS(lsi_datasets_open(&config, &train, &val), LS_ERR_DATA,
                "data.samples gives 100 samples to train on, less than train.global_batch = 101");
}

/* Whichever allocation fails, nothing leaks and nothing is half open. */
static void memory_may_run_out_anywhere(void **state)
{
    static const uint32_t ids[101] = {1, 2, 3};
    ls_config config[4] = {make_config("mlp", "idx"), make_config("gpt", "text"), make_config("gpt", "tokens"),
                           make_config("mlp", "synthetic")};
    (void)state;

    write_idx("images-idx3", "labels-idx1", 50, 7);
    config[0].data.train = data_file_path("images-idx3");
    config[0].data.labels = data_file_path("labels-idx1");
    config[1].data.train = data_file_write_gzip("text.gz", ids, sizeof ids);
    config[2].data.train = data_file_write_shard("tokens", 2, 101, ids);
    for (int i = 0; i < 4; i++) {
        ls_dataset *train, *val;
        ls_status status = LS_ERR_MEMORY;

        config[i].data.val_fraction = 0.1;
        for (long k = 1; status != LS_OK; k++) {
            lsi_memory_fail_at(k);
            status = lsi_datasets_open(&config[i], &train, &val);
            if (status != LS_OK) {
                assert_int_equal(status, LS_ERR_MEMORY);
                test_check_no_memory_live();
            }
        }
        lsi_memory_fail_at(0);
        close_both(&train, &val);
    }
}

/* The same samples as besides the training data, which may be gone where it is not read. */
static void held_out_data_opens_alone(void **state)
{
    ls_config config = make_config("mlp", "idx");
    ls_dataset *train, *val, *alone;
    float expected, pixel;
    int32_t target;

    (void)state;
    write_idx("images-idx3", "labels-idx1", 100, 7);
    write_idx("b-images-idx3", "b-labels-idx1", 9, 5);
    config.data.train = data_file_path("images-idx3");
    config.data.labels = data_file_path("labels-idx1");
    config.data.val_fraction = 0.1;
    CHECK_OK(lsi_datasets_open(&config, &train, &val));
    CHECK_OK(lsi_dataset_open_val(&config, 7, &alone));
    assert_int_equal(alone->n_samples, 10);
    for (int64_t i = 0; i < 10; i++) {
        CHECK_OK(val->ops->read(val, i, &expected, &target));
        CHECK_OK(alone->ops->read(alone, i, &pixel, &target));
        assert_true(pixel == expected);
    }
    lsi_dataset_close(&alone);
    close_both(&train, &val);

    config.data.train = "/nowhere/images-idx3";
    CHECK_FAILS(lsi_dataset_open_val(&config, 7, &alone), LS_ERR_DATA, "data.train: ");
    config.data.val_fraction = 0;
    CHECK_FAILS(lsi_dataset_open_val(&config, 7, &alone), LS_ERR_CONFIG, "--set data.val=PATH");
    config.data.val = data_file_path("b-images-idx3");
    config.data.val_labels = data_file_path("b-labels-idx1");
    CHECK_OK(lsi_dataset_open_val(&config, 7, &alone));
    assert_int_equal(alone->n_samples, 9);
    assert_int_equal(alone->n_classes, 7);
    lsi_dataset_close(&alone);
    CHECK_FAILS(lsi_dataset_open_val(&config, 4, &alone), LS_ERR_DATA, "label 4");
    config.data.kind = "synthetic";
    CHECK_FAILS(lsi_dataset_open_val(&config, 7, &alone), LS_ERR_CONFIG, "data.val_fraction");
    config.data.val_fraction = 0.1;
    CHECK_OK(lsi_dataset_open_val(&config, 3, &alone));
    assert_int_equal(alone->n_samples, 10);
    lsi_dataset_close(&alone);
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind_opens, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(held_out_windows_are_the_last, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(held_out_images_do_not_follow_the_seed, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(validation_files_have_the_classes_of_train, data_file_setup,
                                        data_file_teardown),
        cmocka_unit_test_setup_teardown(held_out_data_opens_alone, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(errors_name_the_keys, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
