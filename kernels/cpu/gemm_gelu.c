/* Products next to a GELU: on the CPU the two ops one after the other, and so their bits. */
#include "kernels/cpu/kernel.h"

ls_status LSI_CPU_KERNEL(gemm)(const ls_cpu_run *run, const void *arguments);
ls_status LSI_CPU_KERNEL(gelu_fwd)(const ls_cpu_run *run, const void *arguments);
ls_status LSI_CPU_KERNEL(gelu_bwd)(const ls_cpu_run *run, const void *arguments);

ls_status LSI_CPU_KERNEL(gemm_gelu)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_gemm_gelu_args *a = arguments;
    lsi_gemm_args product = {.a = a->a,
                             .b = a->b,
                             .bias = a->bias,
                             .c = a->x,
                             .m = a->m,
                             .n = a->n,
                             .k = a->k,
                             .trans_a = a->trans_a,
                             .trans_b = a->trans_b};

    LS_TRY(LSI_CPU_KERNEL(gemm)(run, &product));
    return LSI_CPU_KERNEL(gelu_fwd)(run, &(lsi_gelu_fwd_args){.x = a->x, .y = a->y});
}

ls_status LSI_CPU_KERNEL(gemm_gelu_bwd)(const ls_cpu_run *run, const void *arguments)
{
    const lsi_gemm_gelu_bwd_args *a = arguments;
    lsi_gemm_args product = {.a = a->a,
                             .b = a->b,
                             .c = a->dx,
                             .m = a->m,
                             .n = a->n,
                             .k = a->k,
                             .trans_a = a->trans_a,
                             .trans_b = a->trans_b};

    LS_TRY(LSI_CPU_KERNEL(gemm)(run, &product));
    return LSI_CPU_KERNEL(gelu_bwd)(run, &(lsi_gelu_bwd_args){.x = a->x, .dy = a->dx, .dx = a->dx});
}
