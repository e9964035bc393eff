/* The commit op: checks that the pieces fit, then the decision, which all backends share (kernels/commit_decide.h). */
#include "kernels/commit_decide.h"

#include "kernels/cpu/kernel.h"

ls_status LSI_CPU_KERNEL(commit)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_commit_args *a = arguments;
    const int32_t *block_index = a->block_index.data, *record_index = a->record_index.data;

    (void)run;
    LS_REQUIRE(a->world > 0 && a->rank_stride >= LS_EXCHANGE_HEADER && a->values.count == a->world * a->rank_stride,
               LS_ERR_INTERNAL, "commit: %lld values are not %lld messages of %lld", (long long)a->values.count,
               (long long)a->world, (long long)a->rank_stride);
    for (int64_t s = 0; s < a->record_index.count; s++) {
        LS_REQUIRE(lsi_commit_fits(a, record_index[s], 4), LS_ERR_INTERNAL, "commit: slot %lld has its record at %d",
                   (long long)s, record_index[s]);
    }
    for (int64_t b = 0; b < a->block_index.count; b++) {
        LS_REQUIRE(lsi_commit_fits(a, block_index[b], 1), LS_ERR_INTERNAL, "commit: block %lld has its sum at %d", (long long)b,
                   block_index[b]);
    }

    const double *rates = a->rates.data;

    LS_REQUIRE(!a->dynamic || (a->growth_interval >= 1 && a->hysteresis >= 1 && a->scale_min <= a->scale_max),
               LS_ERR_INTERNAL, "commit: growth interval %lld, hysteresis %lld, scale from %g to %g",
               (long long)a->growth_interval, (long long)a->hysteresis, a->scale_min, a->scale_max);
    LS_REQUIRE(a->rates.count >= 2 && (double)a->state->applied >= rates[0] &&
                   (double)a->state->applied - rates[0] < (double)(a->rates.count - 1),
               LS_ERR_INTERNAL, "commit: no learning rate for %lld applied steps", (long long)a->state->applied);
    lsi_commit_decide(a);
    return LS_OK;
}
