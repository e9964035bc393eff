#include "train/precision.h"

#include <string.h>

#include "kernels/gemm_path.h"

static ls_dtype float_type(const char *name)
{
    return strcmp(name, "f16") == 0 ? LS_F16 : strcmp(name, "bf16") == 0 ? LS_BF16 : LS_F32;
}

ls_dtype lsi_precision_compute(const ls_config *config)
{
    return float_type(config->precision.compute);
}

ls_dtype lsi_precision_wire(const ls_config *config)
{
    return lsi_precision_is_fast(config) ? float_type(config->comm.dtype) : LS_F32;
}

const char *lsi_precision_note(const ls_config *config, const ls_backend *backend)
{
    if (!backend->host_memory) {
        return "";
    }
    switch (lsi_precision_compute(config)) {
    case LS_F16:
        return ", products widened to f32";
    case LS_BF16:
        return lsi_gemm_bf16_is_native() ? ", native products" : ", products widened to f32";
    default:
        return "";
    }
}

bool lsi_precision_is_mixed(const ls_config *config)
{
    return lsi_precision_compute(config) != LS_F32;
}

lsi_scaling lsi_precision_scaling(const ls_config *config)
{
    const char *mode = config->loss_scale.mode;
    bool dynamic = strcmp(mode, "dynamic") == 0 && lsi_precision_compute(config) == LS_F16;

    return (lsi_scaling){dynamic, dynamic || strcmp(mode, "static") == 0 ? config->loss_scale.initial : 1};
}

bool lsi_precision_is_fast(const ls_config *config)
{
    return strcmp(config->comm.reduction, "fast") == 0;
}
