#include "data/contents.h"

#include "base/memory.h"

static const size_t max_inflated_bytes = (size_t)1 << 40;   /* far above any memory: only stops a nonsensical stream */

ls_status lsi_contents_open(const char *path, lsi_contents *out)
{
    lsi_mapping mapping;

    LS_TRY(lsi_file_map(path, LS_ERR_DATA, &mapping));
    if (!lsi_file_is_gzip(mapping.data, mapping.size)) {
        *out = (lsi_contents){.data = mapping.data, .size = (int64_t)mapping.size, .mapping = mapping};
        return LS_OK;
    }
    unsigned char *inflated;
    size_t size;
    ls_status status =
        lsi_file_inflate(path, mapping.data, mapping.size, max_inflated_bytes, LS_ERR_DATA, &inflated, &size);

    lsi_file_unmap(&mapping);
    LS_TRY(status);
    *out = (lsi_contents){.data = inflated, .size = (int64_t)size, .inflated = inflated};
    return LS_OK;
}

void lsi_contents_close(lsi_contents *contents)
{
    lsi_file_unmap(&contents->mapping);
    lsi_memory_free(contents->inflated);
    *contents = (lsi_contents){0};
}
