/* Where every element of the training state lies in a checkpoint's files: a function of the parameter table and the
 * optimizer alone, so the files' bytes do not depend on how many processes write them.
 *
 * model.safetensors holds the weights under the parameters' names, optimizer.safetensors the moments under
 * exp_avg.<name>, exp_avg_sq.<name> or momentum.<name>; f32, unpadded, in declaration order. A run of the flat index is
 * therefore one run of bytes. The weights of a GPT with a head of its own are called transformer.<name>, but for the
 * head: Hugging Face's loader (version 4) takes a file with a lm_head.weight and no such names for a broken one. */
#ifndef LSI_CHECKPOINT_LAYOUT_H
#define LSI_CHECKPOINT_LAYOUT_H

#include "base/text.h"
#include "graph/param.h"
#include "train/state.h"

enum { LSI_LAYOUT_MODEL, LSI_LAYOUT_OPTIMIZER, LSI_LAYOUT_N_FILES };

typedef struct lsi_layout_file {
    const char *name;           /* lsi_layout_file_name */
    char *header;               /* length prefix and JSON, padded to 8 bytes; what the file begins with */
    size_t header_bytes;
    int64_t bytes;              /* of the whole file */
} lsi_layout_file;

typedef struct lsi_layout {
    const lsi_param_table *params;      /* borrowed */
    int n_arrays;
    lsi_layout_file file[LSI_LAYOUT_N_FILES];
    int64_t array_at[LSI_STATE_MAX_ARRAYS];     /* where an array's first tensor begins, in bytes of its file */
} lsi_layout;

/* "model.safetensors", "optimizer.safetensors". */
const char *lsi_layout_file_name(int file);
/* Appends the name of parameter i's tensor in the files; `array` as below. */
void lsi_layout_append_name(const lsi_param_table *params, const char *array, int i, lsi_text *out);
/* The parameter's name in that of a tensor of weights, whoever wrote it: without "transformer." in front. */
const char *lsi_layout_bare_name(const char *tensor);

/* array_name[a]: "" for the weights, else a prefix (lsi_state_array_name). */
LS_MUST_USE ls_status lsi_layout_make(const lsi_param_table *params, int n_arrays, const char *const *array_name,
                                      lsi_layout *out);
void lsi_layout_free(lsi_layout *layout);
static inline int lsi_layout_file_of(int array)
{
    return array == LSI_STATE_WEIGHTS ? LSI_LAYOUT_MODEL : LSI_LAYOUT_OPTIMIZER;
}
/* Bytes [*at, *at + *bytes) of the array's file hold those of elements [first, first + count) of the flat index that
 * are not padding; *bytes may be 0. */
void lsi_layout_range(const lsi_layout *layout, int array, int64_t first, int64_t count, int64_t *at, int64_t *bytes);
/* From the flat index to a file's bytes and back: leaves out padding; fills it with zero. pack may work in place. */
void lsi_layout_pack(const lsi_layout *layout, int64_t first, int64_t count, const float *flat, float *out);
void lsi_layout_unpack(const lsi_layout *layout, int64_t first, int64_t count, const float *packed, float *flat);

#endif
