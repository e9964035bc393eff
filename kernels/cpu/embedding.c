/* Token and position embedding. */
#include "kernels/cpu/kernel.h"

#include <string.h>

enum { ELEMENTS_PER_BLOCK = 16384 };

/* ---- forward ------------------------------------------------------------------------------------------------- */

static void embedding_fwd_block(void *argument, int64_t block)
{
    const lsi_embedding_fwd_args *a = argument;
    const int32_t *tokens = a->tokens.data;
    int64_t per_block = lsi_rows_per_block(a->width), begin = block * per_block;
    int64_t end = lsi_min(begin + per_block, a->samples * a->context);

    for (int64_t i = begin; i < end; i++) {
        const float *restrict wte = (const float *)a->wte.data + tokens[i] * a->width;
        const float *restrict wpe = (const float *)a->wpe.data + i % a->context * a->width;
        float *restrict y = (float *)a->y.data + i * a->width;

        for (int64_t c = 0; c < a->width; c++) {
            y[c] = wte[c] + wpe[c];
        }
    }
}

ls_status LSI_CPU_KERNEL(embedding_fwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_embedding_fwd_args a = *(const lsi_embedding_fwd_args *)arguments;
    const int32_t *tokens = a.tokens.data;
    int64_t n = a.samples * a.context, rows = a.width > 0 ? a.wte.count / a.width : 0;

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
    const float *dy = (const float *)a->dy.data + column;
    float *dwte = (float *)a->dwte.data + column;

    for (int64_t i = 0; i < a->samples * a->context; i++) {
        if (tokens[i] >= first && tokens[i] < last) {
            add_row(dwte + tokens[i] * a->width, dy + i * a->width, width);
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
    const float *dy = (const float *)a->dy.data + begin;
    float *dwpe = (float *)a->dwpe.data + begin;

    if (!a->accumulate_wpe) {
        memset(dwpe, 0, (size_t)n * sizeof *dwpe);
    }
    for (int64_t s = 0; s < a->samples; s++) {
        add_row(dwpe, dy + s * a->context * a->width, n);
    }
}

ls_status LSI_CPU_KERNEL(embedding_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_embedding_bwd_args a = *(const lsi_embedding_bwd_args *)arguments;

    if (!a.accumulate_wte) {
        ls_parallel_for(run, lsi_blocks(a.rows * a.width, ELEMENTS_PER_BLOCK), clear_wte_block, &a);
    }
    ls_parallel_for(run, lsi_blocks(a.rows, TABLE_ROWS) * lsi_blocks(a.width, TABLE_COLUMNS), wte_block, &a);
    ls_parallel_for(run, lsi_blocks(a.context * a.width, ELEMENTS_PER_BLOCK), wpe_block, &a);
    return LS_OK;
}
