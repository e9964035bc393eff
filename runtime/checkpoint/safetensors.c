#include "checkpoint/safetensors.h"

#include <string.h>

#include "base/memory.h"
#include "checkpoint/safetensors_header.h"

ls_status lsi_safetensors_open(const char *path, lsi_safetensors *out)
{
    lsi_safetensors file = {0};
    ls_status status = lsi_memory_strdup(path, &file.path);

    if (status == LS_OK) {
        status = lsi_file_map(path, LS_ERR_DATA, &file.mapping);
    }
    if (status == LS_OK) {
        status = lsi_safetensors_header_read(&file);
    }
    if (status != LS_OK) {
        lsi_safetensors_close(&file);
        return status;
    }
    *out = file;
    return LS_OK;
}

void lsi_safetensors_close(lsi_safetensors *file)
{
    for (int i = 0; i < file->n; i++) {
        lsi_memory_free(file->tensor[i].name);
    }
    for (int i = 0; i < file->n_metadata; i++) {
        lsi_memory_free(file->metadata[i].key);
        lsi_memory_free(file->metadata[i].value);
    }
    lsi_memory_free(file->tensor);
    lsi_memory_free(file->metadata);
    lsi_memory_free(file->path);
    lsi_file_unmap(&file->mapping);
    *file = (lsi_safetensors){0};
}

const lsi_tensor *lsi_safetensors_find(const lsi_safetensors *file, const char *name)
{
    for (int i = 0; i < file->n; i++) {
        if (strcmp(file->tensor[i].name, name) == 0) {
            return &file->tensor[i];
        }
    }
    return NULL;
}

const char *lsi_safetensors_metadata(const lsi_safetensors *file, const char *key)
{
    for (int i = 0; i < file->n_metadata; i++) {
        if (strcmp(file->metadata[i].key, key) == 0) {
            return file->metadata[i].value;
        }
    }
    return NULL;
}
