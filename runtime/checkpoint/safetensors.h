/* Reads safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes. Little-endian. */
#ifndef LSI_CHECKPOINT_SAFETENSORS_H
#define LSI_CHECKPOINT_SAFETENSORS_H

#include "base/file.h"
#include <lockstep/status.h>
#include <lockstep/types.h>

typedef struct lsi_tensor {
    char *name;
    ls_dtype dtype;             /* F32, F64, I32 and U8 are read */
    ls_shape shape;
    int64_t count;
    const void *data;           /* inside the mapped file; not aligned beyond bytes */
} lsi_tensor;

typedef struct lsi_safetensors {
    lsi_mapping mapping;
    char *path;
    int n, n_metadata;
    lsi_tensor *tensor;
    struct lsi_safetensors_metadata {
        char *key, *value;
    } *metadata;
} lsi_safetensors;

/* Maps the file and checks its header: sizes, offsets, overlaps with the header. ERR_DATA names path and tensor. */
LS_MUST_USE ls_status lsi_safetensors_open(const char *path, lsi_safetensors *out);
void lsi_safetensors_close(lsi_safetensors *file);
/* NULL when there is none. */
const lsi_tensor *lsi_safetensors_find(const lsi_safetensors *file, const char *name);
const char *lsi_safetensors_metadata(const lsi_safetensors *file, const char *key);

#endif
