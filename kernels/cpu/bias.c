/* Gradient of a bias: sums of columns. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"

/* Adds rows [first, last), columns [begin, begin + n), n at most LSI_CONVERT_TILE. */
static void add_rows(const lsi_bias_bwd_args *a, int64_t first, int64_t last, int64_t begin, int64_t n, float *part)
{
    float tile[LSI_CONVERT_TILE];

    for (int64_t row = first; row < last; row++) {
        lsi_columns_add(part, lsi_convert_load(&a->dy, row * a->cols + begin, n, tile), n);
    }
}

/* ---- by parts ------------------------------------------------------------------------------------------------ */

typedef struct by_parts {
    const lsi_bias_bwd_args *a;
    float *sums;            /* of all columns, by part */
} by_parts;

static int64_t n_parts(const lsi_bias_bwd_args *a)
{
    return lsi_blocks(a->rows, LSI_COLUMN_ROWS);
}

static void part_block(void *argument, int64_t block)
{
    const by_parts *p = argument;
    int64_t cols = p->a->cols, first = block * LSI_COLUMN_ROWS, last = lsi_min(first + LSI_COLUMN_ROWS, p->a->rows);
    float *part = p->sums + block * cols;

    memset(part, 0, (size_t)cols * sizeof *part);
    for (int64_t row = first; row < last; row++) {
        for (int64_t begin = 0; begin < cols; begin += LSI_CONVERT_TILE) {
            add_rows(p->a, row, row + 1, begin, lsi_min(LSI_CONVERT_TILE, cols - begin), part + begin);
        }
    }
}

static void combine_block(void *argument, int64_t block)
{
    const by_parts *p = argument;
    int64_t begin = block * LSI_COLUMNS, n = lsi_min(LSI_COLUMNS, p->a->cols - begin);
    float sum[LSI_COLUMNS] = {0};

    for (int64_t i = 0; i < n_parts(p->a); i++) {
        lsi_columns_add(sum, p->sums + i * p->a->cols + begin, n);
    }
    lsi_columns_store((float *)p->a->db.data + begin, sum, n, p->a->accumulate);
}

/* Apart, so that only this path has the frame. */
static __attribute__((noinline)) void run_by_parts(const ls_cpu_run *run, const lsi_bias_bwd_args *a)
{
    _Alignas(64) float sums[LSI_COLUMN_PARTS];
    by_parts p = {a, sums};

    ls_parallel_for(run, n_parts(a), part_block, &p);
    ls_parallel_for(run, lsi_blocks(a->cols, LSI_COLUMNS), combine_block, &p);
}

/* ---- by columns ---------------------------------------------------------------------------------------------- */

static void columns_block(void *argument, int64_t block)
{
    const lsi_bias_bwd_args *a = argument;
    int64_t begin = block * LSI_COLUMNS, n = lsi_min(LSI_COLUMNS, a->cols - begin);
    float sum[LSI_COLUMNS] = {0};

    for (int64_t first = 0; first < a->rows; first += LSI_COLUMN_ROWS) {
        float part[LSI_COLUMNS] = {0};

        add_rows(a, first, lsi_min(first + LSI_COLUMN_ROWS, a->rows), begin, n, part);
        lsi_columns_add(sum, part, n);
    }
    lsi_columns_store((float *)a->db.data + begin, sum, n, a->accumulate);
}

ls_status LSI_CPU_KERNEL(bias_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_bias_bwd_args a = *(const lsi_bias_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("bias_bwd", &a.dy));
    if (a.cols > 0 && n_parts(&a) <= LSI_COLUMN_PARTS / a.cols) {
        run_by_parts(run, &a);
    } else {
        ls_parallel_for(run, lsi_blocks(a.cols, LSI_COLUMNS), columns_block, &a);
    }
    return LS_OK;
}
