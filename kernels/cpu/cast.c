/* Elements from one type to another. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"

enum { ELEMENTS_PER_BLOCK = 16384 };

static void cast_block(void *argument, int64_t block)
{
    const lsi_cast_args *a = argument;
    int64_t end = lsi_min((block + 1) * ELEMENTS_PER_BLOCK, a->y.count);
    float tile[LSI_CONVERT_TILE];

    for (int64_t begin = block * ELEMENTS_PER_BLOCK; begin < end; begin += LSI_CONVERT_TILE) {
        int64_t n = lsi_min(LSI_CONVERT_TILE, end - begin);

        lsi_convert_store(&a->y, begin, n, lsi_convert_load(&a->x, begin, n, tile));
    }
}

ls_status LSI_CPU_KERNEL(cast)(const ls_cpu_run *run, const void *arguments)
{
    lsi_cast_args a = *(const lsi_cast_args *)arguments;

    LS_TRY(LSI_CONVERT_CHECK("cast", &a.x));
    LS_TRY(LSI_CONVERT_CHECK("cast", &a.y));
    LS_REQUIRE(a.x.count == a.y.count, LS_ERR_INTERNAL, "cast: %lld elements to %lld", (long long)a.x.count,
               (long long)a.y.count);
    ls_parallel_for(run, lsi_blocks(a.y.count, ELEMENTS_PER_BLOCK), cast_block, &a);
    return LS_OK;
}
