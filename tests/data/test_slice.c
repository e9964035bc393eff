/* RUN: */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/slice.h"
#include "support/data_file.h"

/* A data set whose sample i is the number i; counts how often it was closed. */
typedef struct counting_dataset {
    ls_dataset base;
    int closed;
} counting_dataset;

static void counting_close(ls_dataset *dataset)
{
    ((counting_dataset *)dataset)->closed++;
}

static ls_status counting_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    (void)dataset;
    *(int32_t *)input = (int32_t)index;
    *(int32_t *)targets = -(int32_t)index;
    return LS_OK;
}

static const ls_dataset_ops counting_ops = {sizeof(ls_dataset_ops), "counting", counting_close, counting_read};

static counting_dataset make_counting(int64_t n)
{
    return (counting_dataset){.base = {.ops = &counting_ops, .n_samples = n, .input_dtype = LS_I32,
                                       .input_shape = ls_shape1(1), .target_count = 1, .n_classes = n,
                                       .description = "counting", .content = "counting"}};
}

static int32_t sample_at(const ls_dataset *data, int64_t i)
{
    int32_t input, target;

    CHECK_OK(data->ops->read(data, i, &input, &target));
    assert_int_equal(target, -input);
    return input;
}

static void parts_are_a_partition_in_order(void **state)
{
    (void)state;
    for (int choice = LSI_SLICE_LAST; choice <= LSI_SLICE_SPREAD; choice++) {
        for (int64_t n = 2; n <= 60; n++) {
            for (int64_t n_second = 1; n_second < n; n_second++) {
                counting_dataset whole = make_counting(n);
                ls_dataset *part[2];
                char seen[60] = {0};

                CHECK_OK(lsi_slice_split(&whole.base, n_second, choice, &part[0], &part[1]));
                assert_int_equal(part[0]->n_samples, n - n_second);
                assert_int_equal(part[1]->n_samples, n_second);
                for (int p = 0; p < 2; p++) {
                    int32_t last = -1;

                    for (int64_t i = 0; i < part[p]->n_samples; i++) {
                        int32_t sample = sample_at(part[p], i);

                        assert_in_range(sample, last + 1, n - 1);
                        assert_int_equal(seen[sample]++, 0);
                        last = sample;
                    }
                }
                if (choice == LSI_SLICE_LAST) {
                    assert_int_equal(sample_at(part[1], 0), n - n_second);
                }
                part[0]->ops->close(part[0]);
                part[1]->ops->close(part[1]);
            }
        }
    }
}

/* Every place of a stratum is chosen about equally often. */
static void spread_is_random(void **state)
{
    enum { STRATA = 10000, LENGTH = 10 };
    counting_dataset whole = make_counting(STRATA * LENGTH);
    ls_dataset *part[2];
    int count[LENGTH] = {0};
    (void)state;

    CHECK_OK(lsi_slice_split(&whole.base, STRATA, LSI_SLICE_SPREAD, &part[0], &part[1]));
    for (int64_t i = 0; i < STRATA; i++) {
        int32_t sample = sample_at(part[1], i);

        assert_int_equal(sample / LENGTH, i);
        count[sample % LENGTH]++;
    }
    for (int i = 0; i < LENGTH; i++) {
        assert_in_range(count[i], 1000 - 180, 1000 + 180);      /* six standard deviations */
    }
    part[0]->ops->close(part[0]);
    part[1]->ops->close(part[1]);
}

static void the_last_user_closes(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        counting_dataset whole = make_counting(9);
        ls_dataset *part[2];

        CHECK_OK(lsi_slice_split(&whole.base, 4, LSI_SLICE_SPREAD, &part[0], &part[1]));
        part[first]->ops->close(part[first]);
        assert_int_equal(whole.closed, 0);
        part[!first]->ops->close(part[!first]);
        assert_int_equal(whole.closed, 1);
    }
}

static void without_memory_the_whole_stays_open(void **state)
{
    (void)state;
    for (long k = 1; k <= 5; k++) {
        counting_dataset whole = make_counting(9);
        ls_dataset *part[2];

        lsi_memory_fail_at(k);
        CHECK_FAILS(lsi_slice_split(&whole.base, 4, LSI_SLICE_LAST, &part[0], &part[1]), LS_ERR_MEMORY, NULL);
        assert_int_equal(whole.closed, 0);
    }
    lsi_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_a_partition_in_order, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(spread_is_random, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(the_last_user_closes, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(without_memory_the_whole_stays_open, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
