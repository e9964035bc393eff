/* The sums of one slot. */
#include "kernels/cpu/kernel.h"

static bool counts(const ls_view *targets, int64_t i)
{
    if (targets->dtype == LS_I32) {
        return ((const int32_t *)targets->data)[i] >= 0;
    }
    float target = ((const float *)targets->data)[i];

    return target == target;
}

static void loss_sum_block(void *argument, int64_t block)
{
    const lsi_loss_sum_args *a = argument;
    const float *losses = a->losses.data, *hits = a->hits.data;
    ls_slot_record *record = a->record.data;
    double loss = 0.0, counted = 0.0, hit = 0.0;

    (void)block;
    for (int64_t i = 0; i < a->targets.count; i++) {
        if (counts(&a->targets, i)) {
            loss += (double)losses[i];
            hit += a->hits.count > 0 ? (double)hits[i] : 0.0;
            counted += 1.0;
        }
    }
    record->loss_sum += loss;
    record->counted += counted;
    record->hits += hit;
    record->runs += 1.0;
}

/* One block: a slot has some thousand targets, and in double their order of summation is the order they have. */
ls_status LSI_CPU_KERNEL(loss_sum)(const ls_cpu_run *run, const void *arguments)
{
    lsi_loss_sum_args a = *(const lsi_loss_sum_args *)arguments;

    LS_REQUIRE(a.targets.dtype == LS_I32 || a.targets.dtype == LS_F32, LS_ERR_INTERNAL,
               "loss_sum: %lld targets are %s; choices: i32, f32", (long long)a.targets.count,
               ls_dtype_name(a.targets.dtype));
    ls_parallel_for(run, 1, loss_sum_block, &a);
    return LS_OK;
}
