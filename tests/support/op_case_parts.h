/* What op_case.c and op_case_expect.c share, and no test needs. */
#ifndef LS_TESTS_SUPPORT_OP_CASE_PARTS_H
#define LS_TESTS_SUPPORT_OP_CASE_PARTS_H

#include "support/op_case.h"

/* Zeroed memory; the test fails when there is none. free() it. */
void *op_case_allocate(size_t bytes);
int op_case_view_index(const op_case *c, const ls_view *view);
size_t op_case_slot_bytes(const op_case_slot *slot);
/* Whether a view with memory of its own may change: it is no input, or an output shares its memory. */
bool op_case_may_change(const op_case *c, int index);
/* Runs and checks at every level with 1 .. max_threads threads, `repeats` times each at other alignments. */
void op_case_run_levels(op_case *c, int max_threads, int repeats);

uint16_t op_case_to_half(ls_dtype dtype, float value);
float op_case_from_half(ls_dtype dtype, uint16_t half);

#endif
