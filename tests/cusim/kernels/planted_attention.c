/* Attention's kernels with one barrier or wait left out: PLANTED=file:line names it (planted_here.c). Small
 * problems on the way of the newest GPUs and in plain arithmetic, in three orders of threads; ends with 1 where a
 * result is wrong or the simulator complains. */
#include "cusim/kernels/attention_run.h"

#include "cusim_exec.h"

enum { N_ORDERS = 3, SEED = 7 };

static bool runs_right(const attention_device *device, attention_shape size, ls_dtype dtype, bool backward)
{
    bool right = true;
    attention_reference reference;
    attention_data data = attention_data_make(size, 0.2f, dtype, backward, &reference);

    for (int order = 0; order < N_ORDERS && right; order++) {
        cusim_set_order(order, SEED);
        CHECK_OK(attention_run(device, &data, 0));
        right = attention_is_right(&data, &reference, "planted");
    }
    attention_data_free(&data);
    attention_reference_free(&reference);
    return right;
}

/* Several tiles, with and without room for two at once; rows that are copied and rows that are picked. */
static void test_planted(void **state)
{
    static const attention_shape f16[] = {{1, 140, 1, 32}, {1, 135, 1, 72}, {1, 130, 1, 20}};
    static const attention_shape f32[] = {{1, 70, 1, 16}};
    attention_device device = attention_device_open("cuda", NULL);
    bool right = true;

    (void)state;
    for (int backward = 0; backward < 2; backward++) {
        for (size_t i = 0; i < sizeof f16 / sizeof f16[0] && right; i++) {
            right = runs_right(&device, f16[i], LS_F16, backward != 0);
        }
        for (size_t i = 0; i < sizeof f32 / sizeof f32[0] && right; i++) {
            right = runs_right(&device, f32[i], LS_F32, backward != 0);
        }
    }
    attention_device_close(&device);
    assert_true(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_planted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
