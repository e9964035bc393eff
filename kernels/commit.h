/* The decision at the end of a step, and how a block's sum of squares names an element that is not finite. */
#ifndef LSI_KERNELS_COMMIT_H
#define LSI_KERNELS_COMMIT_H

#include "base/host_device.h"

#include <string.h>

#include "kernels/ops.h"

/* Sums losses, counts and squared norms in slot and block order; decides skip, clip factor, learning rate, Adam's
 * powers, loss scale and counters; writes the result for the host (kernels/commit_decide.h). */
void lsi_commit_decide(const lsi_commit_args *arguments);

/* A block's sum of squares that says which of its elements is not finite: a quiet NaN with the index in the low 14 bits
 * and, above them, a mark that no NaN made by arithmetic has. */
#define LSI_BAD_SUM UINT64_C(0x7FF8000000004000)

LSI_HOST_DEVICE static inline double lsi_bad_sum(int64_t index)
{
    uint64_t bits = LSI_BAD_SUM | (uint64_t)index;
    double sum;

    memcpy(&sum, &bits, sizeof(sum));
    return sum;
}

/* The index that lsi_bad_sum packed; -1 for any other number. */
LSI_HOST_DEVICE static inline int64_t lsi_bad_element(double sum)
{
    uint64_t bits;

    memcpy(&bits, &sum, sizeof(bits));
    return (bits & ~(uint64_t)(LSI_BLOCK - 1)) == LSI_BAD_SUM ? (int64_t)(bits & (LSI_BLOCK - 1)) : -1;
}

#endif
