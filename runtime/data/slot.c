#include "data/slot.h"

#include <string.h>

size_t lsi_slot_input_bytes(const ls_dataset *data)
{
    return (size_t)ls_shape_count(&data->input_shape) * ls_dtype_bytes(data->input_dtype);
}

size_t lsi_slot_target_bytes(const ls_dataset *data)
{
    return (size_t)data->target_count * sizeof(int32_t);
}

ls_status lsi_slot_read(const ls_dataset *data, int64_t first, int64_t count, int64_t micro_batch, void *input,
                        int32_t *targets)
{
    size_t input_bytes = lsi_slot_input_bytes(data);
    char *at = input;

    for (int64_t j = 0; j < count; j++) {
        LS_TRY(data->ops->read(data, first + j, at + (size_t)j * input_bytes, targets + j * data->target_count));
    }
    memset(at + (size_t)count * input_bytes, 0, (size_t)(micro_batch - count) * input_bytes);
    for (int64_t i = count * data->target_count; i < micro_batch * data->target_count; i++) {
        targets[i] = LS_TARGET_IGNORED;
    }
    return LS_OK;
}
