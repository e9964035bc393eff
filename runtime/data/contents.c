#include "data/contents.h"

#include "base/memory.h"

static const size_t max_inflated_bytes = (size_t)1 << 40;   /* far above any memory: only stops a nonsensical stream */

static bool is_gzip(const lsi_mapping *mapping)
{
    return mapping->size >= 2 && mapping->data[0] == 0x1f && mapping->data[1] == 0x8b;
}

ls_status lsi_contents_open(const char *path, lsi_contents *out)
{
    lsi_contents contents = {0};
    size_t size;

    LS_TRY(lsi_file_map(path, LS_ERR_DATA, &contents.mapping));
    if (is_gzip(&contents.mapping)) {
        lsi_file_unmap(&contents.mapping);
        LS_TRY(lsi_file_read_maybe_gzip(path, max_inflated_bytes, LS_ERR_DATA, &contents.inflated, &size));
        contents.data = contents.inflated;
    } else {
        size = contents.mapping.size;
        contents.data = contents.mapping.data;
    }
    contents.size = (int64_t)size;
    *out = contents;
    return LS_OK;
}

void lsi_contents_close(lsi_contents *contents)
{
    lsi_file_unmap(&contents->mapping);
    lsi_memory_free(contents->inflated);
    *contents = (lsi_contents){0};
}
