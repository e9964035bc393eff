/* Reads safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes. Little-endian.
 *
 * A file may come from anyone: everything its header says is checked before it is believed, and no memory is asked for
 * but in proportion to the header that is really there. */
#ifndef LSI_CHECKPOINT_SAFETENSORS_H
#define LSI_CHECKPOINT_SAFETENSORS_H

#include "base/file.h"
#include <lockstep/status.h>
#include <lockstep/types.h>

typedef struct lsi_tensor {
    char *name;
    const char *type;           /* as the file calls it: "F32", "I64", "BOOL" */
    ls_dtype dtype;             /* LS_REAL: a type, or a rank beyond LS_MAX_RANK, that cannot be read here */
    ls_shape shape;             /* rank 0 where the file's is beyond LS_MAX_RANK */
    int64_t count, bytes;
    const void *data;           /* inside the mapped file; not aligned beyond bytes */
} lsi_tensor;

typedef struct lsi_safetensors {
    lsi_mapping mapping;
    char *path;
    int n, n_metadata;
    lsi_tensor *tensor;         /* in the order of their bytes */
    struct lsi_safetensors_metadata {
        char *key, *value;
    } *metadata;
} lsi_safetensors;

/* Maps the file and checks its header: lengths, nesting, types, extents, and that the tensors cover the bytes behind it
 * without holes and overlaps. ERR_DATA names path and tensor. */
LS_MUST_USE ls_status lsi_safetensors_open(const char *path, lsi_safetensors *out);
void lsi_safetensors_close(lsi_safetensors *file);
/* NULL when there is none. */
const lsi_tensor *lsi_safetensors_find(const lsi_safetensors *file, const char *name);
const char *lsi_safetensors_metadata(const lsi_safetensors *file, const char *key);

#endif
