/* RUN: */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/datasets.h"
#include "data/slot.h"
#include "support/data_file.h"

static void short_slots_are_padded(void **state)
{
    enum { MICRO = 4, CONTEXT = 3 };
    int32_t input[MICRO * CONTEXT + 1], targets[MICRO * CONTEXT + 1];
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_text(data_file_write("t", "abcdefghijklmnop", 16), CONTEXT, 0, &data));
    assert_int_equal(lsi_slot_input_bytes(data), CONTEXT * 4);
    assert_int_equal(lsi_slot_target_bytes(data), CONTEXT * 4);
    for (int64_t count = 0; count <= MICRO; count++) {
        memset(input, 77, sizeof input);
        memset(targets, 77, sizeof targets);
        CHECK_OK(lsi_slot_read(data, 1, count, MICRO, input, targets));
        for (int i = 0; i < MICRO * CONTEXT; i++) {
            bool real = i < count * CONTEXT;

            assert_int_equal(input[i], real ? 'd' + i : 0);
            assert_int_equal(targets[i], real ? 'e' + i : LS_TARGET_IGNORED);
        }
        assert_int_equal(input[MICRO * CONTEXT], 0x4d4d4d4d);
        assert_int_equal(targets[MICRO * CONTEXT], 0x4d4d4d4d);
    }
    lsi_dataset_close(&data);
}

static ls_status real_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    float *value = input, *target = targets;

    (void)dataset;
    *value = (float)index;
    target[0] = (float)index + 0.25f;
    target[1] = -(float)index;
    return LS_OK;
}

static void short_slots_of_real_targets(void **state)
{
    static const ls_dataset_ops ops = {.struct_size = sizeof ops, .name = "real", .read = real_read};
    const ls_dataset data = {.ops = &ops, .n_samples = 7, .input_dtype = LS_F32, .input_shape = ls_shape1(1),
                             .target_count = 2, .real_targets = true};
    float input[4], targets[8];
    (void)state;

    CHECK_OK(lsi_slot_read(&data, 5, 2, 4, input, targets));
    for (int i = 0; i < 4; i++) {
        assert_true(input[i] == (i < 2 ? 5.0f + (float)i : 0.0f));
    }
    assert_true(targets[0] == 5.25f && targets[1] == -5.0f && targets[2] == 6.25f && targets[3] == -6.0f);
    for (int i = 4; i < 8; i++) {
        assert_true(isnan(targets[i]));
    }
}

static void failures_are_passed_on(void **state)
{
    int32_t input[8], targets[8];
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_text(data_file_write("t", "aaaaz", 5), 2, 'b', &data));
    CHECK_OK(lsi_slot_read(data, 0, 1, 4, input, targets));
    CHECK_FAILS(lsi_slot_read(data, 0, 2, 4, input, targets), LS_ERR_DATA, "token id 122 at byte 4");
    lsi_dataset_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_slots_are_padded, data_file_setup, data_file_teardown),
        cmocka_unit_test(short_slots_of_real_targets),
        cmocka_unit_test_setup_teardown(failures_are_passed_on, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
