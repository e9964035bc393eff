/* The commit op: one thread adds in slot and block order and decides, by the code that all backends share. The block's
 * other threads fetch block sums for it, which a thread alone would wait for one by one. */
#include "kernels/commit_decide.h"
#include "kernels/cuda/fault.h"

/* Sites of the three things that can be wrong. */
typedef struct commit_faults {
    lsi_fault_site record, block, rate;
} commit_faults;

/* Whether slot records and the learning rate are where they should be. */
static __device__ __forceinline__ bool check(const lsi_commit_args &a, const commit_faults &faults)
{
    const int32_t *record_index = (const int32_t *)a.record_index.data;
    const double *rates = (const double *)a.rates.data;

    for (int64_t s = 0; s < a.record_index.count; s++) {
        if (!lsi_commit_fits(&a, record_index[s], 4)) {
            lsi_fault_raise(&faults.record, s, record_index[s], 0);
            return false;
        }
    }
    if ((double)a.state->applied < rates[0] || (double)a.state->applied - rates[0] >= (double)(a.rates.count - 1)) {
        lsi_fault_raise(&faults.rate, a.state->applied, 0, 0);
        return false;
    }
    return true;
}

extern "C" __global__ void __launch_bounds__(LSI_THREADS, 1) lsi_commit_one(lsi_commit_args a, commit_faults faults)
{
    __shared__ double sums[LSI_THREADS];
    __shared__ int wrong;
    const double *values = (const double *)a.values.data;
    const int32_t *record_index = (const int32_t *)a.record_index.data;
    const int32_t *block_index = (const int32_t *)a.block_index.data;
    lsi_commit_totals totals = lsi_commit_nothing();

    if (threadIdx.x == 0) {
        wrong = check(a, faults) ? 0 : 1;
        for (int64_t s = 0; s < a.record_index.count && !wrong; s++) {
            lsi_commit_add_slot(&totals, (const ls_slot_record *)(const void *)(values + record_index[s]));
        }
    }
    for (int64_t first = 0; first < a.block_index.count; first += LSI_THREADS) {
        int64_t block = first + threadIdx.x, n = lsi_least(LSI_THREADS, a.block_index.count - first);

        __syncthreads();
        if (threadIdx.x < n) {
            if (lsi_commit_fits(&a, block_index[block], 1)) {
                sums[threadIdx.x] = values[block_index[block]];
            } else {
                lsi_fault_raise(&faults.block, block, block_index[block], 0);
                atomicExch(&wrong, 1);
            }
        }
        __syncthreads();
        for (int64_t i = 0; i < n && threadIdx.x == 0; i++) {
            lsi_commit_add_block(&totals, first + i, sums[i]);
        }
    }
    if (threadIdx.x == 0 && !wrong) {
        lsi_commit_finish(&a, &totals);
    }
}

extern "C" ls_status lsi_cuda_commit(ls_stream *stream, const void *arguments)
{
    lsi_commit_args a = *(const lsi_commit_args *)arguments;
    commit_faults faults = {
        lsi_fault_at(stream, LS_ERR_INTERNAL, "commit: slot %lld has its record at %lld"),
        lsi_fault_at(stream, LS_ERR_INTERNAL, "commit: block %lld has its sum at %lld"),
        lsi_fault_at(stream, LS_ERR_INTERNAL, "commit: no learning rate for %lld applied steps"),
    };

    LS_REQUIRE(a.world > 0 && a.rank_stride >= LS_EXCHANGE_HEADER && a.values.count == a.world * a.rank_stride,
               LS_ERR_INTERNAL, "commit: %lld values are not %lld messages of %lld", (long long)a.values.count,
               (long long)a.world, (long long)a.rank_stride);
    LS_REQUIRE(!a.dynamic || (a.growth_interval >= 1 && a.hysteresis >= 1 && a.scale_min <= a.scale_max),
               LS_ERR_INTERNAL, "commit: growth interval %lld, hysteresis %lld, scale from %g to %g",
               (long long)a.growth_interval, (long long)a.hysteresis, a.scale_min, a.scale_max);
    LS_REQUIRE(a.rates.count >= 2, LS_ERR_INTERNAL, "commit: %lld learning rates", (long long)a.rates.count);
    return lsi_cuda_launched("commit", LAUNCH(lsi_commit_one, 1, LSI_THREADS, 0, lsi_cuda_stream(stream), a, faults));
}
