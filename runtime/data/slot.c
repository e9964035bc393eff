#include "data/slot.h"

#include <string.h>

_Static_assert(LS_TARGET_IGNORED == -1, "ignored targets are all bits one, which is NaN where they are real");

size_t lsi_slot_input_bytes(const ls_dataset *data)
{
    return (size_t)ls_shape_count(&data->input_shape) * ls_dtype_bytes(data->input_dtype);
}

size_t lsi_slot_target_bytes(const ls_dataset *data)
{
    return (size_t)data->target_count * sizeof(int32_t);
}

ls_status lsi_slot_read(const ls_dataset *data, int64_t first, int64_t count, int64_t micro_batch, void *input,
                        void *targets)
{
    size_t input_bytes = lsi_slot_input_bytes(data), target_bytes = lsi_slot_target_bytes(data);
    char *at = input, *target = targets;

    for (int64_t j = 0; j < count; j++) {
        LS_TRY(data->ops->read(data, first + j, at + (size_t)j * input_bytes, target + (size_t)j * target_bytes));
    }
    memset(at + (size_t)count * input_bytes, 0, (size_t)(micro_batch - count) * input_bytes);
    memset(target + (size_t)count * target_bytes, 0xFF, (size_t)(micro_batch - count) * target_bytes);
    return LS_OK;
}
