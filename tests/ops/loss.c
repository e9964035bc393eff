/* RUN: cuda timeout=60 label=contract */
/* loss_sum: adds to the record, in double and in order, and ignores what is not counted. */
#include "support/op_case.h"

#include <math.h>
#include <string.h>

static void adds_to_the_record(void **unused)
{
    static const int64_t sizes[] = {0, 1, 17, 4099};

    (void)unused;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t n = sizes[s];
        lsi_loss_sum_args a = {0};
        ls_slot_record want = {.loss_sum = 10.25, .counted = 7.0, .hits = 3.0, .runs = 2.0}, slot = {0};
        op_case c;

        op_case_open(&c, &lsi_op_loss_sum, &a);
        float *losses = op_case_random(&c, &a.losses, n, 4.0);
        float *hits = op_case_view(&c, &a.hits, n, LS_F32);
        int32_t *targets = op_case_view(&c, &a.targets, n, LS_I32);
        memcpy(op_case_view(&c, &a.record, sizeof want / sizeof(double), LS_F64), &want, sizeof want);
        for (int64_t i = 0; i < n; i++) {
            targets[i] = i % 3 == 1 ? -1 : (int32_t)i;
            hits[i] = i % 2 == 0 ? 1.0f : 0.0f;
            if (targets[i] < 0) {
                losses[i] = NAN;        /* an ignored row's loss is not looked at */
            } else {
                slot.loss_sum += (double)losses[i];
                slot.counted += 1.0;
                slot.hits += (double)hits[i];
            }
        }
        want.loss_sum += slot.loss_sum;
        want.counted += slot.counted;
        want.hits += slot.hits;
        want.runs += 1.0;
        op_case_run(&c);
        op_case_expect_bytes(&c, &a.record, &want);
        op_case_close(&c);
    }
}

/* Real targets count unless they are NaN; a loss without hits gives none. */
static void real_targets(void **unused)
{
    enum { N = 4099 };
    lsi_loss_sum_args a = {0};
    ls_slot_record want = {.loss_sum = 10.25, .counted = 7.0, .hits = 3.0, .runs = 2.0}, slot = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_loss_sum, &a);
    float *losses = op_case_random(&c, &a.losses, N, 4.0), *targets = op_case_random(&c, &a.targets, N, 4.0);
    memcpy(op_case_view(&c, &a.record, sizeof want / sizeof(double), LS_F64), &want, sizeof want);
    targets[0] = -INFINITY;
    for (int64_t i = 0; i < N; i++) {
        if (i % 5 == 3) {
            losses[i] = NAN;
            targets[i] = i % 2 == 0 ? NAN : -NAN;
        } else {
            slot.loss_sum += (double)losses[i];
            slot.counted += 1.0;
        }
    }
    want.loss_sum += slot.loss_sum;
    want.counted += slot.counted;
    want.runs += 1.0;
    op_case_run(&c);
    op_case_expect_bytes(&c, &a.record, &want);
    op_case_close(&c);
}

static void refuse_other_targets(void **unused)
{
    lsi_loss_sum_args a = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_loss_sum, &a);
    op_case_view(&c, &a.losses, 2, LS_F32);
    op_case_view(&c, &a.targets, 2, LS_F16);
    op_case_view(&c, &a.record, 4, LS_F64);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "loss_sum: 2 targets are f16; choices: i32, f32");
    op_case_close(&c);
}

static void nan_reaches_the_sum(void **unused)
{
    lsi_loss_sum_args a = {0};
    double want[] = {NAN, 2.0, 0.0, 1.0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_loss_sum, &a);
    float *losses = op_case_view(&c, &a.losses, 2, LS_F32);
    op_case_view(&c, &a.hits, 2, LS_F32);
    op_case_view(&c, &a.targets, 2, LS_I32);
    op_case_view(&c, &a.record, 4, LS_F64);
    losses[1] = NAN;
    op_case_run(&c);
    op_case_expect(&c, &a.record, want, 0.0, 0.0);
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_to_the_record),
        cmocka_unit_test(nan_reaches_the_sum),
        cmocka_unit_test(real_targets),
        cmocka_unit_test(refuse_other_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
