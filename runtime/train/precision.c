#include "train/precision.h"

#include <stdio.h>
#include <string.h>

#include "kernels/attention_path.h"
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

static const char *products_on_the_host(ls_dtype compute)
{
    switch (compute) {
    case LS_F16:
        return ", products widened to f32";
    case LS_BF16:
        return lsi_gemm_bf16_is_native() ? ", native products" : ", products widened to f32";
    default:
        return "";
    }
}

void lsi_precision_note(const ls_config *config, ls_device *device, char out[LSI_PRECISION_NOTE])
{
    ls_dtype compute = lsi_precision_compute(config);
    const char *attention = lsi_attention_path_text(device, compute);
    const char *products = device->backend->host_memory ? products_on_the_host(compute) : "";

    snprintf(out, LSI_PRECISION_NOTE, "%s%s%s", products, attention != NULL ? ", attention " : "",
             attention != NULL ? attention : "");
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
