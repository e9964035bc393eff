/* The data set contract, for authors of data set kinds.
 *
 * A data set is a fixed number of samples of equal size, read by index in any order by several threads at once. Each
 * sample has one input and a row of targets. It knows nothing of batches, ranks or order. */
#ifndef LS_DATASET_H
#define LS_DATASET_H

#include <lockstep/status.h>
#include <lockstep/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A target that counts neither in the loss nor in the mean. Where targets are real, NaN: all bits one are both. */
enum { LS_TARGET_IGNORED = -1 };

typedef struct ls_dataset ls_dataset;

typedef struct ls_dataset_ops {
    size_t struct_size;
    const char *name;               /* the word used in data.kind */
    void (*close)(ls_dataset *dataset);
    /* Writes sample `index` (0 <= index < n_samples): input_count elements of input_dtype, target_count int32 or,
     * where the targets are real, f32. Called by several threads at once. Values are checked as they are read: ERR_DATA
     * names file, offset, value. */
    ls_status (*read)(const ls_dataset *dataset, int64_t index, void *input, void *targets);
} ls_dataset_ops;

/* Common head: a kind embeds it first in its own struct. */
struct ls_dataset {
    const ls_dataset_ops *ops;
    int64_t n_samples;
    ls_dtype input_dtype;           /* LS_F32 or LS_I32 */
    ls_shape input_shape;           /* of one sample */
    int64_t target_count;           /* of one sample */
    bool real_targets;              /* they are f32, NaN where ignored (ls_targets_f32); false: int32 (ls_targets) */
    int64_t n_classes;              /* targets lie in [0, n_classes) or are ignored; inputs too where they are LS_I32 */
    const char *description;        /* one line for the start message; owned by the data set */
    /* Equal texts: equal samples. Counts, sizes and a checksum, never a path; a resumed run must find the same. The
     * checksum of large data may cover pieces of it. NULL: only the fields above are compared. Owned by the data set. */
    const char *content;
};

#ifdef __cplusplus
}
#endif
#endif
