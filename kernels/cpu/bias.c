/* Gradient of a bias: sums of columns. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"

static void bias_bwd_block(void *argument, int64_t block)
{
    const lsi_bias_bwd_args *a = argument;
    int64_t begin = block * LSI_COLUMNS, n = lsi_min(LSI_COLUMNS, a->cols - begin);
    float sum[LSI_COLUMNS] = {0}, tile[LSI_COLUMNS];

    for (int64_t first = 0; first < a->rows; first += LSI_COLUMN_ROWS) {
        int64_t last = lsi_min(first + LSI_COLUMN_ROWS, a->rows);
        float part[LSI_COLUMNS] = {0};

        for (int64_t row = first; row < last; row++) {
            const float *dy = lsi_convert_load(&a->dy, row * a->cols + begin, n, tile);

            for (int64_t i = 0; i < n; i++) {
                part[i] += dy[i];
            }
        }
        lsi_columns_add(sum, part, n);
    }
    lsi_columns_store((float *)a->db.data + begin, sum, n, a->accumulate);
}

ls_status LSI_CPU_KERNEL(bias_bwd)(const ls_cpu_run *run, const void *arguments)
{
    lsi_bias_bwd_args a = *(const lsi_bias_bwd_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("bias_bwd", &a.dy));
    ls_parallel_for(run, lsi_blocks(a.cols, LSI_COLUMNS), bias_bwd_block, &a);
    return LS_OK;
}
