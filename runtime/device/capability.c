#include "device/capability.h"

#include <string.h>

/* compute, least capability that runs it, least capability with tensor cores for it (0: none are used), the rest of the
 * sentence "use ..." where it does not run. */
static const struct {
    const char *compute;
    int runs, fast;
    const char *instead;
} types[] = {
    {"f32", 0, 0, ""},
    {"f16", 53, 70, "f32"},
    {"bf16", 80, 80, "f16, with its loss scaling, or f32"},
    {"tf32", 80, 80, "f32, which is as fast there, or f16"},
};

/* Turing chips of this series were made without them. */
static bool has_no_tensor_cores(const lsi_gpu *gpu)
{
    return strstr(gpu->name, "GTX 16") != NULL;
}

ls_status lsi_capability_check(const lsi_gpu *gpu, const char *compute, const char *host, lsi_text *advice)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0] && gpu->capability != LSI_GPU_UNKNOWN; i++) {
        if (strcmp(types[i].compute, compute) != 0) {
            continue;
        }
        LS_REQUIRE(
            gpu->capability >= types[i].runs, LS_ERR_DEVICE,
            "precision.compute = %s needs compute capability %d.%d; host %s: %s (%s) has %d.%d. Use %s, or a newer "
            "GPU: device.min_capability = %d.%d takes no other",
            compute, types[i].runs / 10, types[i].runs % 10, host, gpu->name, gpu->uuid, gpu->capability / 10,
            gpu->capability % 10, types[i].instead, types[i].runs / 10, types[i].runs % 10);
        if (types[i].fast > 0 && (gpu->capability < types[i].fast || has_no_tensor_cores(gpu))) {
            lsi_text_append(advice,
                            "host %s: %s (%s) has no tensor cores for precision.compute = %s: it halves memory, "
                            "products are not faster than in f32",
                            host, gpu->name, gpu->uuid, compute);
        }
    }
    return LS_OK;
}
