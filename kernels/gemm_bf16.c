#include "kernels/gemm_bf16.h"

#include <oneapi/dnnl/dnnl.h>

#if defined(LSI_HAVE_DNNL_GEMM_BF16)
dnnl_status_t dnnl_gemm_bf16bf16f32(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                                    const uint16_t *a, dnnl_dim_t lda, const uint16_t *b, dnnl_dim_t ldb, float beta,
                                    float *c, dnnl_dim_t ldc);

/* The library's names of ISAs are sets of bits, and it settles on one once. */
static bool has(dnnl_cpu_isa_t needed)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)needed) == (unsigned)needed;
}

bool lsi_gemm_bf16_is_supported(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

bool lsi_gemm_bf16_has_amx(void)
{
    return has(dnnl_cpu_isa_avx512_core_amx);
}

int lsi_gemm_bf16_multiply(const lsi_gemm_bf16_product *p)
{
    return (int)dnnl_gemm_bf16bf16f32(p->transpose_a, p->transpose_b, p->m, p->n, p->k, 1.0f, p->a, p->a_step, p->b,
                                      p->b_step, p->beta, p->c, p->c_step);
}
#else
bool lsi_gemm_bf16_is_supported(void)
{
    return false;
}

bool lsi_gemm_bf16_has_amx(void)
{
    return false;
}

int lsi_gemm_bf16_multiply(const lsi_gemm_bf16_product *p)
{
    (void)p;
    return (int)dnnl_unimplemented;
}
#endif
