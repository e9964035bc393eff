/* RUN: */
/* Views read and written as f32, whatever they store. */
#include "support/test.h"

#include <string.h>

#include "base/half.h"
#include <lockstep/backend.h>

enum { N = 100, FIRST = 7, COUNT = 90 };

static void values_go_through_every_type(void **state)
{
    static const ls_dtype types[] = {LS_F32, LS_F16, LS_BF16};
    float in[N], out[N];
    uint32_t memory[N];

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        ls_view view = ls_view_make(memory, N, types[t]);

        memset(memory, 0, sizeof memory);
        for (int i = 0; i < COUNT; i++) {
            in[i] = (float)(i - 45) * 0.25F;        /* exact in all three */
        }
        ls_view_store(&view, FIRST, COUNT, in);
        ls_view_load(&view, 0, N, out);
        for (int i = 0; i < N; i++) {
            float expected = i < FIRST || i >= FIRST + COUNT ? 0.0F : in[i - FIRST];

            assert_memory_equal(&out[i], &expected, sizeof expected);
        }
    }
}

static void what_a_type_cannot_hold_is_rounded(void **state)
{
    uint16_t word;
    float value = 1.0F + 0x1p-11F + 0x1p-20F, back;
    ls_view half = ls_view_make(&word, 1, LS_F16), brain = ls_view_make(&word, 1, LS_BF16);

    (void)state;
    ls_view_store(&half, 0, 1, &value);
    assert_int_equal(word, lsi_half_f16_from_f32(value));
    ls_view_load(&half, 0, 1, &back);
    assert_true(back == 1.0F + 0x1p-10F);
    ls_view_store(&brain, 0, 1, &value);
    assert_int_equal(word, lsi_half_bf16_from_f32(value));
    ls_view_load(&brain, 0, 1, &back);
    assert_true(back == 1.0F);
}

static void a_view_not_given_is_left_alone(void **state)
{
    ls_view absent = {0};
    float value = 3.0F;

    (void)state;
    ls_view_load(&absent, 0, 0, &value);
    ls_view_store(&absent, 0, 0, &value);
    assert_true(value == 3.0F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_through_every_type),
        cmocka_unit_test(what_a_type_cannot_hold_is_rounded),
        cmocka_unit_test(a_view_not_given_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
