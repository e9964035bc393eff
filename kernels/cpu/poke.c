/* A fault on purpose: one element of one step gets a value that it should not have. */
#include "kernels/cpu/kernel.h"

ls_status LSI_CPU_KERNEL(poke)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_poke_args *a = arguments;

    (void)run;
    LS_REQUIRE(a->y.dtype == LS_F32 || a->y.dtype == LS_F64, LS_ERR_INTERNAL, "poke: a view of %s; choices: f32, f64",
               ls_dtype_name(a->y.dtype));
    LS_REQUIRE(a->element >= 0 && a->element < a->y.count, LS_ERR_INTERNAL, "poke: element %lld of %lld",
               (long long)a->element, (long long)a->y.count);
    if (a->state->attempted != a->attempted) {
        return LS_OK;
    }
    if (a->y.dtype == LS_F32) {
        ((float *)a->y.data)[a->element] = a->value;
    } else {
        ((double *)a->y.data)[a->element] = (double)a->value;
    }
    return LS_OK;
}
