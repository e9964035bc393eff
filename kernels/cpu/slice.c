/* Parts of rows: columns taken out of a matrix, put back, and set side by side. Elements are moved as they are; only
 * sums need to know their type. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"

#include <string.h>

static char *element(const ls_view *view, int64_t i)
{
    return (char *)view->data + (size_t)i * ls_dtype_bytes(view->dtype);
}

static void move(const ls_view *to, int64_t to_at, const ls_view *from, int64_t from_at, int64_t n)
{
    memcpy(element(to, to_at), element(from, from_at), (size_t)n * ls_dtype_bytes(to->dtype));
}

/* ---- slice --------------------------------------------------------------------------------------------------- */

static void slice_fwd_block(void *argument, int64_t block)
{
    const lsi_slice_fwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->count);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        move(&a->y, row * a->count, &a->x, row * a->pitch + a->first, a->count);
    }
}

ls_status LSI_CPU_KERNEL(slice_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_slice_fwd_args a = *(const lsi_slice_fwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("slice_fwd", &a.x, &a.y));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.count)), slice_fwd_block, &a);
    return LS_OK;
}

static void add_row(const lsi_slice_bwd_args *a, int64_t row)
{
    for (int64_t begin = 0; begin < a->count; begin += LSI_CONVERT_TILE) {
        float dy_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
        int64_t n = lsi_min(LSI_CONVERT_TILE, a->count - begin), at = row * a->pitch + a->first + begin;
        const float *dy = lsi_convert_load(&a->dy, row * a->count + begin, n, dy_tile);
        const float *before = lsi_convert_load(&a->dx, at, n, dx_tile);
        float *dx = lsi_convert_target(&a->dx, at, dx_tile);

        LSI_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            dx[i] = before[i] + dy[i];
        }
        lsi_convert_store(&a->dx, at, n, dx);
    }
}

/* Zero is all bits zero in every type. */
static void fill_row(const lsi_slice_bwd_args *a, int64_t row)
{
    size_t bytes = ls_dtype_bytes(a->dx.dtype);
    int64_t behind = a->first + a->count;

    memset(element(&a->dx, row * a->pitch), 0, (size_t)a->first * bytes);
    move(&a->dx, row * a->pitch + a->first, &a->dy, row * a->count, a->count);
    memset(element(&a->dx, row * a->pitch + behind), 0, (size_t)(a->pitch - behind) * bytes);
}

static void slice_bwd_block(void *argument, int64_t block)
{
    const lsi_slice_bwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->pitch);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        if (a->accumulate) {
            add_row(a, row);
        } else {
            fill_row(a, row);
        }
    }
}

ls_status LSI_CPU_KERNEL(slice_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_slice_bwd_args a = *(const lsi_slice_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("slice_bwd", &a.dy, &a.dx));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.pitch)), slice_bwd_block, &a);
    return LS_OK;
}

/* ---- concat -------------------------------------------------------------------------------------------------- */

static void concat_block(void *argument, int64_t block)
{
    const lsi_concat_args *a = argument;
    int64_t cols = a->a_cols + a->b_cols, per_block = lsi_rows_per_block(cols);

    for (int64_t row = block * per_block; row < lsi_min((block + 1) * per_block, a->rows); row++) {
        move(&a->y, row * cols, &a->a, row * a->a_cols, a->a_cols);
        move(&a->y, row * cols + a->a_cols, &a->b, row * a->b_cols, a->b_cols);
    }
}

ls_status LSI_CPU_KERNEL(concat)(const ls_cpu_run *run, const void *arguments)
{
    lsi_concat_args a = *(const lsi_concat_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("concat", &a.a, &a.b, &a.y));
    ls_parallel_for(run, lsi_blocks(a.rows, lsi_rows_per_block(a.a_cols + a.b_cols)), concat_block, &a);
    return LS_OK;
}
