/* The samples of one micro-batch, read without a loader: for evaluation. */
#ifndef LSI_DATA_SLOT_H
#define LSI_DATA_SLOT_H

#include <lockstep/dataset.h>

/* Bytes of one sample. */
size_t lsi_slot_input_bytes(const ls_dataset *data);
size_t lsi_slot_target_bytes(const ls_dataset *data);

/* Reads samples first .. first + count - 1 to the front of a slot of micro_batch samples, and fills the rest with
 * samples that count nowhere: inputs 0, targets ignored. `targets`: int32, or f32 where they are real. */
LS_MUST_USE ls_status lsi_slot_read(const ls_dataset *data, int64_t first, int64_t count, int64_t micro_batch,
                                    void *input, void *targets);

#endif
