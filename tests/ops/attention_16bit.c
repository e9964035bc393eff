/* RUN: cuda timeout=120 label=contract */
/* attention_fwd and _bwd on f16 and bf16: bit for bit the op on f32 views of the same numbers, its results rounded
 * once. So nothing is rounded between the blocks of a sum, and what attention.c shows for f32 holds here. Not so on
 * tensor cores, whose factors have 16 bits: tests/cusim/kernels/test_attention.c compares those with a reference. */
#include "support/backend_case.h"
#include "support/op_case.h"

#include <math.h>

typedef struct shape {
    int64_t samples, context, heads, head_size;
} shape;

/* Around the block of 64, head sizes that fill no vector, the largest head, empty; the last has more keys than one
 * thread sums up at once in the backward: three groups. */
static const shape sizes[] = {
    {0, 5, 2, 4},   {2, 1, 3, 8},   {3, 2, 1, 1},    {2, 7, 2, 3},   {1, 64, 2, 16},  {1, 65, 2, 20},
    {1, 130, 1, 64}, {1, 70, 1, 256}, {1, 90, 2, 80}, {1, 514, 1, 256},
};

static const ls_dtype types[] = {LS_F16, LS_BF16};

static void open_forward(op_case *c, lsi_attention_fwd_args *a, shape s, float dropout, double scale, ls_dtype dtype)
{
    int64_t n = s.samples * s.context * s.heads * s.head_size;

    *a = (lsi_attention_fwd_args){.samples = s.samples, .context = s.context, .heads = s.heads,
                                  .head_size = s.head_size, .first_sample = 5, .key = 77, .dropout = dropout};
    op_case_open(c, &lsi_op_attention_fwd, a);
    op_case_random_as(c, &a->qkv, 3 * n, scale, dtype);
    op_case_view(c, &a->y, n, dtype);
    op_case_view(c, &a->lse, s.samples * s.context * s.heads, LS_F32);
    c->state.attempted = 41;
}

/* y and lse need not be those of the forward: what is to be shown holds for any numbers. */
static void open_backward(op_case *c, lsi_attention_bwd_args *a, shape s, float dropout, double dy_scale,
                          ls_dtype dtype)
{
    int64_t n = s.samples * s.context * s.heads * s.head_size;

    *a = (lsi_attention_bwd_args){.samples = s.samples, .context = s.context, .heads = s.heads,
                                  .head_size = s.head_size, .first_sample = 5, .key = 77, .dropout = dropout};
    op_case_open(c, &lsi_op_attention_bwd, a);
    op_case_random_as(c, &a->qkv, 3 * n, 1.5, dtype);
    op_case_random_as(c, &a->y, n, 1.5, dtype);
    op_case_random_as(c, &a->dy, n, dy_scale, dtype);
    op_case_view(c, &a->dqkv, 3 * n, dtype);
    float *lse = op_case_view(c, &a->lse, s.samples * s.context * s.heads, LS_F32);
    for (int64_t i = 0; i < s.samples * s.context * s.heads; i++) {
        lse[i] = logf((float)(i % s.context + 1));
    }
    c->state.attempted = 41;
}

static void check_forward(shape s, float dropout, double scale, ls_dtype dtype)
{
    lsi_attention_fwd_args a;
    op_case c;

    open_forward(&c, &a, s, dropout, scale, dtype);
    op_case_run(&c);
    op_case_expect_as_f32(&c);
    op_case_close(&c);
}

static void test_forward(void **state)
{
    (void)state;
    SKIP_UNLESS_CPU(test_backend());
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int type = 0; type < 2; type++) {
            check_forward(sizes[i], 0.0f, 1.5, types[type]);
            check_forward(sizes[i], 0.3f, 1.5, types[type]);
        }
    }
    check_forward((shape){1, 150, 1, 4}, 0.0f, 60.0, LS_F16);       /* large scores */
}

static void test_backward(void **state)
{
    (void)state;
    SKIP_UNLESS_CPU(test_backend());
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int type = 0; type < 2; type++) {
            lsi_attention_bwd_args a;
            op_case c;

            open_backward(&c, &a, sizes[i], i % 2 == 0 ? 0.0f : 0.3f, 1.0, types[type]);
            op_case_run(&c);
            op_case_expect_as_f32(&c);
            op_case_close(&c);
        }
    }
}

/* Sums beyond f16's range become infinities for the scaler to see; here some are and some are not. On tensor cores
 * their addends do already, and a sum of them may be NaN. */
static void test_overflow_is_infinity(void **state)
{
    const shape s = {1, 66, 1, 8};
    lsi_attention_bwd_args a;
    op_case c;

    (void)state;
    open_backward(&c, &a, s, 0.0f, 30000.0, LS_F16);
    op_case_run(&c);
    if (test_backend()->host_memory) {
        op_case_expect_as_f32(&c);
    }
    for (int level = 0; level < op_case_levels(); level++) {
        const uint16_t *dqkv = op_case_result(&c, &a.dqkv, level);
        int infinite = 0;

        for (int i = 0; i < 3 * 66 * 8; i++) {
            infinite += (dqkv[i] & 0x7FFF) >= 0x7C00;
        }
        assert_in_range(infinite, 1, 3 * 66 * 8 - 1);
    }
    op_case_close(&c);
}

static void test_types_must_be_alike(void **state)
{
    const shape s = {1, 3, 1, 4};
    lsi_attention_fwd_args a;
    op_case c;

    (void)state;
    open_forward(&c, &a, s, 0.0f, 1.0, LS_F16);
    c.views[1].dtype = LS_BF16;
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "attention_fwd: views of 36 elements of f16 and 12 of bf16");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_overflow_is_infinity),
        cmocka_unit_test(test_types_must_be_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
