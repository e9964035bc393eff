/* The decision at the end of a step, on the host. */
#include "kernels/commit_decide.h"

void lsi_commit_decide(const lsi_commit_args *arguments)
{
    const lsi_commit_args *a = arguments;
    const double *values = a->values.data;
    const int32_t *record_index = a->record_index.data, *block_index = a->block_index.data;
    lsi_commit_totals t = lsi_commit_nothing();

    for (int64_t s = 0; s < a->record_index.count; s++) {
        lsi_commit_add_slot(&t, (const ls_slot_record *)(const void *)(values + record_index[s]));
    }
    for (int64_t b = 0; b < a->block_index.count; b++) {
        lsi_commit_add_block(&t, b, values[block_index[b]]);
    }
    lsi_commit_finish(a, &t);
}
