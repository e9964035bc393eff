/* The sums of one slot. */
#include "kernels/cpu/kernel.h"

static void loss_sum_block(void *argument, int64_t block)
{
    const lsi_loss_sum_args *a = argument;
    const float *losses = a->losses.data, *hits = a->hits.data;
    const int32_t *targets = a->targets.data;
    ls_slot_record *record = a->record.data;
    double loss = 0.0, counted = 0.0, hit = 0.0;

    (void)block;
    for (int64_t i = 0; i < a->targets.count; i++) {
        if (targets[i] >= 0) {
            loss += (double)losses[i];
            hit += (double)hits[i];
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

    ls_parallel_for(run, 1, loss_sum_block, &a);
    return LS_OK;
}
