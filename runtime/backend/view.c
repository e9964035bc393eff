/* Elements of a view in f32, for kernels outside the library; the library's own have conversions per ISA level. */
#include <string.h>

#include "base/half.h"
#include <lockstep/backend.h>

void ls_view_load(const ls_view *view, int64_t first, int64_t count, float *out)
{
    if (count == 0) {
        return; /* a view that is not given has no memory */
    }
    const uint16_t *half = (const uint16_t *)view->data + first;

    if (view->dtype == LS_F32) {
        memcpy(out, (const float *)view->data + first, (size_t)count * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = view->dtype == LS_F16 ? lsi_half_f16_to_f32(half[i]) : lsi_half_bf16_to_f32(half[i]);
    }
}

void ls_view_store(const ls_view *view, int64_t first, int64_t count, const float *values)
{
    if (count == 0) {
        return;
    }
    uint16_t *half = (uint16_t *)view->data + first;

    if (view->dtype == LS_F32) {
        memcpy((float *)view->data + first, values, (size_t)count * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        half[i] = view->dtype == LS_F16 ? lsi_half_f16_from_f32(values[i]) : lsi_half_bf16_from_f32(values[i]);
    }
}
