/* RUN: */
/* Which path bf16 products take here: one that exists, always the same. */
#include "support/op_case.h"

#include "kernels/gemm_bf16.h"
#include "kernels/gemm_path.h"

static void native_only_where_it_is_supported(void **unused)
{
    bool native = lsi_gemm_bf16_is_native();

    (void)unused;
    assert_true(!native || lsi_gemm_bf16_is_supported());
    assert_true(!lsi_gemm_bf16_has_amx() || lsi_gemm_bf16_is_supported());
    assert_true(lsi_gemm_bf16_is_native() == native);
}

/* The bare entry: row-major, beta not 0 adds, beta 0 does not read. */
static void the_entry_is_row_major(void **unused)
{
    const uint16_t a[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0};      /* 1 2 3; 4 5 6 */
    const uint16_t b[] = {0x3f80, 0x0000, 0x0000, 0x3f80, 0x3f80, 0x3f80};      /* 1 0; 0 1; 1 1 */
    const float want[] = {4.0f, 5.0f, 10.0f, 11.0f};
    float c[] = {__builtin_nanf(""), __builtin_nanf(""), __builtin_nanf(""), __builtin_nanf("")};
    lsi_gemm_bf16_product p = {.transpose_a = 'N', .transpose_b = 'N', .m = 2, .n = 2, .k = 3, .a = a, .a_step = 3,
                               .b = b, .b_step = 2, .c = c, .c_step = 2};

    (void)unused;
    if (!lsi_gemm_bf16_is_supported()) {
        skip();
    }
    assert_int_equal(lsi_gemm_bf16_multiply(&p), 0);
    assert_memory_equal(c, want, sizeof c);
    p.beta = 1.0f;
    assert_int_equal(lsi_gemm_bf16_multiply(&p), 0);
    for (int i = 0; i < 4; i++) {
        assert_true(c[i] == 2.0f * want[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_only_where_it_is_supported),
        cmocka_unit_test(the_entry_is_row_major),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
