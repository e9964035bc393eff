/* Where the cuda kernels follow the cpu's rule to the last bit: not promised to users, but it makes the op cases sharp. */
#ifndef LS_TESTS_SUPPORT_SAME_BITS_H
#define LS_TESTS_SUPPORT_SAME_BITS_H

#include "support/op_run.h"

/* What the cpu kernel makes of the same memories, for those ops; NULL where there is nothing to compare. */
typedef struct same_bits same_bits;
same_bits *same_bits_begin(const ls_op *op, const void *arguments, const op_run_memory *memories, int n);
/* Fails the test where the memories now hold other bits; frees. NaN may have any. */
void same_bits_end(same_bits *s, const ls_op *op, const void *arguments);

#endif
