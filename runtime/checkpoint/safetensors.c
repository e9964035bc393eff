#include "checkpoint/safetensors.h"

#include <string.h>

#include <jansson.h>

#include "base/memory.h"

enum { LENGTH_BYTES = 8, HEADER_LIMIT = 100 << 20 };

static const struct {
    const char *name;
    ls_dtype dtype;
} dtypes[] = {{"F32", LS_F32}, {"F64", LS_F64}, {"I32", LS_I32}, {"U8", LS_U8}};

static ls_status find_dtype(const char *path, const char *tensor, const char *name, ls_dtype *out)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = dtypes[i].dtype;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_DATA, "%s: tensor %s has the unsupported type %s", path, tensor, name);
}

static ls_status read_shape(const char *path, const char *name, const json_t *dims, ls_shape *shape)
{
    int64_t count = 1;

    LS_REQUIRE(json_is_array(dims) && json_array_size(dims) <= LS_MAX_RANK, LS_ERR_DATA,
               "%s: tensor %s: shape is not a list of at most %d extents", path, name, LS_MAX_RANK);
    shape->rank = (int)json_array_size(dims);
    for (int i = 0; i < shape->rank; i++) {
        shape->dim[i] = json_integer_value(json_array_get(dims, (size_t)i));
        LS_REQUIRE(shape->dim[i] >= 0 && (shape->dim[i] == 0 || count <= INT64_MAX / 16 / shape->dim[i]), LS_ERR_DATA,
                   "%s: tensor %s: impossible extent %lld", path, name, (long long)shape->dim[i]);
        count *= shape->dim[i];
    }
    return LS_OK;
}

static ls_status read_tensor(const lsi_safetensors *file, size_t data_start, const char *name, const json_t *entry,
                             lsi_tensor *out)
{
    const char *path = file->path, *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t room = file->mapping.size - data_start;

    LS_REQUIRE(type != NULL && json_array_size(offsets) == 2, LS_ERR_DATA, "%s: tensor %s lacks dtype or data_offsets",
               path, name);
    LS_TRY(find_dtype(path, name, type, &out->dtype));
    LS_TRY(read_shape(path, name, json_object_get(entry, "shape"), &out->shape));
    out->count = ls_shape_count(&out->shape);

    int64_t begin = json_integer_value(json_array_get(offsets, 0)),
            end = json_integer_value(json_array_get(offsets, 1));
    LS_REQUIRE(begin >= 0 && end >= begin && (uint64_t)end <= room, LS_ERR_DATA,
               "%s: tensor %s lies at bytes %lld to %lld of %zu", path, name, (long long)begin, (long long)end, room);
    LS_REQUIRE((uint64_t)(end - begin) == (uint64_t)out->count * ls_dtype_bytes(out->dtype), LS_ERR_DATA,
               "%s: tensor %s has %lld bytes, its shape and type ask for %llu", path, name, (long long)(end - begin),
               (unsigned long long)out->count * ls_dtype_bytes(out->dtype));
    out->data = file->mapping.data + data_start + begin;
    return lsi_memory_strdup(name, &out->name);
}

static ls_status read_metadata(lsi_safetensors *file, json_t *object)
{
    const char *key;
    json_t *value;

    LS_TRY(lsi_memory_alloc((json_object_size(object) + 1) * sizeof *file->metadata, "metadata",
                            (void **)&file->metadata));
    json_object_foreach(object, key, value)
    {
        LS_REQUIRE(json_is_string(value), LS_ERR_DATA, "%s: metadata %s is not a text", file->path, key);
        file->n_metadata++;
        LS_TRY(lsi_memory_strdup(key, &file->metadata[file->n_metadata - 1].key));
        LS_TRY(lsi_memory_strdup(json_string_value(value), &file->metadata[file->n_metadata - 1].value));
    }
    return LS_OK;
}

static ls_status read_header(lsi_safetensors *file, json_t *header, size_t data_start)
{
    const char *name;
    json_t *entry;

    LS_TRY(
        lsi_memory_alloc((json_object_size(header) + 1) * sizeof *file->tensor, "tensor list", (void **)&file->tensor));
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            LS_TRY(read_metadata(file, entry));
        } else {
            file->n++;
            LS_TRY(read_tensor(file, data_start, name, entry, &file->tensor[file->n - 1]));
        }
    }
    return LS_OK;
}

static ls_status open_file(lsi_safetensors *file, const char *path)
{
    uint64_t length = 0;
    json_error_t error;

    LS_TRY(lsi_memory_strdup(path, &file->path));
    LS_TRY(lsi_file_map(path, LS_ERR_DATA, &file->mapping));
    LS_REQUIRE(file->mapping.size >= LENGTH_BYTES, LS_ERR_DATA, "%s: too short for a safetensors file", path);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | file->mapping.data[i];
    }
    LS_REQUIRE(length <= HEADER_LIMIT && length <= file->mapping.size - LENGTH_BYTES, LS_ERR_DATA,
               "%s: not a safetensors file (header of %llu bytes)", path, (unsigned long long)length);
    json_t *header =
        json_loadb((const char *)file->mapping.data + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    LS_REQUIRE(json_is_object(header), LS_ERR_DATA, "%s: header is not a JSON object: %s", path, error.text);
    ls_status status = read_header(file, header, LENGTH_BYTES + (size_t)length);
    json_decref(header);
    return status;
}

ls_status lsi_safetensors_open(const char *path, lsi_safetensors *out)
{
    lsi_safetensors file = {0};
    ls_status status = open_file(&file, path);

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
