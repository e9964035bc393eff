/* How the kernels meet f16 and bf16: arithmetic is f32, a type is known at load and store only. A kernel works on tiles
 * of at most LSI_CONVERT_TILE elements:
 *
 *     float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
 *     const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
 *     float *y = lsi_convert_target(&a->y, begin, y_tile);
 *     ... y[i] = f(x[i]) ...
 *     lsi_convert_store(&a->y, begin, n, y);
 *
 * A view of f32 is used where it lies, without a copy; the tiles on the stack serve 16-bit views. One choice per tile,
 * none per element. An output that is also an input works as in f32: a tile is loaded before it is stored. */
#ifndef LSI_KERNELS_CPU_CONVERT_H
#define LSI_KERNELS_CPU_CONVERT_H

#include "kernels/cpu/kernel.h"

#include <string.h>

enum { LSI_CONVERT_TILE = 1024 };   /* 4 KiB; a multiple of LSI_LANES */

/* n elements of a 16-bit type to f32, and back. */
void LSI_CPU_NAME(convert_widen)(ls_dtype dtype, const uint16_t *x, int64_t n, float *out);
void LSI_CPU_NAME(convert_narrow)(ls_dtype dtype, const float *x, int64_t n, uint16_t *out);
/* All given views (count above 0) have one type, and that is f32, f16 or bf16. */
LS_MUST_USE ls_status LSI_CPU_NAME(convert_check)(const char *op, const ls_view *const *views, int n);

#define LSI_CONVERT_CHECK(op, ...)                                          \
    LSI_CPU_NAME(convert_check)(op, (const ls_view *const[]){__VA_ARGS__},  \
                                (int)(sizeof((const ls_view *const[]){__VA_ARGS__}) / sizeof(const ls_view *)))

/* n elements of `view` from `begin` on: in the view itself, or converted into `tile`. */
static inline const float *lsi_convert_load(const ls_view *view, int64_t begin, int64_t n, float *tile)
{
    if (view->dtype == LS_F32) {
        return (const float *)view->data + begin;
    }
    LSI_CPU_NAME(convert_widen)(view->dtype, (const uint16_t *)view->data + begin, n, tile);
    return tile;
}

/* Where the elements from `begin` on are to be computed. */
static inline float *lsi_convert_target(const ls_view *view, int64_t begin, float *tile)
{
    return view->dtype == LS_F32 ? (float *)view->data + begin : tile;
}

/* Rounds n elements into the view; nothing is left to do when they were computed in it. */
static inline void lsi_convert_store(const ls_view *view, int64_t begin, int64_t n, const float *values)
{
    if (view->dtype != LS_F32) {
        LSI_CPU_NAME(convert_narrow)(view->dtype, values, n, (uint16_t *)view->data + begin);
    } else if (values != (const float *)view->data + begin) {
        memcpy((float *)view->data + begin, values, (size_t)n * sizeof *values);
    }
}

#endif
