/* RUN: */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "data/datasets.h"
#include "support/data_file.h"

static ls_config make_config(const char *model, int64_t seed)
{
    ls_config config = {0};

    config.model.kind = model;
    config.model.context = 37;
    config.data.kind = "synthetic";
    config.data.samples = 3000;
    config.data.features = 32;
    config.data.classes = 5;
    config.train.seed = seed;
    return config;
}

static void samples_are_a_function_of_seed_and_index(void **state)
{
    (void)state;
    for (int gpt = 0; gpt < 2; gpt++) {
        ls_config config[3] = {make_config(gpt ? "gpt" : "mlp", 1), make_config(gpt ? "gpt" : "mlp", 1),
                               make_config(gpt ? "gpt" : "mlp", 2)};
        ls_dataset *data[3];
        int32_t input[3][37], targets[3][37];

        config[1].data.samples = 1;         /* not a function of the number of samples */
        for (int i = 0; i < 3; i++) {
            CHECK_OK(lsi_dataset_synthetic(&config[i], &data[i]));
            CHECK_OK(data[i]->ops->read(data[i], 0, input[i], targets[i]));
        }
        size_t bytes = gpt ? 37 * 4 : 32 * 4;

        assert_memory_equal(input[0], input[1], bytes);
        assert_int_equal(targets[0][0], targets[1][0]);
        assert_int_not_equal(memcmp(input[0], input[2], bytes), 0);
        CHECK_OK(data[0]->ops->read(data[0], 1, input[1], targets[1]));
        assert_int_not_equal(memcmp(input[0], input[1], bytes), 0);
        for (int i = 0; i < 3; i++) {
            lsi_dataset_close(&data[i]);
        }
    }
}

/* The nearest class mean, learned on one half, must know most of the other half. */
static void points_can_be_learned(void **state)
{
    enum { FEATURES = 32, CLASSES = 5, HALF = 1500 };
    ls_config config = make_config("mlp", 7);
    double mean[CLASSES][FEATURES] = {{0}};
    int count[CLASSES] = {0}, right = 0;
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_synthetic(&config, &data));
    assert_int_equal(data->n_samples, 2 * HALF);
    assert_int_equal(data->n_classes, CLASSES);
    assert_int_equal(data->input_shape.dim[0], FEATURES);
    for (int64_t i = 0; i < 2 * HALF; i++) {
        float x[FEATURES];
        double best = 1e30;
        int32_t label;
        int guess = -1;

        CHECK_OK(data->ops->read(data, i, x, &label));
        assert_in_range(label, 0, CLASSES - 1);
        for (int c = 0; c < CLASSES && i >= HALF; c++) {
            double distance = 0;

            for (int j = 0; j < FEATURES; j++) {
                distance += (x[j] - mean[c][j] / count[c]) * (x[j] - mean[c][j] / count[c]);
            }
            if (distance < best) {
                best = distance;
                guess = c;
            }
        }
        right += guess == label;
        for (int j = 0; j < FEATURES && i < HALF; j++) {
            mean[label][j] += x[j];
        }
        count[label] += i < HALF;
    }
    for (int c = 0; c < CLASSES; c++) {
        assert_in_range(count[c], HALF / CLASSES - 80, HALF / CLASSES + 80);
    }
    assert_true(right > HALF * 95 / 100);
    lsi_dataset_close(&data);
}

static void tokens_are_uniform_and_targets_follow(void **state)
{
    enum { CONTEXT = 37, VOCAB = 10 };
    ls_config config = make_config("gpt", 7);
    int count[VOCAB] = {0};
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_synthetic(&config, &data));
    assert_int_equal(data->n_classes, 256);
    lsi_dataset_close(&data);
    config.model.vocab = VOCAB;
    CHECK_OK(lsi_dataset_synthetic(&config, &data));
    assert_int_equal(data->n_classes, VOCAB);
    assert_int_equal(data->target_count, CONTEXT);
    for (int64_t i = 0; i < 1000; i++) {
        int32_t input[CONTEXT], targets[CONTEXT];

        CHECK_OK(data->ops->read(data, i, input, targets));
        assert_memory_equal(input + 1, targets, (CONTEXT - 1) * sizeof *input);
        for (int j = 0; j < CONTEXT; j++) {
            assert_in_range(targets[j], 0, VOCAB - 1);
            count[targets[j]]++;
        }
        count[input[0]]++;
    }
    for (int v = 0; v < VOCAB; v++) {
        assert_in_range(count[v], 3800 - 350, 3800 + 350);      /* six standard deviations */
    }
    lsi_dataset_close(&data);
}

static void vocabulary_must_hold_the_classes(void **state)
{
    ls_config config = make_config("mlp", 1);
    ls_dataset *data;
    (void)state;

    config.model.vocab = 8;
    CHECK_OK(lsi_dataset_synthetic(&config, &data));
    assert_int_equal(data->n_classes, 8);
    lsi_dataset_close(&data);
    config.model.vocab = 4;
    CHECK_FAILS(lsi_dataset_synthetic(&config, &data), LS_ERR_CONFIG, "model.vocab = 4 is less than data.classes = 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_are_a_function_of_seed_and_index, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(points_can_be_learned, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(tokens_are_uniform_and_targets_follow, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(vocabulary_must_hold_the_classes, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
