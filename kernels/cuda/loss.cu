/* The sums of one slot: one block of threads, as a slot has some thousand targets. Thread t adds elements t, t + 256, ...
 * in order, and the threads' sums are folded in a fixed order. */
#include "kernels/cuda/row.h"

static __device__ __forceinline__ bool counts(const ls_view &targets, int64_t i)
{
    if (targets.dtype == LS_I32) {
        return ((const int32_t *)targets.data)[i] >= 0;
    }
    float target = ((const float *)targets.data)[i];

    return target == target;
}

extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_loss_sum_f32(lsi_loss_sum_args a)
{
    __shared__ double slots[3 * LSI_ROW_WARPS];
    const float *losses = (const float *)a.losses.data, *hits = (const float *)a.hits.data;
    lsi_row all = {0, 0, 0, LSI_THREADS};
    double loss = 0.0, counted = 0.0, hit = 0.0;

    for (int64_t i = threadIdx.x; i < a.targets.count; i += LSI_THREADS) {
        if (counts(a.targets, i)) {
            loss += (double)losses[i];
            hit += a.hits.count > 0 ? (double)hits[i] : 0.0;
            counted += 1.0;
        }
    }
    loss = lsi_row_sum(&all, loss, slots);
    counted = lsi_row_sum(&all, counted, slots + LSI_ROW_WARPS);
    hit = lsi_row_sum(&all, hit, slots + 2 * LSI_ROW_WARPS);
    if (threadIdx.x == 0) {
        ls_slot_record *record = (ls_slot_record *)a.record.data;

        record->loss_sum += loss;
        record->counted += counted;
        record->hits += hit;
        record->runs += 1.0;
    }
}

extern "C" ls_status lsi_cuda_loss_sum(ls_stream *stream, const void *arguments)
{
    lsi_loss_sum_args a = *(const lsi_loss_sum_args *)arguments;

    LS_REQUIRE(a.targets.dtype == LS_I32 || a.targets.dtype == LS_F32, LS_ERR_INTERNAL,
               "loss_sum: %lld targets are %s; choices: i32, f32", (long long)a.targets.count,
               ls_dtype_name(a.targets.dtype));
    return lsi_cuda_launched("loss_sum", LAUNCH(lsi_loss_sum_f32, 1, LSI_THREADS, 0, lsi_cuda_stream(stream), a));
}
