/* What the cuda kernels share: a kernel per element type, the sizes of grids, checks of arguments.
 *
 * Rules of every kernel: arithmetic in f32 (sums that leave a block in double where the cpu kernel does so), no fast-math,
 * FMA where written; grid sizes follow from the element count alone; no atomics on floats; reductions run over blocks of
 * constant length, combined in order; which accesses are 16 bytes wide changes no bit. Kernels are extern "C" and take
 * the op's argument struct as it is; templates hold no shared memory. */
#ifndef LSI_KERNELS_CUDA_KERNEL_H
#define LSI_KERNELS_CUDA_KERNEL_H

#include "kernels/cuda/launch.h"

#include "backend/cuda/cuda.h"
#include "kernels/ops.h"

enum { LSI_THREADS = 256 };     /* of a block, where a kernel needs nothing else */

/* lsi_NAME_f32, _f16 and _bf16 with these parameters, which call NAME<type> with these arguments. */
#define LSI_KERNEL_TYPES(name, parameters, arguments) \
    LSI_KERNEL_TYPE(name, f32, float, parameters, arguments) \
    LSI_KERNEL_TYPE(name, f16, __half, parameters, arguments) \
    LSI_KERNEL_TYPE(name, bf16, __nv_bfloat16, parameters, arguments)
#define LSI_KERNEL_TYPE(name, suffix, type, parameters, arguments)                            \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_##name##_##suffix parameters \
    {                                                                                         \
        name<type> arguments;                                                                 \
    }

/* Queues the one of them for `dtype`; an ls_status. `op` is what a failure is called after. */
#define LSI_LAUNCH_TYPES(op, name, dtype, grid, block, stream, ...)                                         \
    lsi_cuda_launched(op, (dtype) == LS_F16                                                                 \
                              ? LAUNCH(lsi_##name##_f16, (grid), (block), 0, (stream), __VA_ARGS__)         \
                              : (dtype) == LS_BF16                                                          \
                                    ? LAUNCH(lsi_##name##_bf16, (grid), (block), 0, (stream), __VA_ARGS__)  \
                                    : LAUNCH(lsi_##name##_f32, (grid), (block), 0, (stream), __VA_ARGS__))

/* All given views (count above 0) have one type, and that is f32, f16 or bf16. */
extern "C" LS_MUST_USE ls_status lsi_cuda_check_types(const char *op, const ls_view *const *views, int n);
#define LSI_CHECK_TYPES(op, ...)                                                                                \
    do {                                                                                                        \
        const ls_view *const lsi_views_[] = {__VA_ARGS__};                                                      \
        LS_TRY(lsi_cuda_check_types(op, lsi_views_, (int)(sizeof lsi_views_ / sizeof lsi_views_[0])));          \
    } while (0)

/* Elements of one access of 16 bytes. */
static inline int lsi_cuda_group(ls_dtype dtype)
{
    return dtype == LS_F32 ? 4 : 8;
}

static inline int64_t lsi_cuda_blocks(int64_t n, int64_t per_block)
{
    return (n + per_block - 1) / per_block;
}

static inline unsigned lsi_cuda_grid(int64_t n, int64_t per_block)
{
    return (unsigned)lsi_cuda_blocks(n, per_block);
}

/* Index of the thread in the whole grid of one dimension. */
static __device__ __forceinline__ int64_t lsi_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t lsi_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- matrices, element by element ------------------------------------------------------------------------------ */

/* A thread's group of consecutive elements of one row. */
typedef struct lsi_place {
    int64_t row, column;
} lsi_place;

/* Blocks of LSI_THREADS threads for rows of `cols` elements, `group` to a thread: a power of two of them along the row,
 * so that short rows share a block. */
static inline dim3 lsi_matrix_block(int64_t cols, int group)
{
    unsigned along = 1;

    while (along < LSI_THREADS && (int64_t)along * group < cols) {
        along *= 2;
    }
    return dim3(along, LSI_THREADS / along);
}

static inline unsigned lsi_matrix_grid(int64_t rows, int64_t cols, int group)
{
    dim3 block = lsi_matrix_block(cols, group);

    return (unsigned)(lsi_cuda_blocks(cols, (int64_t)block.x * group) * lsi_cuda_blocks(rows, block.y));
}

/* Where this thread works; it has nothing to do when that is outside of the matrix. */
static __device__ __forceinline__ lsi_place lsi_matrix_place(int64_t cols, int group)
{
    unsigned across = (unsigned)((cols + blockDim.x * group - 1) / (blockDim.x * group));
    lsi_place p;

    p.row = (int64_t)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    p.column = ((int64_t)(blockIdx.x % across) * blockDim.x + threadIdx.x) * group;
    return p;
}

#endif
