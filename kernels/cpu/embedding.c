/* Token and position embedding. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"

#include <string.h>

enum { ELEMENTS_PER_BLOCK = 16384 };

/* ---- forward ------------------------------------------------------------------------------------------------- */

/* One row of y, columns [begin, begin + n). */
static void fwd_tile(const lsi_embedding_fwd_args *a, int64_t row, int64_t begin, int64_t n)
{
    float wte_tile[LSI_CONVERT_TILE], wpe_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    int64_t token = ((const int32_t *)a->tokens.data)[row];
    const float *restrict wte = lsi_convert_load(&a->wte, token * a->width + begin, n, wte_tile);
    const float *restrict wpe = lsi_convert_load(&a->wpe, row % a->context * a->width + begin, n, wpe_tile);
    float *restrict y = lsi_convert_target(&a->y, row * a->width + begin, y_tile);

    for (int64_t c = 0; c < n; c++) {
        y[c] = wte[c] + wpe[c];
    }
    lsi_convert_store(&a->y, row * a->width + begin, n, y);
}

static void embedding_fwd_block(void *argument, int64_t block)
{
    const lsi_embedding_fwd_args *a = argument;
    int64_t per_block = lsi_rows_per_block(a->width), first = block * per_block;
    int64_t last = lsi_min(first + per_block, a->samples * a->context);

    for (int64_t row = first; row < last; row++) {
        for (int64_t begin = 0; begin < a->width; begin += LSI_CONVERT_TILE) {
            fwd_tile(a, row, begin, lsi_min(LSI_CONVERT_TILE, a->width - begin));
        }
    }
}

ls_status LSI_CPU_KERNEL(embedding_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_embedding_fwd_args a = *(const lsi_embedding_fwd_args *)arguments;
    const int32_t *tokens = a.tokens.data;
    int64_t n = a.samples * a.context, rows = a.width > 0 ? a.wte.count / a.width : 0;

    LS_TRY(LSI_CONVERT_CHECK("embedding_fwd", &a.wte, &a.wpe, &a.y));
    for (int64_t i = 0; i < n; i++) {
        LS_REQUIRE(tokens[i] >= 0 && tokens[i] < rows, LS_ERR_DATA,
                   "token %d at position %lld of the micro-batch is outside of the embedding's %lld rows",
                   (int)tokens[i], (long long)i, (long long)rows);
    }
    ls_parallel_for(run, lsi_blocks(n, lsi_rows_per_block(a.width)), embedding_fwd_block, &a);
    return LS_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

static void add_row(float *restrict sum, const float *restrict x, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        sum[c] += x[c];
    }
}

/* One block of work owns this many rows and columns of dwte and goes through all tokens in order. Fewer rows would
 * share out more evenly, but each block reads all tokens. */
enum { TABLE_ROWS = 1024, TABLE_COLUMNS = 128 };

static void wte_block(void *argument, int64_t block)
{
    const lsi_embedding_bwd_args *a = argument;
    const int32_t *tokens = a->tokens.data;
    int64_t n_columns = lsi_blocks(a->width, TABLE_COLUMNS);
    int64_t first = block / n_columns * TABLE_ROWS, last = lsi_min(first + TABLE_ROWS, a->rows);
    int64_t column = block % n_columns * TABLE_COLUMNS, width = lsi_min(TABLE_COLUMNS, a->width - column);
    float *dwte = (float *)a->dwte.data + column, tile[TABLE_COLUMNS];

    for (int64_t i = 0; i < a->samples * a->context; i++) {
        if (tokens[i] >= first && tokens[i] < last) {
            add_row(dwte + tokens[i] * a->width, lsi_convert_load(&a->dy, i * a->width + column, width, tile), width);
        }
    }
}

/* Apart from the sums: most rows are touched by no token, and whole pieces are cleared faster than parts of rows. */
static void clear_wte_block(void *argument, int64_t block)
{
    const lsi_embedding_bwd_args *a = argument;
    int64_t begin = block * ELEMENTS_PER_BLOCK, n = lsi_min(ELEMENTS_PER_BLOCK, a->rows * a->width - begin);

    memset((float *)a->dwte.data + begin, 0, (size_t)n * sizeof(float));
}

static void wpe_block(void *argument, int64_t block)
{
    const lsi_embedding_bwd_args *a = argument;
    int64_t begin = block * ELEMENTS_PER_BLOCK, n = lsi_min(ELEMENTS_PER_BLOCK, a->context * a->width - begin);
    float *dwpe = (float *)a->dwpe.data + begin, tile[LSI_CONVERT_TILE];

    if (!a->accumulate_wpe) {
        memset(dwpe, 0, (size_t)n * sizeof *dwpe);
    }
    for (int64_t s = 0; s < a->samples; s++) {
        for (int64_t at = 0; at < n; at += LSI_CONVERT_TILE) {
            int64_t m = lsi_min(LSI_CONVERT_TILE, n - at), from = s * a->context * a->width + begin + at;

            add_row(dwpe + at, lsi_convert_load(&a->dy, from, m, tile), m);
        }
    }
}

ls_status LSI_CPU_KERNEL(embedding_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_embedding_bwd_args a = *(const lsi_embedding_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("embedding_bwd", &a.dy));
    if (!a.accumulate_wte) {
        ls_parallel_for(run, lsi_blocks(a.rows * a.width, ELEMENTS_PER_BLOCK), clear_wte_block, &a);
    }
    ls_parallel_for(run, lsi_blocks(a.rows, TABLE_ROWS) * lsi_blocks(a.width, TABLE_COLUMNS), wte_block, &a);
    ls_parallel_for(run, lsi_blocks(a.context * a.width, ELEMENTS_PER_BLOCK), wpe_block, &a);
    return LS_OK;
}
