#include "kernels/gemm_choice.h"

#include <string.h>

#ifdef LOCKSTEP_HAVE_CUDA
extern const lsi_gemm_choices lsi_cuda_gemm_choices;
#endif

const char *lsi_gemm_setting_name(int setting)
{
    static const char *const names[LSI_GEMM_N_SETTINGS] = {
        "split",
#define LS_GEMM_SETTING(name, attribute, type) #name,
#include "kernels/gemm_settings.def"
#undef LS_GEMM_SETTING
    };

    return names[setting];
}

const lsi_gemm_choices *lsi_gemm_choices_of(const ls_device *device)
{
#ifdef LOCKSTEP_HAVE_CUDA
    if (strcmp(device->backend->name, "cuda") == 0) {
        return &lsi_cuda_gemm_choices;
    }
#endif
    (void)device;
    return NULL;
}
