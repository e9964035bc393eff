#include "kernels/gemm_path.h"

#include "kernels/gemm_bf16.h"

/* Intel's processors take a 512-bit bf16 dot product at half the rate of two FMAs, so that without AMX there is nothing
 * to gain; oneDNN 2.6 reaches 0.55 times its f32 speed there (Sapphire Rapids), and 1.95 times on AMD's Zen 5. */
static bool pays(void)
{
#if defined(__x86_64__)
    return lsi_gemm_bf16_has_amx() || !__builtin_cpu_is("intel");
#else
    return true;
#endif
}

bool lsi_gemm_bf16_is_native(void)
{
    return lsi_gemm_bf16_is_supported() && pays();
}
