/* Tensors of a checkpoint's files as the arrays of a parameter table. */
#ifndef LSI_CHECKPOINT_BIND_H
#define LSI_CHECKPOINT_BIND_H

#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"

typedef struct lsi_bind {
    const lsi_param_table *params;      /* borrowed, as are the bytes below */
    const char **data;                  /* [array * n parameters + parameter]: its first byte, not aligned */
} lsi_bind;

/* Finds the tensor of every parameter in files[lsi_layout_file_of(array)], under the name of the layout. Files must
 * hold these and no others; ERR_CHECKPOINT names the tensor and both shapes. Without moments (n_arrays 1) only the
 * model's file is looked at. */
LS_MUST_USE ls_status lsi_bind_make(const lsi_safetensors *const *files, const lsi_param_table *params, int n_arrays,
                                    const char *const *array_name, lsi_bind *out);
void lsi_bind_free(lsi_bind *bind);
/* Elements [first, first + count) of the flat index; padding becomes zero. */
void lsi_bind_read(const lsi_bind *bind, int array, int64_t first, int64_t count, float *out);

#endif
