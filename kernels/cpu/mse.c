/* Squared errors of real targets. A target that is NaN counts nowhere. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"

enum { ELEMENTS_PER_BLOCK = 16384 };

static ls_status check(const char *op, const ls_view *x, const ls_view *targets)
{
    LS_TRY(LSI_CONVERT_CHECK(op, x));
    LS_REQUIRE(targets->dtype == LS_F32 && targets->count == x->count, LS_ERR_INTERNAL,
               "%s: %lld targets of %s for %lld values; they must be as many, and f32", op, (long long)targets->count,
               ls_dtype_name(targets->dtype), (long long)x->count);
    return LS_OK;
}

static void fwd_block(void *argument, int64_t block)
{
    const lsi_mse_fwd_args *a = argument;
    int64_t end = lsi_min((block + 1) * ELEMENTS_PER_BLOCK, a->x.count);

    for (int64_t begin = block * ELEMENTS_PER_BLOCK; begin < end; begin += LSI_CONVERT_TILE) {
        float tile[LSI_CONVERT_TILE];
        int64_t n = lsi_min(LSI_CONVERT_TILE, end - begin);
        const float *x = lsi_convert_load(&a->x, begin, n, tile);
        const float *target = (const float *)a->targets.data + begin;
        float *loss = (float *)a->losses.data + begin;

        LSI_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            float d = x[i] - target[i];
            loss[i] = target[i] == target[i] ? d * d : 0.0f;
        }
    }
}

ls_status LSI_CPU_KERNEL(mse_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_mse_fwd_args a = *(const lsi_mse_fwd_args *)arguments;

    LS_TRY(check("mse_fwd", &a.x, &a.targets));
    ls_parallel_for(run, lsi_blocks(a.x.count, ELEMENTS_PER_BLOCK), fwd_block, &a);
    return LS_OK;
}

static void bwd_block(void *argument, int64_t block)
{
    const lsi_mse_bwd_args *a = argument;
    int64_t end = lsi_min((block + 1) * ELEMENTS_PER_BLOCK, a->x.count);
    float scale = 2.0f * a->seed * a->state->loss_scale;

    for (int64_t begin = block * ELEMENTS_PER_BLOCK; begin < end; begin += LSI_CONVERT_TILE) {
        float x_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
        int64_t n = lsi_min(LSI_CONVERT_TILE, end - begin);
        const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
        const float *target = (const float *)a->targets.data + begin;
        float *dx = lsi_convert_target(&a->dx, begin, dx_tile);

        LSI_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            float d = (x[i] - target[i]) * scale;
            dx[i] = target[i] == target[i] ? d : 0.0f;
        }
        lsi_convert_store(&a->dx, begin, n, dx);
    }
}

ls_status LSI_CPU_KERNEL(mse_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_mse_bwd_args a = *(const lsi_mse_bwd_args *)arguments;

    LS_TRY(check("mse_bwd", &a.x, &a.targets));
    LS_TRY(LSI_CONVERT_CHECK("mse_bwd", &a.x, &a.dx));
    ls_parallel_for(run, lsi_blocks(a.x.count, ELEMENTS_PER_BLOCK), bwd_block, &a);
    return LS_OK;
}
