/* What the cpu kernels share: the name of a kernel in this variant, and cutting a range into blocks.
 *
 * Rules of every kernel: arithmetic in f32 (sums that leave the block in double where the row says so); results do not
 * depend on the number of threads: element-wise work is cut at multiples of 1,024, reductions run over blocks of
 * constant length combined in order; no `omp reduction`, no atomics on floats; vector loops are plain C that the
 * compiler vectorises without reassociating. */
#ifndef LSI_KERNELS_CPU_KERNEL_H
#define LSI_KERNELS_CPU_KERNEL_H

#include "kernels/ops.h"
#include <lockstep/backend.h>

#define LSI_PASTE3_(a, b, c) a##b##_##c
#define LSI_PASTE3(a, b, c) LSI_PASTE3_(a, b, c)
/* ls_status LSI_CPU_KERNEL(gelu_fwd)(const ls_cpu_run *run, const void *arguments); */
#define LSI_CPU_KERNEL(op) LSI_PASTE3(lsi_cpu_, op, LSI_ISA)
/* Other functions shared between the files of one variant. */
#define LSI_CPU_NAME(name) LSI_PASTE3(lsi_cpu_, name, LSI_ISA)

/* In front of a loop whose iterations are independent although an output may be an input: without it the compiler asks
 * at run time whether they overlap, and falls back to one element at a time for an op in place. */
#ifdef __clang__
#define LSI_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LSI_INDEPENDENT _Pragma("GCC ivdep")
#endif

static inline int64_t lsi_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t lsi_blocks(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* Rows that make one block of work where each row is computed alone: about 16,384 elements. */
static inline int64_t lsi_rows_per_block(int64_t cols)
{
    return cols > 0 && cols < 16384 ? 16384 / cols : 1;
}

#endif
