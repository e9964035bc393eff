/* Attention's kernels with one barrier or wait left out: PLANTED=file:line names it; without that all are there. Small
 * problems on the way of the newest GPUs and in plain arithmetic, in three orders of threads; ends with 1 where a
 * result is wrong or the simulator complains. */
#include "cusim/kernels/attention_run.h"

#include <stdlib.h>
#include <string.h>

#include "cusim_exec.h"

enum { N_ORDERS = 3, SEED = 7 };

/* What PLANTED says. */
static const char *planted_file;
static size_t planted_length;
static int planted_line;

static void read_planted(void)
{
    const char *planted = getenv("PLANTED"), *colon = planted == NULL ? NULL : strchr(planted, ':');

    if (colon != NULL) {
        planted_file = planted;
        planted_length = (size_t)(colon - planted);
        planted_line = atoi(colon + 1);
    }
}

/* Asked by every thread of every kernel at every place. */
int planted_here(const char *file, int line);
int planted_here(const char *file, int line)
{
    size_t length = strlen(file);

    return planted_file != NULL && line == planted_line && length >= planted_length &&
           memcmp(file + length - planted_length, planted_file, planted_length) == 0;
}

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

    read_planted();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
